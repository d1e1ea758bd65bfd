"""What the other rooms of `txn` build on: the outcome of a call across threads, and versioned JSON."""
