"""Concurrent transactions: a pool of transactional producers."""
