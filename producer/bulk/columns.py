"""Rows as columns of bytes: what a plan is made from (`arrow_plan`, `arrow_partitions`) without an object for each row.

Compiled by mypyc.
"""

from __future__ import annotations

from mypy_extensions import i64


class Column:
    """Byte strings end to end. `data` is followed by eight bytes that do not matter; `offsets` holds 32 bit little-endian numbers, one more
    than rows, `valid` one byte a row, not 0 where there is a value; None: nowhere null."""

    def __init__(self, data: bytes, offsets: bytes, valid: bytes | None) -> None:
        self.data = data
        self.offsets = offsets
        self.valid = valid


class Columns:
    """Rows as columns. `partitions` (32 bit) and `timestamps` (64 bit, ms) are little-endian, -1 where there is none; `headers` are
    packed."""

    def __init__(
        self,
        rows: i64,
        value: Column | None,
        key: Column | None,
        partitions: bytes | None,
        timestamps: bytes | None,
        headers: list[bytes | None] | None,
    ) -> None:
        self.rows: i64 = rows
        self.value = value
        self.key = key
        self.partitions = partitions
        self.timestamps = timestamps
        self.headers = headers
