"""Rows as columns of bytes, from which `arrow_plan` and `arrow_partitions` compute without an object for each row.

Compiled by mypyc.
"""

from __future__ import annotations

from mypy_extensions import i64


class Column:
    """Byte strings end to end. `data` ends with eight more bytes of any value. `offsets` holds 32-bit little-endian numbers, one more than
    rows. `valid` holds one byte a row, 0 for null; it is None if no row is null."""

    def __init__(self, data: bytes, offsets: bytes, valid: bytes | None) -> None:
        self.data = data
        self.offsets = offsets
        self.valid = valid


class Columns:
    """Rows as columns. `partitions` (32 bits) and `timestamps` (64 bits, ms) are little-endian, -1 for none. `headers` are packed."""

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
