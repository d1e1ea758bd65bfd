"""Spark's settings as a producer's, and what a Spark session tells about itself."""
