"""The settings of a transactional producer, and their types for type checkers."""
