"""What the other packages of `txn` build on: the outcome of a call across threads, and versioned JSON."""
