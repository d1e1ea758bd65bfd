"""Share groups: their members, the partitions of each, and their records (KIP-932)."""
