"""The producers of a partition, rebuilt from its batches as a broker does that starts without a snapshot."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from fencepost.broker_stub.log.candidates import candidate_of
from fencepost.broker_stub.log.producer_append_info import Origin, ProducerEntry
from fencepost.broker_stub.log.producer_state_manager import ProducerStateManager
from fencepost.broker_stub.log.txn_index import AbortedTxn
from fencepost.cli.log_batches import StoredBatch


class Producers:
    """`known`: whether the state follows from the batches. `abort_markers`: the producer of each ABORT marker, by its offset."""

    def __init__(self) -> None:
        self.known = True
        self.abort_markers: dict[int, int] = {}
        self._state = ProducerStateManager()

    @property
    def aborted(self) -> tuple[AbortedTxn, ...]:
        return self._state.txn_index.aborted

    def start_from(self, snapshot: Mapping[int, ProducerEntry]) -> None:
        """Continues from the snapshot in front of the first batch."""
        self._state = ProducerStateManager(snapshot)

    def newest(self) -> dict[int, ProducerEntry]:
        """The entries as a snapshot has them: with the newest batch, and one timestamp for it and for a marker after it."""
        return {
            pid: replace(entry, batches=tuple(replace(batch, timestamp=entry.last_timestamp) for batch in entry.batches[-1:]))
            for pid, entry in self._state.entries.items()
        }

    def add(self, stored: StoredBatch) -> None:
        """Applies the batch. Raises CorruptBatch if it is an unreadable marker."""
        batch = candidate_of(stored.header, stored.data)
        if batch is None:
            return
        if batch.marker is not None and not batch.marker.commit:
            self.abort_markers[batch.base_offset] = batch.producer_id
        if not self.known:
            return
        verdict = self._state.judge([batch], origin=Origin.REPLICATION)
        if isinstance(verdict, list):
            self._state.apply([batch], verdict)
        else:
            self.known = False
