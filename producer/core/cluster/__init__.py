"""The cluster as the producer knows it: metadata, leaders, the connections to brokers, and rebootstrap."""
