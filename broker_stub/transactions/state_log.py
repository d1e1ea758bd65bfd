"""The transactional ids of one partition of `__transaction_state`, which this file reads from the log and writes to it.

The log holds all state. So a coordinator that moves or restarts continues where the last one stopped, and ends the transactions that were
about to end. A write is answered when every in-sync replica has it. This file decides nothing about transactions.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

from fencepost.broker_stub.cluster.internal_append import RETRY_MS, Then, append
from fencepost.broker_stub.replication.replica import Replica
from fencepost.broker_stub.transactions.markers import Markers, TxnMarker
from fencepost.broker_stub.transactions.records import read_txn, txn_key, txn_value
from fencepost.broker_stub.transactions.states import PREPARED, State, TransactionMetadata, Txn, ended, is_expired
from fencepost.producer.wire import ErrorCode
from fencepost.producer.wire.records import encode_batch, read_records

if TYPE_CHECKING:
    from fencepost.broker_stub.cluster.context import Context

MEANING: Final = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
}
"""The code that a client gets when a write to the log fails. Any other is UNKNOWN_SERVER_ERROR."""


class TxnShard:
    """One partition's ids, at one of its brokers. It watches that broker's replica, and has them while it leads. `found_open` is called
    when the log has an open transaction, and `over` when the replica is no longer one of the partition."""

    def __init__(
        self,
        context: Context,
        replica: Replica,
        *,
        transaction_version: Callable[[], int],
        found_open: Callable[[], None],
        over: Callable[[Replica, TxnShard], object],
    ) -> None:
        self._over = over
        self.ids: dict[str, TransactionMetadata] = {}
        self._found_open = found_open
        self._context = context
        self.now_ms = context.brokers[replica.node].now_ms
        self._replica = replica
        self._transaction_version = transaction_version
        self._epoch = -1
        self._ending: dict[str, Markers] = {}
        self._expired_at_ms = self.now_ms()
        replica.watchers[self] = None
        self.load()

    @property
    def paused(self) -> bool:
        """Whether its broker is paused."""
        return self._context.brokers[self._replica.node].paused

    @property
    def node(self) -> int:
        """Its broker."""
        return self._replica.node

    @property
    def leads(self) -> bool:
        """Whether it has read the log in the current leader epoch."""
        return self._leads_in(self._epoch)

    def load(self) -> None:
        """Reads the log if its broker leads in a new epoch, and ends the transactions that were about to end."""
        replica = self._replica
        if replica.leads and replica.leader_epoch == self._epoch:
            return
        loading_ms = self._context.loading_ms(replica) if replica.leads else 0
        if loading_ms:
            self._context.later_on(replica.node, loading_ms, self.load)
            return
        self._epoch = replica.leader_epoch if replica.leads else -1
        self.ids = {name: TransactionMetadata(txn) for name, txn in _read(replica).items()} if replica.leads else {}
        self._ending = {}
        for name, known in self.ids.items():
            if known.txn.state in PREPARED:
                self.finish(name, known)
            elif known.txn.state is State.ONGOING:
                self._found_open()

    def grew(self, size_bytes: int) -> None:
        """Does nothing: the coordinator itself writes these records."""

    def changed(self) -> None:
        replica = self._replica
        if replica.partition.on(replica.node) is not replica:
            replica.watchers.pop(self, None)
            self._over(replica, self)
        if not self.leads:
            self._context.later_on(self._replica.node, 0, self.load)

    def write(self, name: str, known: TransactionMetadata, coming: Txn, then: Then) -> None:
        """Writes these values to the log, then puts them in force. `then` gets the code for the client."""
        known.prepare(coming)
        self._append(name, coming, coming.timeout_ms, partial(self._written, self._epoch, known, coming, then))

    def finish(self, name: str, known: TransactionMetadata) -> None:
        """Writes the markers of a prepared transaction, then the record that it is complete."""
        txn = known.txn
        known.prepare(ended(txn, now_ms=self.now_ms()))
        marker = TxnMarker(
            producer_id=txn.producer_id,
            epoch=txn.epoch,
            commit=txn.state is State.PREPARE_COMMIT,
            coordinator_epoch=self._epoch,
            transaction_version=txn.client_version,
        )
        epoch = self._epoch
        self._ending[name] = markers = Markers(
            self._context,
            self._replica.node,
            marker,
            transactional_id=name,
            partitions=txn.partitions,
            valid=lambda: self._leads_in(epoch),
            done=partial(self._marked, epoch, name, known),
        )
        markers.send()

    def without_marker(self, name: str) -> frozenset[tuple[str, int]] | None:
        """The partitions that have no marker yet, for a transaction that ends. None: it does not end."""
        markers = self._ending.get(name)
        return frozenset(markers.left) if markers is not None else None

    def expire(self, *, after_ms: int, every_ms: int) -> None:
        """Removes expired ids, as often as Kafka checks. Call this before each read of `ids`."""
        now_ms = self.now_ms()
        if now_ms - self._expired_at_ms < every_ms:
            return
        self._expired_at_ms = now_ms
        for name in [name for name, known in self.ids.items() if is_expired(known, now_ms, after_ms=after_ms)]:
            known = self.ids[name]
            known.pending = State.DEAD
            self._append(name, None, known.txn.timeout_ms, partial(self._tombstone_written, self._epoch, name, known))

    def _append(self, name: str, txn: Txn | None, timeout_ms: int, then: Then) -> None:
        value = txn_value(txn, flexible=self._transaction_version() > 0) if txn is not None else None
        data = encode_batch([(self.now_ms(), txn_key(name), value)])
        append(self._context, self._replica, data, timeout_ms=timeout_ms, then=then)

    def _written(self, epoch: int, known: TransactionMetadata, coming: Txn, then: Then, code: int) -> None:
        if not self._leads_in(epoch):
            then(ErrorCode.NOT_COORDINATOR)
        elif code:
            known.give_up()
            then(MEANING.get(ErrorCode(code), ErrorCode.UNKNOWN_SERVER_ERROR))
        else:
            known.complete(coming)
            then(ErrorCode.NONE)

    def _marked(self, epoch: int, name: str, known: TransactionMetadata) -> None:
        """Every partition has its marker."""
        if not self._leads_in(epoch):
            return
        self._ending.pop(name, None)
        coming = ended(known.txn, now_ms=self.now_ms())

        def written(code: int) -> None:
            if not self._leads_in(epoch):
                return
            if code:
                self._later(lambda: self._marked(epoch, name, known))
            else:
                known.fence_failed = False
                known.complete(coming)

        self._append(name, coming, coming.timeout_ms, written)

    def _tombstone_written(self, epoch: int, name: str, known: TransactionMetadata, code: int) -> None:
        if not self._leads_in(epoch):
            return
        known.give_up()
        if not code:
            del self.ids[name]

    def _leads_in(self, epoch: int) -> bool:
        """Whether it still leads in that epoch, as far as its broker knows. A later leader has read the log itself."""
        return self._replica.leads and epoch == self._epoch == self._replica.leader_epoch

    def _later(self, run: Callable[[], None]) -> None:
        self._context.later_on(self._replica.node, RETRY_MS, run)


def _read(replica: Replica) -> dict[str, Txn]:
    """The newest values of every id in the log."""
    found: dict[str, Txn] = {}
    for _, batch in replica.log.batches():
        for record in read_records(batch):
            assert record.key is not None
            name, txn = read_txn(record.key, record.value)
            if txn is None:
                found.pop(name, None)
            else:
                found[name] = txn
    return found
