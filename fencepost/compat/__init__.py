"""Producers with the calls and settings of other Kafka clients: a package for each client. It exports nothing itself."""
