"""Clients' quotas, and what clients have used of them."""
