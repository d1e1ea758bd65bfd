"""Kafka's producer snapshot, byte for byte (`ProducerSnapshot.json`, version 1).

A snapshot has only the newest of the five batches of an entry, so a broker that restarts from it does not know the other four. This file
handles bytes only: the offset of a snapshot is its file's name, and the reader checks whether producers have expired.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Final

from fastcrc.crc32 import iscsi as crc32c

from fencepost.broker_stub.log.errors import CorruptSnapshot
from fencepost.broker_stub.log.producer_append_info import ProducerEntry, RememberedBatch
from fencepost.producer.foundations.counted import counted

_VERSION: Final = 1
_HEAD: Final = struct.Struct(">hI")  # version, CRC-32C of everything after it
_COUNT: Final = struct.Struct(">i")
_ENTRY: Final = struct.Struct(">qhiqiqiq")
_NO_BATCH: Final = RememberedBatch(last_sequence=-1, last_offset=-1, offset_delta=0, timestamp=-1)


def write_snapshot(entries: Mapping[int, ProducerEntry]) -> bytes:
    body = b"".join((_COUNT.pack(len(entries)), *(_pack(pid, entry) for pid, entry in entries.items())))
    return _HEAD.pack(_VERSION, crc32c(body)) + body


def read_snapshot(data: bytes) -> dict[int, ProducerEntry]:
    """The entries, in the order of the file. Raises CorruptSnapshot for bytes that are no snapshot."""
    if len(data) < _HEAD.size + _COUNT.size:
        raise CorruptSnapshot(f"{len(data)} bytes are too few")
    version, crc = _HEAD.unpack_from(data)
    if version != _VERSION:
        raise CorruptSnapshot(f"version {version}")
    body = memoryview(data)[_HEAD.size :]
    if crc != crc32c(body):
        raise CorruptSnapshot("the checksum does not match")
    (count,) = _COUNT.unpack_from(body)
    if len(body) != _COUNT.size + count * _ENTRY.size:
        raise CorruptSnapshot(f"{counted(count, 'entry', 'entries')} in {counted(len(data), 'byte')}")
    return dict(_unpack(*fields) for fields in _ENTRY.iter_unpack(body[_COUNT.size :]))


def _pack(pid: int, entry: ProducerEntry) -> bytes:
    newest = entry.batches[-1] if entry.batches else _NO_BATCH
    first_offset = -1 if entry.txn_first_offset is None else entry.txn_first_offset
    return _ENTRY.pack(
        pid,
        entry.epoch,
        newest.last_sequence,
        newest.last_offset,
        newest.offset_delta,
        entry.last_timestamp,
        entry.coordinator_epoch,
        first_offset,
    )


def _unpack(
    pid: int,
    epoch: int,
    last_sequence: int,
    last_offset: int,
    offset_delta: int,
    timestamp: int,
    coordinator_epoch: int,
    txn_first_offset: int,
) -> tuple[int, ProducerEntry]:
    batches = () if last_offset < 0 else (RememberedBatch(last_sequence, last_offset, offset_delta, timestamp),)
    return pid, ProducerEntry(
        epoch=epoch,
        coordinator_epoch=coordinator_epoch,
        last_timestamp=timestamp,
        txn_first_offset=None if txn_first_offset < 0 else txn_first_offset,
        batches=batches,
    )
