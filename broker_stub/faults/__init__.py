"""Fault rules: which exchange they act on, and how they change it."""
