"""Where a broker keeps its files: in memory or on disk.

The code above sees one `Directory` with `File`s and does not know which. Nothing here knows logs, offsets or batches.
"""
