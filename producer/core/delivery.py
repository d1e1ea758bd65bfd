"""Getting batches from lanes to leaders: grouping into Produce requests, reading the answers, asking DescribeProducers, bumping epochs.

It decides nothing about an answer's meaning (`verdict`) nor about a partition's sequences (`window`); it only carries the one to the other.
"""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

from producer.core.accumulator import Accumulator, PartitionQueue
from producer.core.cluster import NO_TOPIC_ID, Address, ClusterView, Leader
from producer.core.errors import Fatal, Fenced, FencepostError
from producer.core.events import Command, Die, Send
from producer.core.gate import Gate
from producer.core.lane import Lane
from producer.core.nodes import LinkState, Node, Nodes, Request, backoff_ms
from producer.core.registrar import Registrar
from producer.core.scout import Scout
from producer.core.settings import Settings
from producer.core.slot import Slot
from producer.core.verdict import Verdict, judge
from producer.core.window import Known, Window
from producer.wire.codes import Api, ErrorCode, error_name
from producer.wire.messages import DescribeProducersRequest, DescribeProducersResponse, ProduceRequest, ProduceResponse
from producer.wire.messages.describe import TopicRequest
from producer.wire.messages.produce import PartitionProduceData, PartitionProduceResponse, TopicProduceData

PRODUCE_VERSION_MAX = 13
PRODUCE_VERSION_WITHOUT_IDS = 12
MOVED = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)
ASK_AGAIN = (
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.LEADER_NOT_AVAILABLE,
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.REQUEST_TIMED_OUT,
)


class Delivery:
    """Every lane with something in it, and what to do for each now."""

    def __init__(
        self,
        settings: Settings,
        accumulator: Accumulator,
        *,
        nodes: Nodes,
        view: ClusterView,
        scout: Scout,
        registrar: Registrar,
        gate: Gate,
        draw: Callable[[], float],
    ) -> None:
        self.lanes: dict[tuple[str, int], Lane] = {}
        self._active: dict[tuple[str, int], Lane] = {}
        self._settings = settings
        self._accumulator = accumulator
        self._nodes = nodes
        self._view = view
        self._scout = scout
        self._registrar = registrar
        self._gate = gate
        self._draw = draw

    # -- one round ---------------------------------------------------------------------------------------------------

    def advance(self, now_ms: float) -> list[Command]:
        """Expire, heal, publish and send whatever can be, now."""
        for queue in self._accumulator.take_touched():
            lane = self.lane(queue)
            self._active[lane.topic, lane.partition] = lane
            lane.resume(now_ms)
        commands: list[Command] = []
        by_node: dict[int, list[Lane]] = {}
        for lane in list(self._active.values()):
            commands += lane.expire(now_ms)
            node = self._leader_node(lane, now_ms, commands) if not lane.idle else None
            if node is not None:
                commands += self._ask(node, lane, now_ms)
            self._heal(lane)
            commands += lane.publish()
            if lane.idle:
                lane.rest(now_ms)
                del self._active[lane.topic, lane.partition]
            elif node is not None:
                by_node.setdefault(node.node_id, []).append(lane)
        for node_id, lanes in by_node.items():
            node = self._nodes.get(node_id)
            assert node is not None
            commands += self._fill(node, lanes, now_ms)
        return commands

    def next_deadline(self, now_ms: float) -> float:
        return min((lane.next_deadline(now_ms) for lane in self._active.values()), default=float("inf"))

    def fail_all(self, error: FencepostError) -> list[Command]:
        """The producer ends here: every record without an outcome fails."""
        commands: list[Command] = []
        for queue in self._accumulator.take_touched():
            self._active[queue.topic, int(queue.partition)] = self.lane(queue)
        for lane in self._active.values():
            commands += lane.fail_all(str(error))
        self._active.clear()
        return commands

    def recreated(self, topic: str) -> None:
        """The topic was deleted and created again: its partitions know nothing of our producer id."""
        for lane in self.lanes.values():
            if lane.topic == topic:
                lane.window.introduced = False

    def lane(self, queue: PartitionQueue) -> Lane:
        """The lane of a partition's queue, made when first asked for."""
        tp = (queue.topic, int(queue.partition))
        lane = self.lanes.get(tp)
        if lane is None:
            lane = self.lanes[tp] = Lane(queue, self._settings, self._accumulator)
        return lane

    def _heal(self, lane: Lane) -> None:
        window = lane.window
        if not self._settings.enable_idempotence:
            return
        if window.wants_bump():
            window.bump()
        if window.identity is None:
            identity = self._registrar.identity_after(window.spent_pid)
            if identity is not None:
                window.adopt(identity)

    def _leader_node(self, lane: Lane, now_ms: float, commands: list[Command]) -> Node | None:
        """The up link to the lane's leader; begins one, or asks who leads, where there is none."""
        leader = self._view.leader(lane.topic, lane.partition)
        node = self._nodes.get(leader.node) if leader is not None else None
        if node is None:
            lane.blocked_by = "the partition has no known leader"
            self._scout.want(lane.topic, until_ms=now_ms + self._settings.max_block_ms)
            self._scout.refresh()
            return None
        if node.state is LinkState.DOWN:
            lane.blocked_by = (
                f"no connection to broker {node.node_id} ({node.address.host}:{node.address.port}): {node.last_failure or 'not tried yet'}"
            )
            if node.failures:
                self._scout.refresh()
            commands += self._nodes.connect(node, now_ms)
            return None
        return node if node.ready(now_ms) else None

    # -- requests ----------------------------------------------------------------------------------------------------

    def _fill(self, node: Node, lanes: list[Lane], now_ms: float) -> list[Command]:
        """Produce requests, at most one batch per partition each, until nothing is ready or the link has enough in flight."""
        commands: list[Command] = []
        while node.produces < self._settings.max_in_flight:
            slots = self._collect(node, lanes, now_ms)
            if not slots:
                break
            commands += self._produce(node, slots, now_ms)
        return commands

    def _collect(self, node: Node, lanes: list[Lane], now_ms: float) -> list[Slot]:
        slots: list[Slot] = []
        size = 0
        node.turn = (node.turn + 1) % len(lanes)
        for lane in lanes[node.turn :] + lanes[: node.turn]:
            more = lane.next_size(now_ms)
            if more and (not slots or size + more <= self._settings.max_request_size):
                slot = lane.next_slot(now_ms, self._gate)
                if slot is not None:
                    slots.append(slot)
                    size += len(slot.data)
        return slots

    def _produce(self, node: Node, slots: list[Slot], now_ms: float) -> list[Command]:
        request = self._nodes.begin(node, Api.PRODUCE, now_ms)
        request.slots = slots
        version = node.version(Api.PRODUCE, PRODUCE_VERSION_MAX)
        if version is None:
            return [Die(Fatal("the broker does not speak any version of Produce that this client has"))]
        topics: dict[str, list[PartitionProduceData]] = {}
        for slot in slots:
            self._window_of(slot).launched(slot)
            topics.setdefault(slot.batch.topic, []).append(PartitionProduceData(index=int(slot.batch.partition), records=slot.data))
        if any(self._view.topic_id(topic) == NO_TOPIC_ID for topic in topics):
            version = min(version, PRODUCE_VERSION_WITHOUT_IDS)
        named = version <= PRODUCE_VERSION_WITHOUT_IDS
        message = ProduceRequest(
            transactional_id=self._gate.transactional_id,
            acks=self._settings.acks,
            timeout_ms=int(self._settings.request_timeout_ms),
            topic_data=[
                TopicProduceData(
                    name=topic if named else "", topic_id=NO_TOPIC_ID if named else self._view.topic_id(topic), partition_data=data
                )
                for topic, data in topics.items()
            ],
        )
        return [Send(node.node_id, request.request_id, Api.PRODUCE, version, message, answered=self._settings.acks != 0)]

    def _ask(self, node: Node, lane: Lane, now_ms: float) -> list[Command]:
        """DescribeProducers, where a window needs to know what the log holds."""
        if lane.asking or lane.query_not_before_ms > now_ms or not lane.window.wants_answer():
            return []
        version = node.version(Api.DESCRIBE_PRODUCERS, 0)
        if version is None:
            lane.window.described(None)
            return []
        request = self._nodes.begin(node, Api.DESCRIBE_PRODUCERS, now_ms)
        request.subject = (lane.topic, lane.partition)
        lane.asking = True
        lane.asked_at_launch = lane.window.launches
        message = DescribeProducersRequest(topics=[TopicRequest(name=lane.topic, partition_indexes=[lane.partition])])
        return [Send(node.node_id, request.request_id, Api.DESCRIBE_PRODUCERS, version, message)]

    # -- answers -----------------------------------------------------------------------------------------------------

    def produced(self, request: Request, answer: ProduceResponse, now_ms: float) -> list[Command]:
        """Read a Produce answer. A partition that it leaves out counts as unanswered."""
        commands = self._learn_endpoints(answer)
        said: dict[tuple[str | UUID, int], PartitionProduceResponse] = {}
        for topic in answer.responses:
            for partition in topic.partition_responses:
                said[topic.name or topic.topic_id, partition.index] = partition
        for slot in request.slots:
            topic_name, partition_index = slot.batch.topic, int(slot.batch.partition)
            part = said.get((topic_name, partition_index)) or said.get((self._view.topic_id(topic_name), partition_index))
            if part is None:
                self._lost(slot, now_ms)
            else:
                commands += self._read(slot, part, now_ms)
        return commands

    def _read(self, slot: Slot, part: PartitionProduceResponse, now_ms: float) -> list[Command]:
        window = self._window_of(slot)
        row = judge(Api.PRODUCE, part.error_code)
        if row.verdict is Verdict.DONE:
            known = part.error_code == ErrorCode.NONE
            window.acknowledged(slot, part.base_offset if known else -1, part.log_append_time_ms if known else -1)
            return []
        if part.error_code in MOVED and part.current_leader.leader_id >= 0:
            self._view.moved(
                slot.batch.topic, int(slot.batch.partition), Leader(part.current_leader.leader_id, part.current_leader.leader_epoch)
            )
        if row.verdict is Verdict.SPLIT and slot.count > 1 and not slot.doubt and not slot.decided:
            self.lanes[slot.batch.topic, int(slot.batch.partition)].split(slot)
            return []
        if row.verdict is Verdict.REFRESH:
            self._scout.refresh()
        message = record_errors(part)
        window.refused(slot, row, part.error_code, now_ms, self._backoff(slot.attempts - 1), message)
        if row.verdict is Verdict.FATAL:
            kind = Fenced if part.error_code == ErrorCode.PRODUCER_FENCED else Fatal
            return [Die(kind(f"Produce was refused with {error_name(part.error_code)}: {row.why}"))]
        return []

    def written(self, request: Request) -> None:
        """acks=0: the socket has the bytes, and nothing more will be heard."""
        for slot in request.slots:
            self._window_of(slot).acknowledged(slot, -1, -1)

    def lost(self, request: Request, now_ms: float) -> None:
        """The link died under the request."""
        for slot in request.slots:
            self._lost(slot, now_ms)
        if request.subject is not None:
            self._ask_later(self.lanes[request.subject], now_ms)

    def described(self, request: Request, answer: DescribeProducersResponse, now_ms: float) -> None:
        """Read a DescribeProducers answer."""
        assert request.subject is not None
        lane = self.lanes[request.subject]
        lane.asking = False
        part = next((p for t in answer.topics if t.name == lane.topic for p in t.partitions if p.partition_index == lane.partition), None)
        if part is None or part.error_code in ASK_AGAIN:
            self._scout.refresh()
            self._ask_later(lane, now_ms)
            return
        if lane.asked_at_launch != lane.window.launches:
            return  # Something was sent after the question: the answer may be older than what it would be applied to.
        lane.query_attempts = 0
        identities = {slot.identity[0] for slot in lane.window.slots if slot.unresolved}
        mine = [p for p in part.active_producers if p.producer_id in identities] if not part.error_code else []
        lane.window.described(Known(mine[0].producer_epoch, mine[0].last_sequence) if mine else None)

    def _ask_later(self, lane: Lane, now_ms: float) -> None:
        lane.asking = False
        lane.query_not_before_ms = now_ms + self._backoff(lane.query_attempts)
        lane.query_attempts += 1

    def _lost(self, slot: Slot, now_ms: float) -> None:
        self._window_of(slot).lost(slot, now_ms, self._backoff(slot.attempts - 1))

    def _window_of(self, slot: Slot) -> Window:
        return self.lanes[slot.batch.topic, int(slot.batch.partition)].window

    def _backoff(self, attempt: int) -> float:
        return backoff_ms(attempt, self._settings.retry_backoff_ms, self._settings.retry_backoff_max_ms, self._draw())

    def _learn_endpoints(self, answer: ProduceResponse) -> list[Command]:
        """KIP-951: a refusal names the new leader's address along with its id."""
        if not answer.node_endpoints:
            return []
        self._view.brokers = self._view.brokers | {e.node_id: Address(e.host, e.port) for e in answer.node_endpoints}
        return self._nodes.learn(self._view.brokers)


def record_errors(part: PartitionProduceResponse) -> str:
    """The broker's words on a refusal; where it has none, what it says of single records (KIP-467)."""
    named = (f"record {e.batch_index}: {e.batch_index_error_message}" for e in part.record_errors[:5])
    return part.error_message or "; ".join(named)
