"""Commits and fetches of offsets, and when offsets expire."""
