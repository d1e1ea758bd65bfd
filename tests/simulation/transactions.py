"""A transactional producer's core in the simulated world, whose network sometimes delivers a request that the producer has already given
up.

One caller makes one transaction after the other, as a program does. The run compares its outcomes with the cluster's final state.
"""

from __future__ import annotations

import random
from collections import defaultdict
from typing import Any, Final

from fencepost.broker_stub.cluster.cluster import Cluster
from fencepost.broker_stub.cluster.topics import OFFSETS_TOPIC, STATE_TOPIC
from fencepost.broker_stub.journal.journal import Journal
from fencepost.broker_stub.requests.call import Reply
from fencepost.broker_stub.requests.dispatcher import Dispatcher
from fencepost.broker_stub.requests.services import Services
from fencepost.broker_stub.transactions.states import State as Known
from fencepost.producer.core.core import Core
from fencepost.producer.core.events import Called, Command, Connected, Features, Return, Send
from fencepost.producer.errors import Fenced
from fencepost.producer.foundations.address import Address
from fencepost.producer.wire import Message, RequestHeader
from fencepost.producer.wire.codes import Api, ErrorCode
from fencepost.producer.wire.messages.group_offsets import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics
from fencepost.producer.wire.records import ControlType, read_marker, read_records
from fencepost.txn.coordinator.pending_calls import Call
from fencepost.txn.coordinator.state_machine import Event
from fencepost.txn.coordinator.transaction_manager import FEATURE, TransactionManager
from fencepost.txn.errors import CommitOutcomeUnknown, MustAbort, TransactionTimeout
from fencepost.txn.group_metadata import GroupMetadata
from fencepost.txn.offsets import OffsetAndMetadata
from tests.simulation.chaos import strand, unstrand
from tests.simulation.world import SESSION_MS, World

NAME: Final = "tx"
TOPIC: Final = "t"
PARTITIONS: Final = 3
TRANSACTIONS: Final = 12
CALL_MS: Final = 120_000.0
STEP_MS: Final = 5.0
PATIENCE_MS: Final = 600_000.0
TRANSACTION_TIMEOUT_MS: Final = 800_000
LATE_MS: Final = (2_000.0, 2_000.0, 4_000.0, 9_000.0, 20_000.0)
ALL_LATE_MS: Final = 25_000.0
HELD: Final = frozenset(
    (
        Api.INIT_PRODUCER_ID,
        Api.ADD_PARTITIONS_TO_TXN,
        Api.ADD_OFFSETS_TO_TXN,
        Api.PRODUCE,
        Api.TXN_OFFSET_COMMIT,
        Api.END_TXN,
    )
)
SETTINGS: Final[dict[str, Any]] = {
    "linger_ms": 0.0,
    "request_timeout_ms": 1_500.0,
    "delivery_timeout_ms": 60_000.0,
    "retry_backoff_ms": 20.0,
    "retry_backoff_max_ms": 300.0,
}
CONFIG: Final = {"transaction.state.log.num.partitions": "1", "offsets.topic.num.partitions": "1"}
UNFINISHED: Final = (Known.ONGOING, Known.PREPARE_COMMIT, Known.PREPARE_ABORT)


class TransactionWorld(World):
    """See the module docstring. `version`: the cluster's transaction version. `stranding`: whether brokers are cut off from the controller
    and paused. `late`: how many requests were late, by API."""

    def __init__(self, seed: int, version: int, *, stranding: bool = True) -> None:
        super().__init__(seed, **SETTINGS)
        self.thorough = False  # records of a transaction that must abort fail in the next round, which is due at once
        self.cluster = Cluster(
            self.clock, brokers=3, seed=seed, transaction_version=version, config={**CONFIG, "broker.session.timeout.ms": SESSION_MS}
        )
        self.services = Services(self.cluster, Journal(0))
        self.dispatcher = Dispatcher(self.services)
        self.late: dict[Api, int] = defaultdict(int)
        self.told: dict[str, int] = defaultdict(int)
        self.stormy = True
        self._strands = stranding
        self._stranding = random.Random(f"stranding {seed}")
        self._features = Features(1, {FEATURE: version})
        self._committed: list[list[bytes]] = [[] for _ in range(PARTITIONS)]
        self._offset = -1
        self._turn = 0
        self.cluster.create_topic(TOPIC, partitions=PARTITIONS, replication_factor=3)
        self._new_producer()

    def run_all(self) -> None:
        """Run every transaction, wait until nothing is under way, then check."""
        for _ in range(TRANSACTIONS):
            self._transact()
            if self.random.random() < 0.3:
                self._come_to_rest()
            if self.random.random() < 0.2:
                self._move_coordinator()
            if self._strands and self._stranding.random() < 0.2:
                strand(self, self._stranding, lambda what: self.told.update({what: self.told[what] + 1}))
        self.stormy = False
        unstrand(self.cluster)
        self._come_to_rest()
        self._transact()
        self._look()

    # -- the program -----------------------------------------------------------------------------------------------------

    def _transact(self) -> None:
        """Run one transaction, and note what the producer reported about it."""
        self._turn += 1
        rows: list[list[bytes]] = [[] for _ in range(PARTITIONS)]
        offset = self._offset
        try:
            self._call(Event.BEGIN)
            try:
                self._write(rows)
                if self.random.random() < 0.4:
                    offset = self._turn
                    self._call(Event.SEND_OFFSETS, offset=offset)
                if self.random.random() < 0.2:
                    self._call(Event.ABORT)
                    self.told["aborted"] += 1
                    return
                self._commit()
            except MustAbort as error:
                if error.code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
                    raise AssertionError(f"a late Produce made a transaction abort: {error}") from error
                self._call(Event.ABORT)
                self.told["had to be aborted"] += 1
                return
        except Fenced as error:
            if "this producer's own" not in str(error):
                raise AssertionError(f"no other producer took the id over: {error}") from error
            self.told["fenced by itself"] += 1
            self._new_producer()
            return
        except CommitOutcomeUnknown:
            self._new_producer()
            self._call(Event.INIT)
            self._come_to_rest()
            if not self._is_committed(rows):
                self.told["not committed, as the logs say"] += 1
                return
        self.told["committed"] += 1
        self._offset = offset
        self._note(rows)

    def _write(self, rows: list[list[bytes]]) -> None:
        """A few records, with pauses between them."""
        for number in range(self.random.choice((1, 2, 4))):
            partition = self.random.randrange(PARTITIONS)
            rows[partition].append(b"%d.%d" % (self._turn, number))
            self.send(TOPIC, partition, rows[partition][-1])
            if self.random.random() < 0.5:
                self.run(self.now + self.random.choice((1.0, 20.0, 3_000.0)))

    def _note(self, rows: list[list[bytes]]) -> None:
        """Note that these rows are committed."""
        for partition, added in enumerate(rows):
            self._committed[partition] += added

    def _commit(self) -> None:
        while True:
            try:
                self._call(Event.COMMIT)
                return
            except CommitOutcomeUnknown:
                if self.dead is not None:
                    raise
                self.told["unknown for a while"] += 1

    def _call(self, event: Event, *, offset: int | None = None) -> None:
        """Make a call; repeat it if its time passed."""
        while True:
            given = None if offset is None else (GroupMetadata("g"), {(TOPIC, 0): OffsetAndMetadata(offset)})
            call = Call(event, deadline_ms=self.now + CALL_MS, offsets=given)
            self.event(Called(call))
            deadline = self.now + PATIENCE_MS
            while not call.outcome.done() and self.now < deadline:
                self.run(self.now + STEP_MS)
            assert call.outcome.done(), f"{event.value} waits for ever"
            try:
                call.outcome.result(0)
                return
            except TransactionTimeout:
                self.told["late calls"] += 1

    def _new_producer(self) -> None:
        """Replace the producer with another one of the same id."""
        for connection in self.connections.values():
            connection.open = False
        self.connections.clear()
        self.dead = None
        self.manager = TransactionManager(NAME, timeout_ms=TRANSACTION_TIMEOUT_MS)
        self.accumulator.refusal = None
        bootstrap = [Address("broker", node) for node in self.cluster.brokers][:1]
        self.core = Core(self.settings, self.accumulator, bootstrap=bootstrap, draw=self.random.random, transactions=self.manager)
        self.accumulator.topics.clear()
        self._timer = float("inf")
        self.learn(TOPIC)
        # Wait until the late requests of the previous producer have arrived: they could fence this one, which is not the subject here.
        self.run(self.now + ALL_LATE_MS)

    # -- the network -----------------------------------------------------------------------------------------------------

    def _do(self, command: Command) -> None:
        match command:
            case Return():
                command.call.finish(command.error)
                return
            case Send() if self.stormy and command.api in HELD and self.random.random() < 0.04 and command.node in self.connections:
                # The connection also delays the requests behind this one.
                self.late[command.api] += 1
                self.connections[command.node]._arrival = self.now + self.random.choice(LATE_MS)
        super()._do(command)

    def event(self, event: Any) -> None:
        if isinstance(event, Connected):
            # Released brokers do not offer KIP-939.
            event = Connected(event.node, {**event.versions, int(Api.INIT_PRODUCER_ID): (0, 5)}, self._features)
        super().event(event)

    def _move_coordinator(self) -> None:
        for topic in (STATE_TOPIC, OFFSETS_TOPIC):
            (partition,) = self.cluster.internal_topic(topic).partitions
            if partition.log.high_watermark == partition.log.log_end_offset:
                self.cluster.move_leader(partition)

    # -- what must be true -----------------------------------------------------------------------------------------------

    def _come_to_rest(self) -> None:
        """Deliver everything that is late. The producer is then idle, so no transaction may be open."""
        self.run(self.now + ALL_LATE_MS)
        state = self._known()
        assert state not in UNFINISHED, f"the producer is in no transaction, but the coordinator's state is {state}"

    def _known(self) -> Known | None:
        shard = self.services.transactions.shard_for(NAME, self.cluster.internal_topic(STATE_TOPIC).partitions[0].leader)
        found = shard.ids.get(NAME) if shard is not None else None
        return found.txn.state if found is not None else None

    def _look(self) -> None:
        self.run(self.now + ALL_LATE_MS)
        for partition in range(PARTITIONS):
            seen, left = self._seen(partition)
            assert not left, f"partition {partition} has something undecided: {left}"
            assert seen == self._committed[partition], (
                f"partition {partition}: {seen} is there, and {self._committed[partition]} was committed"
            )
        (offsets,) = self.cluster.internal_topic(OFFSETS_TOPIC).partitions
        assert offsets.log.last_stable_offset == offsets.log.high_watermark, "the group's offsets are undecided"
        assert self._group_offset(offsets.leader) == self._offset, "the group has an offset that no commit stored"

    def _group_offset(self, node: int) -> int:
        topics = [OffsetFetchRequestTopics(name=TOPIC, partition_indexes=[0])]
        request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=topics)], require_stable=True)
        (reply,) = self._ask_directly(node, request, 9)
        answer: Any = reply.response
        ((partition,),) = [topic.partitions for group in answer.groups for topic in group.topics]
        return int(partition.committed_offset)

    def _ask_directly(self, node: int, request: Message, version: int) -> list[Reply]:
        """Send another client's request, which the network does not delay. The list gets the response when it arrives."""
        replies: list[Reply] = []
        header = RequestHeader(api_key=request.api, api_version=version, correlation_id=1, client_id="another")
        self.dispatcher.handle(node, 0, header, request, replies.append)
        return replies

    def _is_committed(self, rows: list[list[bytes]]) -> bool:
        """The outcome of a transaction of which the caller got none."""
        there = [row in self._seen(partition)[0] for partition, some in enumerate(rows) for row in some]
        assert all(there) or not any(there), f"only a part of the transaction with {rows} is visible"
        return any(there)

    def _seen(self, partition: int) -> tuple[list[bytes], dict[int, list[bytes]]]:
        """What a consumer with `read_committed` reads, and what is undecided, by producer id."""
        found = self.cluster.find(TOPIC, partition)
        assert found is not None
        seen: list[bytes] = []
        left: dict[int, list[bytes]] = defaultdict(list)
        for header, data in found.log.batches():
            if not header.is_control:
                left[header.producer_id] += [bytes(record.value or b"") for record in read_records(data)]
            elif read_marker(data)[0] == ControlType.COMMIT:
                seen += left.pop(header.producer_id, [])
            else:
                left.pop(header.producer_id, None)
        return seen, left
