"""A batch that the program fills itself, for `AIOKafkaProducer.send_batch`."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from fencepost.compat.aiokafka.values import bytes_or_none, listed
from fencepost.producer.base_producer import checked_timestamp
from fencepost.producer.bulk.rows import packed_headers
from fencepost.producer.wire.records.batch_builder import BatchBuilder as Encoder
from fencepost.producer.wire.records.sizes import BATCH_OVERHEAD, RECORD_BOUND

Row = tuple[bytes | None, bytes | None, list[Any], int]

ONE_RECORD = RECORD_BOUND - BATCH_OVERHEAD
"""The most bytes that a record takes besides key, value and headers."""


class AppendedRecord(NamedTuple):
    """`offset`: the record's number in the batch, from 0. `size`: its bytes in the batch, uncompressed. `timestamp`: milliseconds since
    1970. `crc`: None, as records of today's format have none."""

    offset: int
    size: int
    timestamp: int
    crc: None = None


class BatchBuilder:
    """Records for one partition, at most `batch_size` bytes of them, uncompressed. The first record may be larger."""

    def __init__(
        self,
        batch_size: int,
        key_serializer: Callable[[Any], object] | None = None,
        value_serializer: Callable[[Any], object] | None = None,
    ) -> None:
        self._batch_size = batch_size
        self._key_serializer = key_serializer
        self._value_serializer = value_serializer
        self._encoder = Encoder()
        self._rows: list[Row] = []
        self._closed = False
        self._sent = False

    def append(
        self, *, timestamp: int | None, key: Any, value: Any, headers: Iterable[tuple[str, bytes | None]] | None = ()
    ) -> AppendedRecord | None:
        """Add a record, and return its place in the batch; None if the batch is full or closed. A full batch is closed.

        `timestamp`: milliseconds since 1970, None for now. Raises TypeError for a key or a value that is not bytes-like.
        """
        if self._closed:
            return None
        stamp = int(time.time() * 1000.0) if timestamp is None else checked_timestamp(timestamp)
        key_bytes = bytes_or_none("key", key if self._key_serializer is None else self._key_serializer(key))
        value_bytes = bytes_or_none("value", value if self._value_serializer is None else self._value_serializer(value))
        pairs = listed(headers)
        packed = packed_headers(pairs, "headers") if pairs else None
        before = int(self._encoder.size)
        most = ONE_RECORD + sum(len(part) for part in (key_bytes, value_bytes, packed) if part is not None)
        if self._rows and before + most > self._batch_size:
            self.close()
            return None
        self._encoder.append(stamp, key_bytes, value_bytes, packed)
        self._rows.append((key_bytes, value_bytes, pairs, stamp))
        return AppendedRecord(len(self._rows) - 1, int(self._encoder.size) - before, stamp)

    def close(self) -> None:
        """Accept no more records."""
        self._closed = True

    def closed(self) -> bool:
        """Whether the batch accepts no more records."""
        return self._closed

    def size(self) -> int:
        """The bytes of the batch, with its header, uncompressed."""
        return int(self._encoder.size)

    def record_count(self) -> int:
        """The number of records."""
        return len(self._rows)

    def take(self) -> list[Row]:
        """Close the batch, and return its records as `AsyncProducer.send_many` takes them. Raises ValueError if they were taken before, and
        not given back."""
        if self._sent:
            raise ValueError("this batch was sent before: make another one with create_batch")
        self._sent = True
        self.close()
        return self._rows

    def give_back(self) -> None:
        """None of the records was accepted: the batch can be sent again."""
        self._sent = False
