"""Addresses, listening sockets, TLS, and calls into an event loop, for a stub, a proxy and a control."""
