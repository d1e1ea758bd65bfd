"""The RecordAccumulator: batches per partition, the byte budget, partitioners, and the futures of records."""
