"""What a partition of `__consumer_offsets` says: groups, their members and committed offsets, with the formats of its records."""
