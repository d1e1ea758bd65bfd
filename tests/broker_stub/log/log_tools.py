"""Helpers for the tests of the partition log: a clock that a test sets, batches to append, and appends with short results.

A result is an offset for an append, `Again(offset)` for a duplicate, and the error code for a refusal, so that a test fits into a table.
"""

from __future__ import annotations

from typing import NamedTuple

from fencepost.broker_stub.log import AppendRefused, LogConfig, Origin, PartitionLog
from fencepost.producer.wire.codes import ErrorCode
from fencepost.producer.wire.records import BatchHeader, ControlType, check_crc, encode_batch, encode_marker, read_header

NOW = 1_700_000_000_000


class SetClock:
    """A clock that the test sets."""

    def __init__(self, ms: int = NOW) -> None:
        self.ms = ms

    def __call__(self) -> int:
        return self.ms


class Again(NamedTuple):
    """The append was a duplicate of the batch at this offset."""

    offset: int


Answer = int | Again | ErrorCode


def open_log(config: LogConfig | None = None, *, clock: SetClock | None = None) -> PartitionLog:
    return PartitionLog(clock_ms=clock or SetClock(), config=config)


def data(
    pid: int, epoch: int, sequence: int, count: int = 1, *, transactional: bool = False, timestamp: int = NOW, value: bytes = b"v"
) -> bytes:
    """A batch of `count` records as a producer sends it."""
    return encode_batch(
        [(timestamp, b"k", value)] * count,
        producer_id=pid,
        producer_epoch=epoch,
        base_sequence=sequence,
        transactional=transactional,
    )


def plain(*timestamps: int) -> bytes:
    """A batch without a producer id, one record a timestamp."""
    return encode_batch([(timestamp, b"k", b"v") for timestamp in timestamps or (NOW,)])


def marker(pid: int, epoch: int, *, commit: bool = True, coordinator_epoch: int = 0, timestamp: int = NOW) -> bytes:
    kind = ControlType.COMMIT if commit else ControlType.ABORT
    return encode_marker(kind, producer_id=pid, producer_epoch=epoch, coordinator_epoch=coordinator_epoch, timestamp=timestamp)


def produce(log: PartitionLog, batch: bytes | memoryview, *, leader_epoch: int = 0, request_version: int = 13) -> Answer:
    """The result of a client's append."""
    return _answer(log, batch, Origin.CLIENT, leader_epoch, 0, request_version)


def coordinate(log: PartitionLog, batch: bytes, *, transaction_version: int = 0) -> Answer:
    """The result of a coordinator's append."""
    return _answer(log, batch, Origin.COORDINATOR, 0, transaction_version, 13)


def refusal(log: PartitionLog, batch: bytes, *, request_version: int = 13, origin: Origin = Origin.CLIENT) -> AppendRefused:
    """The full refusal of an append."""
    try:
        log.append(batch, origin=origin, leader_epoch=0, request_version=request_version)
    except AppendRefused as refused:
        return refused
    raise AssertionError("the batch was taken")


def _answer(
    log: PartitionLog, batch: bytes | memoryview, origin: Origin, leader_epoch: int, transaction_version: int, request_version: int
) -> Answer:
    end = log.log_end_offset
    try:
        result = log.append(
            batch, origin=origin, leader_epoch=leader_epoch, request_version=request_version, transaction_version=transaction_version
        )
    except AppendRefused as refused:
        assert log.log_end_offset == end, "a refused batch was written"
        return refused.code
    if result.duplicate:
        assert log.log_end_offset == end, "a duplicate was written"
        return Again(result.base_offset)
    assert result.base_offset == end
    return result.base_offset


def stored_header(log: PartitionLog) -> BatchHeader:
    """The header of the log's only batch, after a check of its checksum."""
    records = bytes(log.read(0, max_bytes=1 << 20).records)
    assert check_crc(records)
    return read_header(records)
