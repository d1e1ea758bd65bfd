"""The HTTP control, through which other processes give a stub or a proxy fault rules and look at it."""
