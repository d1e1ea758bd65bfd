"""OpenTelemetry: spans, W3C headers and metrics. The API is imported with the first producer that has `telemetry=True`."""
