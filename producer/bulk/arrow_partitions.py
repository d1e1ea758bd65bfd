"""The partition of each row of columns, before any row is sent: the one that it names, or the one of its key, for one topic or many.

Partitions of all topics are numbered one after the other (`firsts` has each topic's first number), so that one number means topic and
partition. A row without a possible partition gets a negative number, which is the reason. No row is appended and no number is drawn: the
same columns always get the same numbers.

Compiled by mypyc.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i32, i64

from fencepost.producer.accumulator.partitioner import partition_for_range
from fencepost.producer.bulk.columns import Column
from fencepost.producer.foundations.runtime import BytesWriter, read_i32_le, write_i32_le

KEYLESS: Final = -1
"""A row without key and partition, if the caller wants no partition chosen."""
NO_TOPIC: Final = -2
UNKNOWN_TOPIC: Final = -3
PARTITION_OUT_OF_RANGE: Final = -4

NULL: Final = -1
"""No number, in the columns that `place_rows` gets."""
UNKNOWN: Final = -2
"""A topic that is not known, or a partition below 0."""

NOTHING: Final = b""


def place_rows(
    rows: i64, keys: Column | None, partitions: bytes | None, topics: bytes | None, firsts: bytes, counts: bytes, turn: i64
) -> bytes:
    """A number for each row. All numbers have 32 bits: `partitions` and `topics` have one for each row (NULL, UNKNOWN), `firsts` and
    `counts` one for each topic. Rows without key and partition are spread in even runs over their topic's partitions, from the `turn`th on.
    If `turn` is below 0, they stay KEYLESS."""
    written = BytesWriter()
    key_data, key_ends, key_valid = (keys.data, keys.offsets, keys.valid) if keys is not None else (NOTHING, NOTHING, None)
    first: i64 = 0
    count: i64 = 0
    if topics is None:
        first = i64(read_i32_le(firsts, 0))
        count = i64(read_i32_le(counts, 0))
    key_end: i64 = 0
    row: i64 = 0
    while row < rows:
        key_start: i64 = key_end
        if keys is not None:
            key_end = i64(read_i32_le(key_ends, row * 4 + 4))
        place: i64 = 0
        if topics is not None:
            topic: i64 = i64(read_i32_le(topics, row * 4))
            if topic < 0:
                place = NO_TOPIC
                if topic != NULL:
                    place = UNKNOWN_TOPIC
            else:
                first = i64(read_i32_le(firsts, topic * 4))
                count = i64(read_i32_le(counts, topic * 4))
        if place == 0:
            partition: i64 = NULL
            if partitions is not None:
                partition = i64(read_i32_le(partitions, row * 4))
            if partition >= count or partition < NULL:
                place = PARTITION_OUT_OF_RANGE
            elif partition >= 0:
                place = first + partition
            elif keys is not None and (key_valid is None or key_valid[row] != 0):
                place = first + partition_for_range(key_data, key_start, key_end - key_start, count)
            elif turn >= 0:
                place = first + (turn + row * count // rows) % count
            else:
                place = KEYLESS
        write_i32_le(written, i32(place))
        row += 1
    return written.getvalue()
