"""The transactional producer's side of a transaction: its state, and its calls to the coordinators."""
