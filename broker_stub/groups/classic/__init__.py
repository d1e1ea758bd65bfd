"""The classic group protocol."""
