"""Guards: proofs that exactly one attempt of each Spark task wrote."""
