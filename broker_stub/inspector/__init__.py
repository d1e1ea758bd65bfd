"""A cluster as one JSON snapshot and its exchanges as rows, and the page that shows both: docs/inspector.md."""
