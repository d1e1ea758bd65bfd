"""The consumer group protocol (KIP-848), the server's assignors, and groups with members of both protocols."""
