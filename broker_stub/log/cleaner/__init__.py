"""Compaction: of each key only the newest record stays (Kafka's log cleaner)."""
