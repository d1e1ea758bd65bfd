"""Kafka's codecs, one module each. They write, read and ignore the same bytes as Kafka's Java clients.

Callers use `codec`, which chooses among them.
"""
