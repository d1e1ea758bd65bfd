"""What brokers coordinate beyond the log: groups and their offsets."""
