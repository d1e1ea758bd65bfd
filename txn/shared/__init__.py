"""One transaction that several processes write: its owner shares partitions, and participants write to them."""
