"""What the producer state takes of a batch: its producer, sequence, and the end of a transaction."""

from __future__ import annotations

from collections.abc import Iterable

from fencepost.broker_stub.log.producer_append_info import Candidate, Marker
from fencepost.producer.wire.records import BatchHeader, ControlType, read_marker


def candidates(batches: Iterable[tuple[BatchHeader, bytes | memoryview]], transaction_version: int = 0) -> list[Candidate]:
    """Those of several batches. Raises CorruptBatch for an invalid marker."""
    found = (candidate_of(header, batch, transaction_version) for header, batch in batches)
    return [each for each in found if each is not None]


def candidate_of(header: BatchHeader, batch: bytes | memoryview, transaction_version: int = 0) -> Candidate | None:
    """The producer-related part of the batch. None: it has none, as a control batch that compaction emptied.

    Raises CorruptBatch for an invalid marker.
    """
    if header.producer_id < 0 or (header.is_control and header.records_count == 0):
        return None
    marker = None
    if header.is_control:
        kind, coordinator_epoch, _ = read_marker(batch)
        if kind not in (ControlType.ABORT, ControlType.COMMIT):
            return None
        marker = Marker(kind == ControlType.COMMIT, coordinator_epoch, transaction_version)
    return Candidate(
        producer_id=header.producer_id,
        epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        base_offset=header.base_offset,
        offset_delta=header.last_offset_delta,
        timestamp=header.max_timestamp,
        transactional=header.is_transactional,
        marker=marker,
    )
