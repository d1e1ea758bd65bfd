"""The rows of a DataFrame as Kafka's records, and the rows in which tasks report to the driver."""
