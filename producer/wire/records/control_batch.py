"""Control batches: the markers with which a broker ends a transaction, and their types.

It refuses, with `CorruptBatch`, a control batch with an invalid key. An unknown type is returned as a number, because readers skip such
batches.
"""

from __future__ import annotations

from enum import IntEnum
from struct import Struct as Layout
from typing import Final

from fencepost.producer.wire.codecs.codec import CorruptBatch
from fencepost.producer.wire.records.batch_header import Readable, read_header
from fencepost.producer.wire.records.record_batch import encode_batch, read_records

_KEY: Final = Layout(">hh")
_VALUE: Final = Layout(">hi")

CONTROL_BYTES_MAX: Final = 64 * 1024
"""A control batch with larger records is refused. A control record takes a few dozen bytes."""


class ControlType(IntEnum):
    """The type of a control record: the second number of its key."""

    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6


def encode_marker(
    kind: ControlType,
    *,
    producer_id: int,
    producer_epoch: int,
    coordinator_epoch: int,
    timestamp: int,
) -> bytes:
    """Build the batch that commits or aborts a transaction on one partition. It takes one offset and no sequence."""
    if kind not in (ControlType.ABORT, ControlType.COMMIT):
        raise ValueError(f"{kind.name} ends no transaction")
    return encode_batch(
        [(timestamp, _KEY.pack(0, kind), _VALUE.pack(0, coordinator_epoch))],
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        transactional=True,
        control=True,
    )


def read_marker(batch: Readable) -> tuple[int, int, int]:
    """(type, coordinator epoch, version) of a control batch. The epoch is -1 if the type does not end a transaction."""
    if not read_header(batch).is_control:
        raise CorruptBatch("not a control batch")
    records = read_records(batch, limit=CONTROL_BYTES_MAX, with_headers=False)
    if len(records) != 1 or records[0].key is None or len(records[0].key) < _KEY.size:
        raise CorruptBatch("a control batch without a control record")
    version, kind = _KEY.unpack_from(records[0].key)
    if version < 0:
        raise CorruptBatch(f"control record version {version}")
    if kind not in (ControlType.ABORT, ControlType.COMMIT):
        return kind, -1, version
    value = records[0].value
    if value is None or len(value) < _VALUE.size:
        raise CorruptBatch("a transaction marker without its coordinator epoch")
    value_version, coordinator_epoch = _VALUE.unpack_from(value)
    if value_version < 0:
        raise CorruptBatch(f"transaction marker version {value_version}")
    return kind, coordinator_epoch, version
