"""The writer for `foreachBatch` and `write_once`: each batch as one transaction."""
