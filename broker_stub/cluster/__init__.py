"""The cluster itself: its brokers, topics, partitions, clock and timers."""
