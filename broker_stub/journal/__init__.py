"""The exchanges that a cluster or a proxy had, for assertions."""
