"""The transaction coordinators of a cluster: which broker coordinates a transactional id, and how a decision of `init_and_add_table` and
`end_table` takes effect.

`then` is called once with each answer, when the log has what the answer says: at once, unless a replica is behind. The coordinator aborts
a transaction that is open for longer than its timeout. Handlers check permissions and topics, and convert answers for old versions.
Leaves out: two-phase commit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from fencepost.broker_stub.cluster.coordinator_partition import coordinating, led_by, partition_for
from fencepost.broker_stub.cluster.internal_append import Then
from fencepost.broker_stub.cluster.producer_ids import Identity
from fencepost.broker_stub.cluster.release import TRANSACTION_VERSION
from fencepost.broker_stub.cluster.timers import Timer
from fencepost.broker_stub.cluster.topics import STATE_TOPIC
from fencepost.broker_stub.replication.partition_state import NO_LEADER
from fencepost.broker_stub.replication.replica import Replica
from fencepost.broker_stub.transactions.end_table import EPOCH_BUMP_SINCE, End, decide_end
from fencepost.broker_stub.transactions.init_and_add_table import Add, Decision, Init, decide_add, decide_init, decide_verify
from fencepost.broker_stub.transactions.state_log import TxnShard
from fencepost.broker_stub.transactions.states import (
    NONE,
    PREPARED,
    State,
    TopicPartition,
    TransactionMetadata,
    is_timed_out,
    new_txn,
)
from fencepost.producer.wire import ErrorCode
from fencepost.producer.wire.records import PRODUCER_EPOCH_MAX

if TYPE_CHECKING:
    from fencepost.broker_stub.cluster.context import Context

ThenIdentity = Callable[[int, Identity], None]
NO_IDENTITY: Final = Identity(NONE, NONE)


class TransactionCoordinators:
    """Every shard of every broker. A request about a transactional id goes to the broker that leads the id's partition."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._shards: dict[Replica, TxnShard] = {}
        self._looking: Timer | None = None
        config = context.config
        self._look_every_ms = int(config["transaction.abort.timed.out.transaction.cleanup.interval.ms"])
        self._expire_every_ms = int(config["transaction.remove.expired.transaction.cleanup.interval.ms"])
        self._expire_after_ms = int(config["transactional.id.expiration.ms"])
        context.on_leading.append(self._begin)
        self.decided: Callable[[Decision], None] = _unheard  # lets a test count the rows that decided

    @property
    def version(self) -> int:
        """The finalized level of transaction.version."""
        return self._context.features.get(TRANSACTION_VERSION, (0, 0, 0))[2]

    def leader_of(self, transactional_id: str, node_id: int) -> int:
        """The broker that coordinates the id, as far as that broker knows; NO_LEADER if it knows none."""
        topic = self._context.brokers[node_id].image.topics.named(STATE_TOPIC)
        if topic is None:
            return NO_LEADER
        return self._context.led_by(node_id, STATE_TOPIC, partition_for(transactional_id, len(topic.partitions)))

    @property
    def loaded(self) -> list[TxnShard]:
        """Every shard that a broker has loaded."""
        return [shard for shard in self._shards.values() if shard.leads]

    def load(self) -> None:
        """Loads every shard, after a start with topics that were there before."""
        for node_id in self._context.brokers:
            for _ in self.shards_of(node_id):
                pass

    def shards_of(self, node_id: int) -> Iterator[TxnShard]:
        """Every shard that this broker leads and has loaded."""
        return (self._shard(each) for each in led_by(self._context, node_id, STATE_TOPIC) if not self._context.loading_ms(each))

    def shard_for(self, transactional_id: str, node_id: int) -> TxnShard | None:
        """The shard of that id. None: this broker does not lead it, or has not loaded it."""
        replica = coordinating(self._context, node_id, STATE_TOPIC, transactional_id)
        return self._shard(replica) if replica is not None and not self._context.loading_ms(replica) else None

    def refusal(self, transactional_id: str, node_id: int) -> ErrorCode:
        """The code for a broker without the shard of that id."""
        loads = coordinating(self._context, node_id, STATE_TOPIC, transactional_id) is not None
        return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if loads else ErrorCode.NOT_COORDINATOR

    def is_loading(self, node_id: int) -> bool:
        """Whether this broker has not loaded a partition that it leads."""
        return any(self._context.loading_ms(each) for each in led_by(self._context, node_id, STATE_TOPIC))

    def init(self, transactional_id: str, node_id: int, *, expected: Identity | None, timeout_ms: int, then: ThenIdentity) -> None:
        """InitProducerId: gives the producer id and epoch to go on with."""
        shard = self.shard_for(transactional_id, node_id)
        if shard is None:
            then(self.refusal(transactional_id, node_id), NO_IDENTITY)
            return
        now_ms, fresh_id = shard.now_ms(), self._context.producer_ids.fresh
        known = shard.ids.get(transactional_id)
        if known is None:
            if not self._context.has_producer_id(node_id):
                then(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, NO_IDENTITY)
                return
            known = shard.ids[transactional_id] = TransactionMetadata(new_txn(fresh_id(), timeout_ms=timeout_ms, now_ms=now_ms))
        decision = decide_init(known, Init(expected=expected, timeout_ms=timeout_ms, now_ms=now_ms, fresh_id=fresh_id))
        self.decided(decision)
        if decision.fences:
            self._fence(shard, transactional_id, known, lambda code: then(code or ErrorCode.CONCURRENT_TRANSACTIONS, NO_IDENTITY))
        elif decision.coming is None:
            then(decision.code, NO_IDENTITY)
        else:
            identity = decision.identity or NO_IDENTITY
            shard.write(transactional_id, known, decision.coming, lambda code: then(code, NO_IDENTITY if code else identity))

    def add(
        self, transactional_id: str, node_id: int, identity: Identity, partitions: frozenset[TopicPartition], *, version: int, then: Then
    ) -> None:
        """Adds the partitions to the open transaction, or opens one with them. `version`: the client's transaction version."""
        shard, known, code = self._known(transactional_id, node_id)
        if shard is None or known is None:
            then(code)
            return
        asked = Add(identity=identity, partitions=partitions, now_ms=shard.now_ms(), version=version)
        decision = decide_add(known, asked)
        self.decided(decision)
        if decision.coming is None:
            then(decision.code)
        else:
            self._watch()
            shard.write(transactional_id, known, decision.coming, then)

    def verify(
        self, transactional_id: str, node_id: int, identity: Identity, partitions: frozenset[TopicPartition]
    ) -> dict[TopicPartition, int]:
        """Verifies that each partition is part of the open transaction."""
        shard, known, code = self._known(transactional_id, node_id)
        if shard is None or known is None:
            return dict.fromkeys(partitions, code)
        decision = decide_verify(known, Add(identity=identity, partitions=partitions, now_ms=shard.now_ms()))
        self.decided(decision)
        if decision.code:
            return dict.fromkeys(partitions, decision.code)
        return {each: ErrorCode.NONE if each in known.txn.partitions else ErrorCode.TRANSACTION_ABORTABLE for each in partitions}

    def end(self, transactional_id: str, node_id: int, identity: Identity, *, commit: bool, version: int, then: ThenIdentity) -> None:
        """EndTxn: calls `then` when the log has the decision. The markers follow."""
        shard, known, code = self._known(transactional_id, node_id)
        if shard is None or known is None:
            then(code, NO_IDENTITY)
            return
        fresh_id = self._context.producer_ids.fresh
        asked = End(identity=identity, commit=commit, now_ms=shard.now_ms(), fresh_id=fresh_id)
        decision = decide_end(known, asked, version=version)
        self.decided(decision)
        answer = decision.identity or NO_IDENTITY
        if decision.coming is None:
            then(decision.code, answer)
        else:
            self._end(shard, transactional_id, known, decision, lambda code: then(code, NO_IDENTITY if code else answer))

    def _end(self, shard: TxnShard, name: str, known: TransactionMetadata, decision: Decision, then: Then) -> None:
        """Writes that the transaction is about to end, calls `then`, and ends the transaction."""

        def written(code: int) -> None:
            then(code)
            if not code and known.pending is None and known.txn.state in PREPARED:
                shard.finish(name, known)

        assert decision.coming is not None
        shard.write(name, known, decision.coming, written)

    def _fence(self, shard: TxnShard, name: str, known: TransactionMetadata, then: Then) -> None:
        """Aborts the open transaction under the next epoch, so that its producer is fenced."""
        bumps = self.version >= EPOCH_BUMP_SINCE
        txn = known.txn
        stays = bumps or known.fence_failed or txn.epoch == PRODUCER_EPOCH_MAX
        identity = Identity(txn.producer_id, txn.epoch if stays else txn.epoch + 1)
        known.prepare_fence()
        asked = End(identity=identity, commit=False, now_ms=shard.now_ms(), fresh_id=self._context.producer_ids.fresh, internal=True)
        decision = decide_end(known, asked, version=self.version)
        self.decided(decision)
        known.give_up()
        if not bumps:
            known.txn = replace(txn, epoch=identity.epoch, last_epoch=NONE)

        def written(code: int) -> None:
            known.fence_failed = bool(code) and not bumps
            then(code)

        self._end(shard, name, known, decision, written)

    def _known(self, name: str, node_id: int) -> tuple[TxnShard | None, TransactionMetadata | None, int]:
        """The shard and the id, or the error code."""
        if not name:
            return None, None, ErrorCode.INVALID_REQUEST
        shard = self.shard_for(name, node_id)
        if shard is None:
            return None, None, self.refusal(name, node_id)
        return shard, shard.ids.get(name), ErrorCode.INVALID_PRODUCER_ID_MAPPING

    def _watch(self) -> None:
        """Notes that a transaction may be open, and checks for timed-out ones as often as Kafka does."""
        if self._looking is None:
            self._looking = self._context.timers.at(self._context.now_ms() + self._look_every_ms, self._look)

    def _look(self) -> None:
        self._looking = None
        any_open = False
        for shard in tuple(self._shards.values()):
            for name, known in tuple(shard.ids.items()):
                if shard.leads and not shard.paused and is_timed_out(known, shard.now_ms()):
                    self._fence(shard, name, known, _ignored)
                any_open = any_open or known.txn.state is State.ONGOING or known.pending is not None
        if any_open:
            self._watch()

    def _begin(self, replica: Replica) -> None:
        """Loads the state on a new leader. It completes transactions that were about to end, without waiting for a request."""
        if replica.partition.topic == STATE_TOPIC and replica.log.log_end_offset:
            self._context.later_on(replica.node, self._context.brokers[replica.node].loading_ms, lambda: self._load(replica))

    def _load(self, replica: Replica) -> None:
        if replica.leads:
            self._shard(replica)

    def _shard(self, replica: Replica) -> TxnShard:
        shard = self._shards.get(replica)
        if shard is None:
            shard = self._shards[replica] = TxnShard(
                self._context, replica, transaction_version=lambda: self.version, found_open=self._watch, over=self._forget
            )
        shard.load()
        shard.expire(after_ms=self._expire_after_ms, every_ms=self._expire_every_ms)
        return shard

    def _forget(self, replica: Replica, shard: TxnShard) -> None:
        if self._shards.get(replica) is shard:
            del self._shards[replica]


def _unheard(decision: Decision) -> None:
    """The default of `decided`: does nothing."""


def _ignored(code: int) -> None:
    """Ignores the result: the next check tries again."""
