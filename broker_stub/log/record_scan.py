"""Scans the records of a batch without building them: checks that each is well formed, and finds what the broker must know of all.

This is hot code: a broker reads every record of every batch here, and only here. It is index arithmetic on `bytes`, so that mypyc compiles
it to machine code; it also runs uncompiled. The rules are those of Kafka's `DefaultRecord`, so it accepts what Kafka accepts: any negative
length of a key or value is null, and the attributes byte and the UTF-8 of a header's key are not checked. It refuses what Kafka cannot
read, and knows no topics, clocks or error codes.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

_INT64_MAX: Final[i64] = 0x7FFFFFFFFFFFFFFF


class InvalidRecords(Exception):
    """The record at `index` of the batch is not a record."""

    def __init__(self, reason: str, index: int) -> None:
        super().__init__(f"record {index}: {reason}")
        self.reason = reason
        self.index = index


class EndlessLength(InvalidRecords):
    """The varint that should say how long a record is has too many bytes: the one damage for which Kafka has another exception."""


class RecordScan:
    """One pass over the record bytes of a batch; after each `advance` it tells of the records walked so far.

    With `skipping` it does what Kafka does with a compressed batch that it keeps: the length of a record is not compared with its fields. A
    compiled loop does not release the GIL, so the caller scans a long batch in several advances.
    """

    def __init__(self, data: bytes, start: i64, *, skipping: bool = False) -> None:
        self.data = data
        self.skipping = skipping
        self.position: i64 = start
        self.index: i64 = 0
        self.delta: i64 = 0  # the timestamp delta of the last record walked
        self.delta_min: i64 = _INT64_MAX
        self.delta_max: i64 = -_INT64_MAX - 1
        self.null_keys: i64 = 0
        self.consecutive = True  # offset deltas are 0, 1, 2 and so on

    def advance(self, count: i64) -> None:
        """Walks `count` more records, or raises InvalidRecords, after which the walk is over."""
        try:
            self._walk(count)
        except IndexError:
            raise InvalidRecords("the batch ends inside it", self.index) from None
        except _EndlessLength:
            raise EndlessLength("its length has no end", self.index) from None
        except ValueError as error:
            raise InvalidRecords(str(error), self.index) from None

    def _walk(self, count: i64) -> None:
        """One byte of a varint is the usual case and is read in place, five times a record; the calls are for the longer ones.

        No length is checked where it is skipped, because the record must end where its own length says, inside the data. When skipping it
        must at least end inside the data; the next read, or the caller that checks `position`, finds out if it does not.
        """
        data: bytes = self.data
        strict: bool = not self.skipping
        size: i64 = len(data)
        at: i64 = self.position
        index: i64 = self.index
        delta: i64 = self.delta
        low: i64 = self.delta_min
        high: i64 = self.delta_max
        nulls: i64 = self.null_keys
        stop: i64 = index + count
        try:
            while index < stop:
                value: i64 = data[at]  # length
                at += 1
                if value >= 0x80:
                    value, at = _longer_length(data, at, value)
                end: i64 = at + ((value >> 1) ^ -(value & 1))
                if end > size and strict:
                    raise ValueError("it is longer than what is left of the batch")
                delta = data[at + 1]  # timestamp delta, after the attributes
                at += 2
                if delta >= 0x80:
                    delta, at = _longer_varlong(data, at, delta)
                else:
                    delta = (delta >> 1) ^ -(delta & 1)
                if delta < low:
                    low = delta
                if delta > high:
                    high = delta
                value = data[at]  # offset delta
                at += 1
                if value >= 0x80:
                    value, at = _longer_varint(data, at, value)
                if value != index << 1:
                    self.consecutive = False
                value = data[at]  # key
                at += 1
                if value >= 0x80:
                    value, at = _longer_varint(data, at, value)
                if value & 1:
                    nulls += 1
                else:
                    at += value >> 1
                value = data[at]  # value
                at += 1
                if value >= 0x80:
                    value, at = _longer_varint(data, at, value)
                if not value & 1:
                    at += value >> 1
                value = data[at]  # number of headers
                at += 1
                if value != 0:
                    at = _skip_headers(data, at, value)
                if at != end and strict:
                    raise ValueError("its length is not that of its fields")
                index += 1
        finally:
            self.position = at
            self.index = index
            self.delta = delta
            self.delta_min = low
            self.delta_max = high
            self.null_keys = nulls


def _skip_headers(data: bytes, at: i64, value: i64) -> i64:
    if value >= 0x80:
        value, at = _longer_varint(data, at, value)
    count: i64 = value >> 1
    if value & 1 or count > len(data) - at:
        raise ValueError("it cannot have that many headers")
    while count > 0:
        value = data[at]
        at += 1
        if value >= 0x80:
            value, at = _longer_varint(data, at, value)
        if value & 1:
            raise ValueError("a header has no key")
        at += value >> 1
        value = data[at]
        at += 1
        if value >= 0x80:
            value, at = _longer_varint(data, at, value)
        if not value & 1:
            at += value >> 1
        count -= 1
    return at


class _EndlessLength(ValueError):
    """On its way to `advance`, which knows the record."""


def _longer_length(data: bytes, at: i64, first: i64) -> tuple[i64, i64]:
    try:
        return _longer_varint(data, at, first)
    except ValueError:
        raise _EndlessLength from None


def _longer_varint(data: bytes, at: i64, first: i64) -> tuple[i64, i64]:
    """The unsigned 32 bits that start with `first`; what a fifth byte says above them is dropped, as in Java."""
    value: i64 = first & 0x7F
    shift: i64 = 7
    while shift < 35:
        byte: i64 = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 0xFFFFFFFF, at
        shift += 7
    raise ValueError("a varint in it has no end")


def _longer_varlong(data: bytes, at: i64, first: i64) -> tuple[i64, i64]:
    """The signed 64 bits that start with `first`; what a tenth byte says above them is dropped, as in Java."""
    value: i64 = first & 0x7F
    shift: i64 = 7
    while shift < 70:
        byte: i64 = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return ((value >> 1) & _INT64_MAX) ^ -(value & 1), at
        shift += 7
    raise ValueError("a varint in it has no end")
