"""The fault proxy, which stands between clients and any Kafka."""
