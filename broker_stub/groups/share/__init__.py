"""Share groups: their members, who gets which partition, and their records (KIP-932)."""
