"""Reads the log as a consumer without a group does: the offsets of partitions, and the records between two offsets as Arrow columns.

It keeps and commits no position. If data is gone it raises, and the caller decides. It needs pyarrow (`fencepost[arrow]`).
"""

from __future__ import annotations

from fencepost.txn.reading.errors import OffsetsGone, PartitionGone, ReadTimeout, Unreadable
from fencepost.txn.reading.limits import Isolation, Limits
from fencepost.txn.reading.reader import LogReader
from fencepost.txn.reading.rows import HEADERS, SCHEMA, SCHEMA_WITH_HEADERS

__all__ = [
    "HEADERS",
    "SCHEMA",
    "SCHEMA_WITH_HEADERS",
    "Isolation",
    "Limits",
    "LogReader",
    "OffsetsGone",
    "PartitionGone",
    "ReadTimeout",
    "Unreadable",
]
