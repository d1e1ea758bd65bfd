"""The state of one producer in a partition, and the rules that admit a batch.

`admit` is a pure function: an entry and a batch in, a verdict out. The rows of its tables are named after the rules of Kafka's behaviour:
D1 to D12 for data, M1 to M8 for transaction markers. It never answers DUPLICATE_SEQUENCE_NUMBER or UNKNOWN_PRODUCER_ID, because no broker
of Kafka 4 does. It keeps no entries (`producer_state_manager` does), and looks at no offsets, bytes or clocks.

D3, D5 and D6 compare the batch with its verification by the transaction coordinator (KIP-890). A candidate without `verified` passes them.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, auto
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from fencepost.producer.wire.codes import ErrorCode
from fencepost.producer.wire.records import PRODUCER_EPOCH_MAX, decrement_sequence, increment_sequence

BATCHES_REMEMBERED: Final = 5
NO_EPOCH: Final = -1
NO_SEQUENCE: Final = -1


class Origin(Enum):
    """The source of an append: a Produce request, a coordinator on this broker, or replication from a leader that has accepted it."""

    CLIENT = auto()
    COORDINATOR = auto()
    REPLICATION = auto()


class RememberedBatch(Struct, frozen=True):
    """One of a producer's newest batches: enough to recognize a duplicate and to answer it as the first time."""

    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int

    @property
    def first_sequence(self) -> int:
        return decrement_sequence(self.last_sequence, self.offset_delta)

    @property
    def first_offset(self) -> int:
        return self.last_offset - self.offset_delta


class ProducerEntry(Struct, frozen=True, kw_only=True):
    """A producer as one partition knows it. The default is an unknown producer."""

    epoch: int = NO_EPOCH
    coordinator_epoch: int = -1
    last_timestamp: int = -1
    txn_first_offset: int | None = None
    batches: tuple[RememberedBatch, ...] = ()

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE


UNSEEN: Final = ProducerEntry()


class Marker(Struct, frozen=True):
    """The end of a transaction. `transaction_version` comes with the request that writes it, and is 0 when it is read from a log."""

    commit: bool
    coordinator_epoch: int
    transaction_version: int = 0


class Verified(Struct, frozen=True):
    """Whether the coordinator has verified the batch, and the producer's lowest sequence from then on, if that is known."""

    holds: bool
    lowest_sequence: int | None = None
    bumps: bool = False


class Candidate(Struct, frozen=True, kw_only=True):
    """The producer-related part of a batch, with offsets assigned."""

    producer_id: int
    epoch: int
    base_sequence: int
    base_offset: int
    offset_delta: int
    timestamp: int
    transactional: bool = False
    marker: Marker | None = None
    verified: Verified | None = None

    @property
    def last_sequence(self) -> int:
        return NO_SEQUENCE if self.base_sequence == NO_SEQUENCE else increment_sequence(self.base_sequence, self.offset_delta)


class CompletedTxn(Struct, frozen=True):
    """A transaction with data in this log that has its marker now, at `last_offset`."""

    producer_id: int
    first_offset: int
    last_offset: int
    aborted: bool


class Accepted(Struct, frozen=True):
    """The batch may be written, and this is the producer's entry then. `through`: the row that admitted a marker."""

    row: str
    entry: ProducerEntry
    completed: CompletedTxn | None = None
    through: str = ""


class Duplicate(Struct, frozen=True):
    """The log already has the batch, at these offsets."""

    row: str
    batch: RememberedBatch


class BatchRefused(Struct, frozen=True):
    """The batch must not be written."""

    row: str
    code: ErrorCode
    reason: str


Verdict = Accepted | Duplicate | BatchRefused


def admit(entry: ProducerEntry, batch: Candidate, *, origin: Origin) -> Verdict:
    """Decides about one batch of the producer with this entry."""
    if batch.marker is not None:
        return _admit_marker(entry, batch, batch.marker, origin)
    if origin is Origin.CLIENT and batch.epoch == entry.epoch:
        for known in entry.batches:
            if known.last_sequence == batch.last_sequence and known.first_sequence == batch.base_sequence:
                return Duplicate("D1", known)
    row = _first_match(_DATA_ROWS, entry, batch, origin)
    if row is None or row.code is None:
        accepted_by = "D12" if row is None else row.name
        row = _first_match(_OPEN_TXN_ROWS, entry, batch, origin)
        if row is None:
            return Accepted(accepted_by, _with_batch(entry, batch))
    return _refusal(row, entry, batch)


class _Row(Struct, frozen=True):
    """One row of a table: which origins it applies to, its condition, and its code and text. A row without a code admits the batch."""

    name: str
    origins: tuple[Origin, ...]
    matches: Callable[[ProducerEntry, Candidate], bool]
    code: ErrorCode | None = None
    reason: str = ""


_ANY: Final = tuple(Origin)
_LEADER: Final = (Origin.CLIENT, Origin.COORDINATOR)
_CLIENT: Final = (Origin.CLIENT,)

_STALE: Final = "epoch {batch.epoch} is older than {entry.epoch}"


def _is_stale(entry: ProducerEntry, batch: Candidate) -> bool:
    return batch.epoch < entry.epoch


def _is_stale_and_transactional(entry: ProducerEntry, batch: Candidate) -> bool:
    return batch.transactional and _is_stale(entry, batch)  # an open transaction has the entry's epoch


def _is_not_verified(entry: ProducerEntry, batch: Candidate) -> bool:
    in_its_transaction = entry.txn_first_offset is not None and entry.epoch == batch.epoch
    return batch.transactional and not in_its_transaction and batch.verified is not None and not batch.verified.holds


def _is_not_the_first_of_its_epoch(entry: ProducerEntry, batch: Candidate) -> bool:
    return batch.verified is not None and batch.verified.bumps and batch.base_sequence != 0 and not entry.batches


def _comes_before_a_lower_one(entry: ProducerEntry, batch: Candidate) -> bool:
    verified = batch.verified
    return verified is not None and verified.lowest_sequence is not None and batch.base_sequence > verified.lowest_sequence


def _starts_known_producers_epoch_past_0(entry: ProducerEntry, batch: Candidate) -> bool:
    return batch.epoch != entry.epoch and entry.epoch != NO_EPOCH and batch.base_sequence != 0


def _is_new_epoch(entry: ProducerEntry, batch: Candidate) -> bool:
    return batch.epoch != entry.epoch or entry.epoch == NO_EPOCH


def _is_next(entry: ProducerEntry, batch: Candidate) -> bool:
    last = entry.last_sequence
    return batch.base_sequence == (0 if last == NO_SEQUENCE else increment_sequence(last, 1))


def _is_anything(entry: ProducerEntry, batch: Candidate) -> bool:
    return True


def _is_plain_inside_a_transaction(entry: ProducerEntry, batch: Candidate) -> bool:
    return entry.txn_first_offset is not None and not batch.transactional


# First match wins. Coordinators and replicas write no sequences to check: without a match their batch passes (D12).
_DATA_ROWS: Final = (
    _Row("D2", _LEADER, _is_stale_and_transactional, ErrorCode.INVALID_PRODUCER_EPOCH, _STALE),
    _Row("D3", _LEADER, _is_not_verified, ErrorCode.INVALID_TXN_STATE, "the transaction coordinator has not verified its transaction"),
    _Row("D4", _LEADER, _is_stale, ErrorCode.INVALID_PRODUCER_EPOCH, _STALE),
    _Row(
        "D5",
        _CLIENT,
        _is_not_the_first_of_its_epoch,
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        "sequence {batch.base_sequence} is the first of a transaction in this partition, and must be 0",
    ),
    _Row(
        "D6",
        _CLIENT,
        _comes_before_a_lower_one,
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        "sequence {batch.base_sequence} comes before {batch.verified.lowest_sequence}, the lowest that the coordinator verified",
    ),
    _Row(
        "D7",
        _CLIENT,
        _starts_known_producers_epoch_past_0,
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        "sequence {batch.base_sequence} is the first of epoch {batch.epoch}, after epoch {entry.epoch}, and must be 0",
    ),
    _Row("D8", _CLIENT, _is_new_epoch),
    _Row("D9", _CLIENT, _is_next),
    _Row(
        "D10",
        _CLIENT,
        _is_anything,
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        "sequence {batch.base_sequence} does not follow {entry.last_sequence}",
    ),
)
_OPEN_TXN_ROWS: Final = (
    _Row(
        "D11",
        _ANY,
        _is_plain_inside_a_transaction,
        ErrorCode.INVALID_TXN_STATE,
        "a batch without transaction inside the transaction that began at offset {entry.txn_first_offset}",
    ),
)


def _is_tv2(batch: Candidate) -> bool:
    return batch.marker is not None and batch.marker.transaction_version >= 2


def _is_stale_tv2(entry: ProducerEntry, batch: Candidate) -> bool:
    return _is_tv2(batch) and _is_stale(entry, batch)


def _is_at_its_epoch(entry: ProducerEntry, batch: Candidate) -> bool:
    return _is_tv2(batch) and batch.epoch == entry.epoch


def _is_a_retry(entry: ProducerEntry, batch: Candidate) -> bool:
    return _is_at_its_epoch(entry, batch) and entry.txn_first_offset is None


def _would_end_the_next_transaction(entry: ProducerEntry, batch: Candidate) -> bool:
    return _is_at_its_epoch(entry, batch) and batch.epoch != PRODUCER_EPOCH_MAX


def _is_from_an_old_coordinator(entry: ProducerEntry, batch: Candidate) -> bool:
    return batch.marker is not None and batch.marker.coordinator_epoch < entry.coordinator_epoch


# Under transaction.version 2 a marker's epoch is above its data's (M4), or it is a marker's retry (M2).
_MARKER_ROWS: Final = (
    _Row("M1", _LEADER, _is_stale_tv2, ErrorCode.INVALID_PRODUCER_EPOCH, _STALE),
    _Row("M2", _ANY, _is_a_retry),
    _Row(
        "M3",
        _LEADER,
        _would_end_the_next_transaction,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        "epoch {batch.epoch} is that of the open transaction, and must be above it",
    ),
    _Row("M3", _ANY, _is_at_its_epoch),
    _Row("M4", _ANY, lambda entry, batch: _is_tv2(batch)),
    _Row("M5", _LEADER, _is_stale, ErrorCode.INVALID_PRODUCER_EPOCH, _STALE),
    _Row("M5", _ANY, _is_anything),
)
_COORDINATOR_ROWS: Final = (
    _Row(
        "M6",
        _LEADER,
        _is_from_an_old_coordinator,
        ErrorCode.TRANSACTION_COORDINATOR_FENCED,
        "coordinator epoch {batch.marker.coordinator_epoch} is older than {entry.coordinator_epoch}",
    ),
)


def _first_match(rows: tuple[_Row, ...], entry: ProducerEntry, batch: Candidate, origin: Origin) -> _Row | None:
    for row in rows:
        if origin in row.origins and row.matches(entry, batch):
            return row
    return None


def _refusal(row: _Row, entry: ProducerEntry, batch: Candidate) -> BatchRefused:
    assert row.code is not None
    reason = row.reason.format(entry=entry, batch=batch)
    return BatchRefused(row.name, row.code, f"producer {batch.producer_id} at offset {batch.base_offset}: {reason}")


def _with_batch(entry: ProducerEntry, batch: Candidate) -> ProducerEntry:
    """D12: the entry after the batch is written."""
    remembered = RememberedBatch(batch.last_sequence, batch.base_offset + batch.offset_delta, batch.offset_delta, batch.timestamp)
    earlier = entry.batches[1 - BATCHES_REMEMBERED :] if entry.epoch == batch.epoch else ()
    opens = batch.transactional and entry.txn_first_offset is None
    return ProducerEntry(
        epoch=batch.epoch,
        coordinator_epoch=entry.coordinator_epoch,
        last_timestamp=batch.timestamp,
        txn_first_offset=batch.base_offset if opens else entry.txn_first_offset,
        batches=(*earlier, remembered),
    )


def _admit_marker(entry: ProducerEntry, batch: Candidate, marker: Marker, origin: Origin) -> Verdict:
    row = _first_match(_MARKER_ROWS, entry, batch, origin)
    assert row is not None  # the last one matches everything
    through = row.name
    if row.code is None:
        row = _first_match(_COORDINATOR_ROWS, entry, batch, origin)
    if row is not None:
        return _refusal(row, entry, batch)
    ended = replace(
        entry,
        epoch=batch.epoch,
        coordinator_epoch=marker.coordinator_epoch,
        last_timestamp=batch.timestamp,
        txn_first_offset=None,
        batches=entry.batches if entry.epoch == batch.epoch else (),
    )
    if entry.txn_first_offset is None:
        return Accepted("M8", ended, through=through)
    completed = CompletedTxn(batch.producer_id, entry.txn_first_offset, batch.base_offset, not marker.commit)
    return Accepted("M7", ended, completed, through)
