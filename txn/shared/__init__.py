"""One transaction that several processes write: what its owner lends, and the producers that borrow it."""
