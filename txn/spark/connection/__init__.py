"""How Spark's settings become a producer's, and what a Spark session tells of itself."""
