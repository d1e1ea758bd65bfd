"""Share groups beside their members: share partitions at their leaders, share sessions, and the share coordinator (KIP-932)."""
