"""Reads a log's bytes from the start, batch by batch, up to the first invalid batch.

The caller decides what to do with the rest. With `check_crcs` off it still checks that the batches fit together.
The stub keeps its logs in memory, so nothing in it recovers one yet.
"""

from __future__ import annotations

from collections.abc import Iterator

from fencepost.broker_stub.log.storage import Storage
from fencepost.producer.wire.records import BATCH_OVERHEAD, BatchHeader, CorruptBatch, check_crc, read_header


def scan(storage: Storage, *, check_crcs: bool) -> Iterator[tuple[int, BatchHeader, bytes | memoryview]]:
    """Each valid batch with its position."""
    position, next_offset = 0, 0
    while True:  # the end of the storage is no header either
        try:
            header = read_header(storage.read(position, BATCH_OVERHEAD))
        except CorruptBatch:
            return
        batch = storage.read(position, header.size)
        if len(batch) < header.size or header.base_offset < next_offset or (check_crcs and not check_crc(batch)):
            return
        yield position, header, batch
        position += header.size
        next_offset = header.last_offset + 1
