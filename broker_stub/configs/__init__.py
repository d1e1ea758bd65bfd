"""Kafka's configs of brokers and topics: names, values, types, and what the stub does about each."""
