"""Statistics, Prometheus text, and failures of which the caller was not told."""
