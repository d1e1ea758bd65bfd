"""The settings of a producer: their struct, their names, and the checks that need nothing but the value."""
