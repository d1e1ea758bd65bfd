"""`send_many` and `send_arrow`: rows and Arrow columns that are appended without an object for each row."""
