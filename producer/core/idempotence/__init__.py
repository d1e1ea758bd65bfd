"""Producer id, epoch and sequence: the in-flight window of each partition, and the hooks of transactions."""
