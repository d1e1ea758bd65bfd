"""What other rooms of transactions stand on: the outcome of a call across threads, and versioned JSON."""
