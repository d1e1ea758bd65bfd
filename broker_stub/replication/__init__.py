"""Replicas of a partition: their leader, what followers fetch from it, the in-sync replicas and the high watermark."""
