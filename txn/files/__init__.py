"""Files as chunks of records: lines, JSON lines, CSV and Parquet. The command `produce` and `Job` read files here, and nowhere else.

This package sends nothing, and prints nothing. Each chunk knows where in the file its records are.
"""
