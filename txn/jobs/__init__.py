"""Restartable ingestion: a source, such as files, and its position in the same transaction as the records that were made of it."""
