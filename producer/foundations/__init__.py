"""What all rooms of `producer` stand on: a broker's address, printable text, a condition, timeouts, and the version."""
