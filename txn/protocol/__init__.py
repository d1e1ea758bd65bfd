"""The requests of transactions to coordinators, the meaning of their answers, and a client for single questions to a cluster."""
