"""Checking the rows of a `send_many` before any of them is appended.

A row is a value (bytes or None), a pair (key, value), a longer tuple (key, value, headers, timestamp, partition), or a mapping with these
names. Values and pairs stay as they are; all other rows become a `Row`. A row that cannot be sent raises an error with its number.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from mypy_extensions import i64

from fencepost.producer.errors import RecordTooLarge
from fencepost.producer.wire.records.batch_builder import pack_headers
from fencepost.producer.wire.records.sizes import RECORD_BOUND, record_bound

TIMESTAMP_MAX: Final = 0x7FFFFFFFFFFFFFFF
PARTITION_MAX: Final = 0x7FFFFFFF
NAMES: Final = ("key", "value", "headers", "timestamp", "partition")


class Row:
    """One checked row. Its headers are packed. `timestamp` (ms) and `partition` are -1 if it has none."""

    def __init__(self, key: bytes | None, value: bytes | None, headers: bytes | None, timestamp: i64, partition: i64) -> None:
        self.key = key
        self.value = value
        self.headers = headers
        self.timestamp: i64 = timestamp
        self.partition: i64 = partition


def check_rows(rows: list[object], first: i64, largest: i64, setting: str) -> int:
    """Check the rows, and put a `Row` in the place of each row that is no value and no pair. Returns the highest partition that a row
    names, -1 for none. Raises TypeError, ValueError or RecordTooLarge for the first bad row. `first` is the number of rows[0]."""
    partition_max: i64 = -1
    for place, given in enumerate(rows):
        size: i64 = RECORD_BOUND
        if isinstance(given, bytes):
            size += len(given)
        elif isinstance(given, tuple) and len(given) == 2 and is_data(given[0]) and is_data(given[1]):
            size = record_bound(given[0], given[1], None)
        elif given is not None:
            row = read_row(given, first + place)
            rows[place] = row
            size = record_bound(row.key, row.value, row.headers)
            if row.partition > partition_max:
                partition_max = row.partition
        if size > largest:
            raise RecordTooLarge(f"row {first + place}: a record of up to {size} bytes exceeds {setting}")
    return int(partition_max)


def packed_headers(given: Iterable[object], what: str) -> bytes:
    """(str, bytes or None) pairs, packed as in a record. Raises TypeError, or ValueError for a name that cannot be encoded. `what` names
    them in the error."""
    pairs: list[tuple[str, bytes | None]] = []
    for pair in given:
        if not (isinstance(pair, tuple) and len(pair) == 2 and isinstance(pair[0], str) and is_data(pair[1])):
            raise TypeError(f"{what} must be (str, bytes or None) pairs, not {pair!r}{_what_to_convert(pair)}")
        pairs.append((pair[0], pair[1]))
    try:
        return pack_headers(pairs)
    except UnicodeEncodeError as error:
        raise ValueError(f"{what}: the name {error.object!r} cannot be encoded as UTF-8: {error.reason}") from error


def _what_to_convert(pair: object) -> str:
    """What makes the usual wrong pairs right: texts as values, and names in bytes."""
    if not (isinstance(pair, tuple) and len(pair) == 2):
        return ""
    if isinstance(pair[0], bytes):
        return ": decode the name first"
    return ": encode the value first" if isinstance(pair[0], str) and isinstance(pair[1], str) else ""


def is_data(value: object) -> bool:
    """Whether the object can be a key or a value."""
    return value is None or isinstance(value, bytes)


def not_bytes(field: str, given: object, *, serialized: bool) -> str:
    """The words for a key or a value that is not bytes. `serialized`: the producer's serializer made it."""
    source = f"{field}_serializer returned it" if serialized else f"encode it first, or set {field}_serializer"
    return f"{field} must be bytes or None, not {type(given).__name__}: {source}"


def not_int(field: str, given: object) -> str:
    """The words for a partition or a timestamp that is not an int, such as a number of numpy's. Compiled methods have the same words."""
    return f"{field} must be an int or None, not {type(given).__name__}"


def read_row(given: object, number: i64) -> Row:
    """A row that is a tuple of up to five fields, or a mapping."""
    fields: dict[str, object] = {}
    if isinstance(given, tuple) and 2 <= len(given) <= 5:
        fields = dict(zip(NAMES, given, strict=False))
    elif isinstance(given, Mapping):
        fields = {str(name): field for name, field in given.items()}
        for name in fields:
            if name not in NAMES:
                raise TypeError(f"row {number}: {name!r} is none of {', '.join(NAMES)}")
    else:
        kind = f"a tuple of {len(given)}" if isinstance(given, tuple) else type(given).__name__
        raise TypeError(f"row {number} must be bytes, None, a tuple (key, value, ...) of 2 to 5 or a mapping, not {kind}")
    key, value = fields.get("key"), fields.get("value")
    if not (key is None or isinstance(key, bytes)):
        raise TypeError(f"row {number}: {not_bytes('key', key, serialized=False)}")
    if not (value is None or isinstance(value, bytes)):
        raise TypeError(f"row {number}: {not_bytes('value', value, serialized=False)}")
    timestamp = read_number(fields.get("timestamp"), "timestamp", number, TIMESTAMP_MAX)
    partition = read_number(fields.get("partition"), "partition", number, PARTITION_MAX)
    return Row(key, value, read_headers(fields.get("headers"), number), timestamp, partition)


def read_number(given: object, name: str, number: i64, most: int) -> i64:
    """A timestamp or a partition, checked; -1 for None. `most` is an int, because comparing with an i64 would convert `given` to i64, which
    fails for a number of more than 64 bits."""
    if given is None:
        return -1
    if not isinstance(given, int) or isinstance(given, bool):
        raise TypeError(f"row {number}: {not_int(name, given)}")
    if not 0 <= given <= most:
        raise ValueError(f"row {number}: {name}={given} is out of range: from 0 to {most}")
    return given


def read_headers(given: object, number: i64) -> bytes | None:
    """Headers as (name, bytes or None) pairs or as a mapping, packed."""
    if given is None:
        return None
    pairs = list(given.items()) if isinstance(given, Mapping) else list(given) if isinstance(given, (list, tuple)) else [given]
    return packed_headers(pairs, f"row {number}: headers")
