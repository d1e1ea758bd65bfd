"""Three brokers without sockets under a virtual clock, the requests to them, and the records that consumers read.

Everything goes through requests, as clients send them. It decides nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from fencepost.broker_stub import handlers
from fencepost.broker_stub.cluster.clock import VirtualClock
from fencepost.broker_stub.cluster.cluster import Cluster
from fencepost.broker_stub.cluster.topics import OFFSETS_TOPIC, STATE_TOPIC
from fencepost.broker_stub.journal.journal import Journal
from fencepost.broker_stub.log.producer_append_info import Origin
from fencepost.broker_stub.replication.partition import Partition
from fencepost.broker_stub.replication.partition_state import NO_LEADER
from fencepost.broker_stub.requests.call import Fate, Reply
from fencepost.broker_stub.requests.dispatcher import Dispatcher
from fencepost.broker_stub.requests.services import Services
from fencepost.broker_stub.transactions.records import txn_key, txn_value
from fencepost.broker_stub.transactions.states import Txn
from fencepost.producer import wire
from fencepost.producer.wire.messages.group_offsets import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics
from fencepost.producer.wire.records import ControlType, encode_batch, iter_batches, read_marker, read_records

handlers.register()

START_MS: Final = 1_700_000_000_000
BROKERS: Final = (1, 2, 3)
REPLICAS: Final = ((1, 2, 3), (2,), (3,))
"""Of the topic's partitions. Those without a follower cannot be written where their broker is not reached."""

EXPIRES_AFTER_MS: Final = 3_600_000
LAG_MAX_MS: Final = 200
CONFIG: Final = {
    "replica.lag.time.max.ms": str(LAG_MAX_MS),
    "transaction.state.log.num.partitions": "1",
    "offsets.topic.num.partitions": "1",
    "transactional.id.expiration.ms": str(EXPIRES_AFTER_MS),
    "transaction.remove.expired.transaction.cleanup.interval.ms": "60000",
}
TOPIC: Final = "t"
READ_COMMITTED: Final = 1
WHOLE_BYTES, ONE_BATCH_BYTES = 1 << 20, 1

Heard = Callable[[Any], None]


def _unheard(answer: Any) -> None:
    """Ignore a response that the client does not get."""


def _unseen() -> None:
    """Ignore that a broker has the request."""


class Ask(NamedTuple):
    """A request for the leader of a partition.

    `seen` is called when a broker has it. `heard` gets the response, even if the client never gets it.
    """

    partition: Partition
    request: wire.Message
    version: int
    heard: Heard = _unheard
    seen: Callable[[], None] = _unseen


class Sent:
    """A request that a broker has."""

    __slots__ = ("_heard", "answer", "broker", "life")

    def __init__(self, broker: Any, heard: Heard) -> None:
        self.answer: Any = None
        self.broker = broker
        self.life = broker.generation
        self._heard = heard

    @property
    def lost(self) -> bool:
        """Whether no broker will answer it any more."""
        return self.answer is None and bool(self.broker.generation != self.life)

    def replied(self, reply: Reply) -> None:
        assert reply.fate is Fate.ANSWER
        self._heard(reply.response)
        self.answer = reply.response


class Written(NamedTuple):
    """A marker in a partition."""

    partition: int
    producer_id: int
    epoch: int
    coordinator_epoch: int
    commit: bool

    def is_outdated_by(self, newest: Written) -> bool:
        """Whether a later coordinator has written that marker at the same epoch."""
        return self.epoch == newest.epoch and self.coordinator_epoch < newest.coordinator_epoch


class Site:
    """A cluster and its clock."""

    def __init__(self, transaction_version: int) -> None:
        self.clock = VirtualClock(START_MS)
        self.cluster = Cluster(self.clock, brokers=len(BROKERS), transaction_version=transaction_version, config=CONFIG)
        self.services = Services(self.cluster, Journal(0))
        self.dispatcher = Dispatcher(self.services)
        self.data = self.cluster.create_assigned(TOPIC, list(REPLICAS)).partitions
        (self.state,) = self.cluster.internal_topic(STATE_TOPIC).partitions
        (self.offsets,) = self.cluster.internal_topic(OFFSETS_TOPIC).partitions
        self.partitions = [*self.data, self.state, self.offsets]

    @property
    def now_ms(self) -> int:
        return self.clock.now_ms()

    def pass_time(self, ms: int) -> None:
        self.cluster.tick()
        self.clock.advance(ms)
        self.cluster.tick()

    def send(self, ask: Ask, node: int | None = None) -> Sent | None:
        """Deliver the request to the leader, or to that broker. None if no broker accepts it."""
        node = ask.partition.leader if node is None else node
        if node == NO_LEADER or not self.cluster.brokers[node].alive:
            return None
        sent = Sent(self.cluster.brokers[node], ask.heard)
        header = wire.RequestHeader(api_key=ask.request.api, api_version=ask.version, correlation_id=1, client_id="walk")
        ask.seen()
        self.dispatcher.handle(node, 1, header, ask.request, sent.replied)
        return sent

    def ask(self, partition: Partition, request: wire.Message, version: int) -> Any:
        """The response of a request that is answered at once. None if no broker accepts it."""
        self.cluster.tick()  # what was sent before is replicated and answered
        sent = self.send(Ask(partition, request, version))
        self.cluster.tick()
        return sent.answer if sent is not None else None

    def count_rows(self, rows: Counter[str]) -> None:
        """Count every row by which a coordinator decides."""
        self.services.transactions.decided = lambda decision: rows.update((decision.row,))

    def remember(self, transactional_id: str, epoch: int) -> None:
        """Create the state of an id that an earlier coordinator left at that epoch."""
        now_ms = self.now_ms
        txn = Txn(producer_id=self.cluster.producer_ids.fresh(), epoch=epoch, timeout_ms=20_000, updated_ms=now_ms)
        flexible = self.services.transactions.version > 0
        record = encode_batch([(now_ms, txn_key(transactional_id), txn_value(txn, flexible=flexible))])
        self.state.leading.append(record, origin=Origin.COORDINATOR)

    def is_alone(self, node: int) -> bool:
        """Whether only that broker has some undecided records. Without it the partition would have no leader, and Kafka writes no marker
        there.
        """
        alone = [partition for partition in (*self.data, self.offsets) if set(partition.isr) == {node}]
        return any(partition.log.last_stable_offset != partition.log.log_end_offset for partition in alone)

    def is_the_only_one_in_sync(self, node: int) -> bool:
        """Whether some partition has no other replica with all that was acknowledged."""
        return any(partition.isr == [node] for partition in (*self.data, self.offsets, self.state))

    def may_go(self, node: int) -> bool:
        """Whether that broker may stop without undoing what it has done.

        A coordinator acts on its whole log, in Kafka too, including records that its followers lack. A follower without them may end a
        transaction the other way.
        """
        return all(
            partition.leader != node or partition.log.high_watermark >= partition.log.epochs[-1][1]
            for partition in (self.state, self.offsets)
        )

    def heal(self) -> None:
        """Start every broker, and reconnect all of them."""
        for one, other in self.cluster.broker_links.down:
            self.cluster.broker_links.mend(one, other)
        for node in BROKERS:
            self.cluster.start_broker(node)
        self.cluster.tick()

    def markers(self, index: int) -> list[Written]:
        """Every marker in a partition."""
        found = []
        for header, data in self.data[index].log.batches():
            if header.is_control:
                kind, coordinator_epoch, _ = read_marker(data)
                found.append(Written(index, header.producer_id, header.producer_epoch, coordinator_epoch, kind == ControlType.COMMIT))
        return found

    def group_offset(self, group: str, *, stable: bool = True) -> tuple[int, int | None] | None:
        """(code, offset) from which a member of the group would start; None without a coordinator."""
        topics = [OffsetFetchRequestTopics(name=TOPIC, partition_indexes=[0])]
        request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=topics)], require_stable=stable)
        answer = self.ask(self.offsets, request, 9)
        if answer is None:
            return None
        (found,) = answer.groups
        if found.error_code:
            return found.error_code, None
        ((partition,),) = [topic.partitions for topic in found.topics]
        return partition.error_code, partition.committed_offset if partition.committed_offset >= 0 else None


class Reader:
    """A `read_committed` consumer of one partition, which continues where it was."""

    def __init__(self, site: Site, index: int) -> None:
        self.records: list[tuple[int, bytes]] = []
        self.position = 0
        self.stable_offset = self.high_watermark = -1
        self._site = site
        self._index = index

    def poll(self, max_bytes: int = WHOLE_BYTES) -> list[tuple[int, bytes]]:
        """The new records, as a client takes them from the response: without markers and aborted records."""
        asked = wire.FetchPartition(partition=self._index, fetch_offset=self.position, partition_max_bytes=max_bytes)
        topics = [wire.FetchTopic(topic=TOPIC, partitions=[asked])]
        request = wire.FetchRequest(max_bytes=WHOLE_BYTES, isolation_level=READ_COMMITTED, topics=topics)
        answer = self._site.ask(self._site.data[self._index], request, 12)
        if answer is None:
            return []
        ((partition,),) = [topic.partitions for topic in answer.responses]
        assert not partition.error_code, wire.error_name(partition.error_code)
        self.stable_offset, self.high_watermark = partition.last_stable_offset, partition.high_watermark
        aborted = sorted((txn.first_offset, txn.producer_id) for txn in partition.aborted_transactions)
        found = self._taken(partition.records, aborted)
        self.records += found
        return found

    def _taken(self, records: Any, aborted: Sequence[tuple[int, int]]) -> list[tuple[int, bytes]]:
        found: list[tuple[int, bytes]] = []
        skipped: set[int] = set()
        waiting = list(aborted)
        for header, data in iter_batches(records):
            if header.last_offset < self.position:
                continue
            while waiting and waiting[0][0] <= header.last_offset:
                skipped.add(waiting.pop(0)[1])
            if header.is_control:
                if read_marker(data)[0] == ControlType.ABORT:
                    skipped.discard(header.producer_id)
            elif not (header.is_transactional and header.producer_id in skipped):
                for record in read_records(data, verify_crc=False):
                    assert record.value is not None
                    found.append((record.offset, record.value))
            self.position = header.last_offset + 1
        return found


def batch(values: list[bytes], timestamp_ms: int, identity: tuple[int, int], sequence: int) -> bytes:
    """A transactional batch."""
    pid, epoch = identity
    records = [(timestamp_ms, None, value) for value in values]
    return encode_batch(records, producer_id=pid, producer_epoch=epoch, base_sequence=sequence, transactional=True)
