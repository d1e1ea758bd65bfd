"""Getting batches from lanes to leaders: finding the node, grouping into Produce requests, asking DescribeProducers, bumping epochs.

It reads no answers (`answers`), decides nothing about a partition's sequences (`window`), and looks only at the lanes whose turn it is
(`agenda`).
"""

from __future__ import annotations

from producer.core.accumulator import Accumulator, PartitionQueue
from producer.core.agenda import Agenda
from producer.core.batch import Batch
from producer.core.cluster import NO_TOPIC_ID, ClusterView
from producer.core.errors import DeliveryError, FencepostError
from producer.core.events import Command, Die, Send
from producer.core.gate import Gate, Office
from producer.core.lane import Lane
from producer.core.meter import Meter
from producer.core.nodes import LinkState, Node, Nodes
from producer.core.scout import Scout
from producer.core.settings import Settings
from producer.core.slot import Slot
from producer.wire.codes import Api
from producer.wire.fields import gathered
from producer.wire.messages import DescribeProducersRequest, FetchRequest, ProduceRequest
from producer.wire.messages.describe import TopicRequest
from producer.wire.messages.fetch import FetchPartition, FetchTopic
from producer.wire.messages.produce import PartitionProduceData, TopicProduceData

PRODUCE_VERSION_WITHOUT_IDS = 12
FETCH_VERSION_WITHOUT_IDS = 12
LOOK_UP_BYTES = 1024 * 1024


class Delivery:
    """Every lane, and what to do for each that has something in it. `_ready`: those with a batch for a node that can be written to, in the
    order in which they are served; `_parked`: those whose node cannot be written to now; both by node id."""

    def __init__(
        self,
        settings: Settings,
        accumulator: Accumulator,
        *,
        nodes: Nodes,
        view: ClusterView,
        scout: Scout,
        registrar: Office,
        gate: Gate,
        meter: Meter,
        pack_aside_bytes: int | None,
    ) -> None:
        self.lanes: dict[tuple[str, int], Lane] = {}
        self.agenda = Agenda()
        self._ready: dict[int, dict[Lane, None]] = {}
        self._parked: dict[int, dict[Lane, None]] = {}
        self._hurry = (False, 0)
        self._settings = settings
        self._accumulator = accumulator
        self._nodes = nodes
        self._view = view
        self._scout = scout
        self._registrar = registrar
        self._gate = gate
        self._meter = meter
        self._pack_aside_bytes = pack_aside_bytes

    # -- one round ---------------------------------------------------------------------------------------------------

    def advance(self, now_ms: float) -> list[Command]:
        """Expire, heal, publish and send whatever can be, now."""
        self._hear()
        commands = self._look_at_nodes(now_ms)
        if self._gate.doom is not None:
            commands += self._drop(*self._gate.doom)
        seen = dict.fromkeys(self.agenda.take(now_ms))
        for lane in seen:
            commands += self._visit(lane, now_ms)
        for node_id, waiting in self._ready.items():
            node = self._nodes.get(node_id)
            if waiting and node is not None and node.ready(now_ms):
                commands += self._fill(node, waiting, seen, now_ms)
        for lane in seen:
            if not lane.idle:
                commands += lane.pack()
                self.agenda.plan(lane, now_ms)
        if self._gate.transactional_id is not None:
            self._gate.looked(commands, quiet=not self.agenda.active)
        return commands

    def packed(self, batch: Batch, payload: bytes) -> None:
        """A batch was packed beside the loop."""
        lane = self.lanes[batch.topic, int(batch.partition)]
        lane.packed(batch, payload)
        self.agenda.mark(lane)

    def next_deadline(self, now_ms: float) -> float:
        return self.agenda.next_ms()

    def busy(self) -> set[str]:
        """Topics with something to send, resolve or publish."""
        return {topic for topic, _ in self.agenda.active}

    def fail_all(self, error: FencepostError) -> list[Command]:
        """The producer ends here: every record without an outcome fails."""
        self._hear()
        commands = [command for lane in self.agenda.active.values() for command in lane.fail_all(str(error))]
        self.agenda.active.clear()
        return commands

    def recreated(self, topic: str) -> None:
        """The topic was deleted and created again: its partitions know nothing of our producer id."""
        for lane in self.lanes.values():
            if lane.topic == topic:
                lane.window.introduce_anew()

    def emigrated(self) -> None:
        """From here on everything goes to another cluster, which knows nothing of ours."""
        for lane in self.lanes.values():
            lane.window.emigrate()
        self.agenda.stir()

    def _drop(self, kind: type[DeliveryError], reason: str) -> list[Command]:
        """Fail everything that is not on its way."""
        commands: list[Command] = []
        for lane in self.agenda.active.values():
            commands += lane.drop(kind, reason)
            self.agenda.mark(lane)
        return commands

    def lane(self, queue: PartitionQueue) -> Lane:
        """The lane of a partition's queue, made when first asked for."""
        tp = (queue.topic, int(queue.partition))
        lane = self.lanes.get(tp)
        if lane is None:
            lane = self.lanes[tp] = Lane(queue, self._settings, self._accumulator, pack_aside_bytes=self._pack_aside_bytes)
        return lane

    def _hear(self) -> None:
        """What callers' threads did since the last round."""
        accumulator = self._accumulator
        for queue in accumulator.take_touched():
            self.agenda.add(self.lane(queue))
        for batch in accumulator.take_urgent():
            lane = self.lanes.get((batch.topic, int(batch.partition)))
            if lane is not None:
                self.agenda.mark(lane)
        hurry = (accumulator.hurried(), int(accumulator.flushes))
        if hurry != self._hurry and hurry[0]:
            self.agenda.stir()
        self._hurry = hurry

    def _look_at_nodes(self, now_ms: float) -> list[Command]:
        """Lanes that wait for a node are looked at once it can be written to; until then links that are down are made."""
        commands: list[Command] = []
        for node_id, waiting in self._parked.items():
            node = self._nodes.get(node_id)
            if not waiting:
                continue
            if node is None or node.ready(now_ms):
                for lane in waiting:
                    self.agenda.mark(lane)
            else:
                commands += self._reach(node, now_ms)
        return commands

    def _visit(self, lane: Lane, now_ms: float) -> list[Command]:
        lane.resume(now_ms)
        self._scout.used(lane.topic, now_ms)
        lane.window.led_by(self._view.leadership(lane.topic, lane.partition))
        lane.window.expire(now_ms)
        commands: list[Command] = []
        node = self._leader_node(lane, now_ms, commands) if not lane.idle else None
        if node is not None and node.ready(now_ms):
            commands += self._ask(node, lane, now_ms)
        self._heal(lane)
        commands += lane.publish()
        commands += lane.expire(now_ms, self._why_blocked)
        if lane.idle:
            lane.rest(now_ms)
            lane.wait_in(None)
            self.agenda.drop(lane)
        elif node is not None:
            ready = node.ready(now_ms)
            waits = not ready or lane.next_size(now_ms) > 0
            lane.wait_in((self._ready if ready else self._parked).setdefault(node.node_id, {}) if waits else None)
        return commands

    def _heal(self, lane: Lane) -> None:
        window = lane.window
        if not self._settings.enable_idempotence:
            return
        if self._gate.transactional_id is not None:
            self._follow(lane)
            return
        if window.wants_bump():
            window.bump()
        if window.identity is None:
            identity = self._registrar.identity_after(window.spent_pid)
            if identity is not None:
                window.adopt(identity)

    def _follow(self, lane: Lane) -> None:
        """In transactions the identity is the same for all partitions: none of them bumps it, and all take the next one between two
        transactions, when nothing is queued or on its way."""
        window = lane.window
        if window.wants_bump():
            window.spoil()
        identity = self._registrar.identity_after(None)
        if identity is None or window.slots:
            return
        first = self._gate.takes_over(lane.topic, lane.partition)
        if first is not None or identity != window.identity:
            window.begin(identity, first)

    def _leader_node(self, lane: Lane, now_ms: float, commands: list[Command]) -> Node | None:
        """The lane's leader, with a link begun where there is none; asks who leads where that is not known."""
        leader = self._view.leader(lane.topic, lane.partition)
        node = self._nodes.get(leader.node) if leader is not None else None
        if node is None:
            lane.wait_in(None)
            self._scout.want(lane.topic, until_ms=now_ms + self._settings.max_block_ms)
            self._scout.refresh()
        else:
            commands += self._reach(node, now_ms)
        return node

    def _reach(self, node: Node, now_ms: float) -> list[Command]:
        """Begin a link to the node if it has none; where that has failed before, also ask whether it still leads."""
        if node.state is not LinkState.DOWN:
            return []
        if node.failures:
            self._scout.refresh()
        return self._nodes.connect(node, now_ms)

    def _why_blocked(self, lane: Lane) -> str:
        """What keeps the lane from being sent, for an error message."""
        leader = self._view.leader(lane.topic, lane.partition)
        node = self._nodes.get(leader.node) if leader is not None else None
        if node is None:
            return "the partition has no known leader"
        if node.state is not LinkState.UP:
            return f"no connection to broker {node.node_id} ({node.address}): {node.last_failure or 'not tried yet'}"
        if lane.window.identity is None and self._settings.enable_idempotence:
            return f"no producer id was assigned: {self._registrar.trouble}"
        return f"broker {node.node_id} takes no more requests at the moment"

    # -- requests ----------------------------------------------------------------------------------------------------

    def _fill(self, node: Node, waiting: dict[Lane, None], seen: dict[Lane, None], now_ms: float) -> list[Command]:
        """Produce requests, at most one batch per partition each, until nothing is ready or the link has enough in flight."""
        commands: list[Command] = []
        while waiting and node.produces < self._settings.max_in_flight:
            slots = self._collect(waiting, seen, now_ms)
            if slots:
                commands += self._produce(node, slots, now_ms)
        return commands

    def _collect(self, waiting: dict[Lane, None], seen: dict[Lane, None], now_ms: float) -> list[Slot]:
        """One batch of each lane whose turn it is, as many as a request takes. Who got one goes to the end of the line."""
        slots: list[Slot] = []
        size = 0
        served: list[Lane] = []
        for lane in list(waiting):
            more = lane.next_size(now_ms)
            if more and slots and size + more > self._settings.max_request_size:
                break
            slot = lane.next_slot(now_ms, self._gate) if more else None
            lane.wait_in(None)
            seen[lane] = None
            if slot is not None:
                slots.append(slot)
                size += slot.size
                served.append(lane)
        for lane in served:
            lane.wait_in(waiting)
        return slots

    def _produce(self, node: Node, slots: list[Slot], now_ms: float) -> list[Command]:
        request = self._nodes.begin(node, Api.PRODUCE, now_ms)
        request.slots = slots
        version = node.produce_version(self._gate.produce_versions)
        if version is None:
            return [Die(node.unusable(self._gate.produce_versions))]
        self._meter.produced(node.node_id, slots, now_ms)
        topics: dict[str, list[PartitionProduceData]] = {}
        for slot in slots:
            self.lanes[slot.batch.topic, int(slot.batch.partition)].window.launched(slot)
            topics.setdefault(slot.batch.topic, []).append(
                PartitionProduceData(index=int(slot.batch.partition), records=gathered(slot.records))
            )
        ids = {topic: self._view.topic_id(topic) for topic in topics}
        named = version <= PRODUCE_VERSION_WITHOUT_IDS or NO_TOPIC_ID in ids.values()
        if named:
            version = min(version, PRODUCE_VERSION_WITHOUT_IDS)
            ids = dict.fromkeys(topics, NO_TOPIC_ID)
        request.topic_ids = ids
        message = ProduceRequest(
            transactional_id=self._gate.transactional_id,
            acks=self._settings.acks,
            timeout_ms=int(self._settings.request_timeout_ms),
            topic_data=[
                TopicProduceData(name=topic if named else "", topic_id=ids[topic], partition_data=data) for topic, data in topics.items()
            ],
        )
        return [Send(node.node_id, request.request_id, Api.PRODUCE, version, message, answered=self._settings.acks != 0)]

    def _ask(self, node: Node, lane: Lane, now_ms: float) -> list[Command]:
        """DescribeProducers, where a window needs to know what the log holds; Fetch, where it only lacks the offset."""
        if lane.asking or lane.query_not_before_ms > now_ms:
            return []
        if not lane.window.wants_answer():
            return self._look_up(node, lane, now_ms) if lane.window.wants_offsets() else []
        version = node.version(Api.DESCRIBE_PRODUCERS, 0)
        if version is None:
            lane.window.described(None)
            return []
        request = self._nodes.begin(node, Api.DESCRIBE_PRODUCERS, now_ms)
        request.subject = (lane.topic, lane.partition)
        lane.asking = True
        lane.asked_at_launch = lane.window.launches
        lane.asked_under = self._view.leadership(lane.topic, lane.partition)
        message = DescribeProducersRequest(topics=[TopicRequest(name=lane.topic, partition_indexes=[lane.partition])])
        return [Send(node.node_id, request.request_id, Api.DESCRIBE_PRODUCERS, version, message)]

    def _look_up(self, node: Node, lane: Lane, now_ms: float) -> list[Command]:
        """Reads the log where a batch must be, for its offset."""
        version = node.version(Api.FETCH, FETCH_VERSION_WITHOUT_IDS)
        if version is None:
            return []
        request = self._nodes.begin(node, Api.FETCH, now_ms)
        request.subject = (lane.topic, lane.partition)
        lane.asking = True
        wanted = FetchPartition(partition=lane.partition, fetch_offset=lane.window.look(), partition_max_bytes=LOOK_UP_BYTES)
        message = FetchRequest(max_bytes=LOOK_UP_BYTES, topics=[FetchTopic(topic=lane.topic, partitions=[wanted])])
        return [Send(node.node_id, request.request_id, Api.FETCH, version, message)]
