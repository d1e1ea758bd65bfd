"""The sockets of a cluster: listeners, the connections of clients, and their limits."""
