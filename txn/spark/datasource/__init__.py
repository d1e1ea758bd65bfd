"""The data source `fencepost`, which Spark reads from and writes to."""
