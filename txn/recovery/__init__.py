"""Prepared transactions: their tokens, and how any process ends one or finds out how it ended."""
