"""Everything that does I/O: the engine, connections, TLS, SASL, the sender thread."""
