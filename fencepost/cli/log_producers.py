"""The producers of a partition, rebuilt from its batches as a broker does that starts without a snapshot."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from fencepost.broker_stub.log.producer_append_info import Candidate, Marker, Origin, ProducerEntry
from fencepost.broker_stub.log.producer_state_manager import ProducerStateManager
from fencepost.broker_stub.log.txn_index import AbortedTxn
from fencepost.cli.log_batches import StoredBatch
from fencepost.producer.wire.records import ControlType, read_marker, read_records


class Producers:
    """`known`: whether the state follows from the batches. `abort_markers`: the producer of each ABORT marker, by its offset."""

    def __init__(self) -> None:
        self.known = True
        self.abort_markers: dict[int, int] = {}
        self._state = ProducerStateManager()

    @property
    def aborted(self) -> tuple[AbortedTxn, ...]:
        return self._state.transactions.aborted

    def start_from(self, snapshot: Mapping[int, ProducerEntry]) -> None:
        """Continues from the snapshot in front of the first batch."""
        self._state = ProducerStateManager(snapshot)

    def newest(self) -> dict[int, ProducerEntry]:
        """The entries as a snapshot has them: with the newest batch."""
        return {pid: replace(entry, batches=entry.batches[-1:]) for pid, entry in self._state.entries.items()}

    def add(self, stored: StoredBatch) -> None:
        """Applies the batch. Raises CorruptBatch if it is an unreadable marker."""
        header = stored.header
        marker, timestamp = None, header.max_timestamp
        if header.producer_id < 0 or (header.is_control and not header.records_count):
            return
        if header.is_control:
            kind, coordinator_epoch, _ = read_marker(stored.data)
            if kind not in (ControlType.ABORT, ControlType.COMMIT):
                return
            marker = Marker(kind == ControlType.COMMIT, coordinator_epoch)
            timestamp = read_records(stored.data)[0].timestamp
            if not marker.commit:
                self.abort_markers[header.base_offset] = header.producer_id
        if not self.known:
            return
        batch = Candidate(
            producer_id=header.producer_id,
            epoch=header.producer_epoch,
            base_sequence=header.base_sequence,
            base_offset=header.base_offset,
            offset_delta=header.last_offset_delta,
            timestamp=timestamp,
            transactional=header.is_transactional and not header.is_control,
            marker=marker,
        )
        verdict = self._state.judge([batch], origin=Origin.REPLICATION)
        if isinstance(verdict, list):
            self._state.apply([batch], verdict)
        else:
            self.known = False
