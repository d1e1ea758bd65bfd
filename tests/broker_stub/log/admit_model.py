"""A naive model of a partition's producers, for comparison with `admit`. It keeps the whole history, and searches it each time.

It follows the description of Kafka's behaviour, not the code under test. It has no modular arithmetic (a batch is the list of its
sequences), no table of rows, no entry that is updated, and no window of five.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from fencepost.broker_stub.log.producer_append_info import Candidate, Origin
from fencepost.producer.wire.codes import ErrorCode
from tests.broker_stub.log.log_tools import Again, Answer


@dataclass(frozen=True)
class Happened:
    """One batch or marker that is in the log."""

    pid: int
    epoch: int
    offset: int
    sequences: tuple[int, ...]
    timestamp: int
    transactional: bool = False
    commit: bool | None = None  # of a marker
    coordinator_epoch: int = -1


@dataclass
class Model:
    history: list[Happened] = field(default_factory=list)
    forgotten: dict[int, int] = field(default_factory=dict)  # pid -> how much of the history does not count for it any more

    def of(self, pid: int) -> list[Happened]:
        return [event for event in self.history[self.forgotten.get(pid, 0) :] if event.pid == pid]

    def epoch(self, pid: int) -> int:
        mine = self.of(pid)
        return mine[-1].epoch if mine else -1

    def coordinator_epoch(self, pid: int) -> int:
        return next((event.coordinator_epoch for event in reversed(self.of(pid)) if event.commit is not None), -1)

    def batches(self, pid: int) -> list[Happened]:
        """The batches of the current epoch, since it last began."""
        found: list[Happened] = []
        for event in reversed(self.of(pid)):
            if event.epoch != self.epoch(pid):
                break
            if event.commit is None:
                found.insert(0, event)
        return found

    def open_since(self, pid: int) -> int | None:
        """The start of the open transaction: the first transactional batch after the last marker."""
        since = None
        for event in self.of(pid):
            if event.commit is not None:
                since = None
            elif event.transactional and since is None:
                since = event.offset
        return since

    def aborted(self) -> list[tuple[int, int, int]]:
        found = []
        for number, event in enumerate(self.history):
            if event.commit is False:
                before = Model(self.history[:number])  # an open transaction is never forgotten
                since = before.open_since(event.pid)
                if since is not None:
                    found.append((event.pid, since, event.offset))
        return found

    def last_stable_offset(self, end: int) -> int:
        opened = [self.open_since(pid) for pid in {event.pid for event in self.history}]
        return min([end, *(since for since in opened if since is not None)])

    def expire(self, now_ms: int, after_ms: int) -> list[int]:
        pids = {event.pid for event in self.history if self.of(event.pid)}
        gone = sorted(pid for pid in pids if self.open_since(pid) is None and now_ms - self.of(pid)[-1].timestamp >= after_ms)
        for pid in gone:
            self.forgotten[pid] = len(self.history)
        return gone

    def append(self, batch: Candidate, origin: Origin) -> Answer:
        answer = self._refusal(batch, origin)
        if answer is None:
            answer = batch.base_offset
            self.history.append(_happened(batch))
        return answer

    def _refusal(self, batch: Candidate, origin: Origin) -> Answer | None:
        if batch.marker is not None:
            return self._marker_refusal(batch)
        pid, new = batch.producer_id, _happened(batch)
        known = self.batches(pid)
        if origin is Origin.CLIENT and batch.epoch == self.epoch(pid):
            for event in known[-5:]:
                if (event.sequences[0], event.sequences[-1]) == (new.sequences[0], new.sequences[-1]):
                    return Again(event.offset)
        if batch.epoch < self.epoch(pid):
            return ErrorCode.INVALID_PRODUCER_EPOCH
        if origin is Origin.CLIENT and self.of(pid) and not self._continues(pid, batch.epoch, new.sequences[0]):
            return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        if self.open_since(pid) is not None and not batch.transactional:
            return ErrorCode.INVALID_TXN_STATE
        return None

    def _continues(self, pid: int, epoch: int, sequence: int) -> bool:
        known = self.batches(pid) if epoch == self.epoch(pid) else []
        return sequence == (_after(known[-1].sequences[-1]) if known else 0)

    def _marker_refusal(self, batch: Candidate) -> ErrorCode | None:
        assert batch.marker is not None
        pid, epoch = batch.producer_id, self.epoch(batch.producer_id)
        closes_next = batch.epoch == epoch and self.open_since(pid) is not None and batch.epoch < 32767
        if batch.epoch < epoch or (batch.marker.transaction_version >= 2 and closes_next):
            return ErrorCode.INVALID_PRODUCER_EPOCH
        if batch.marker.coordinator_epoch < self.coordinator_epoch(pid):
            return ErrorCode.TRANSACTION_COORDINATOR_FENCED
        return None


def _after(sequence: int) -> int:
    return 0 if sequence == 2147483647 else sequence + 1


def _happened(batch: Candidate) -> Happened:
    sequences = [batch.base_sequence]
    for _ in range(batch.offset_delta):
        sequences.append(_after(sequences[-1]))
    return Happened(
        pid=batch.producer_id,
        epoch=batch.epoch,
        offset=batch.base_offset,
        sequences=tuple(sequences),
        timestamp=batch.timestamp,
        transactional=batch.transactional,
        commit=None if batch.marker is None else batch.marker.commit,
        coordinator_epoch=-1 if batch.marker is None else batch.marker.coordinator_epoch,
    )
