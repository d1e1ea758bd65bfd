"""The cluster as the producer sees it: metadata, leaders, the connections to brokers, and rebootstrap."""
