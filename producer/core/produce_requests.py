"""Sending batches to leaders: finding the node, grouping batches into Produce requests, sending DescribeProducers, bumping epochs.

`produce_responses` reads the responses, `in_flight_window` decides about a partition's sequences, and `ready_partitions` knows which
partitions need work.
"""

from __future__ import annotations

from uuid import UUID

from fencepost.producer.accumulator.accumulator import Accumulator, PartitionQueue
from fencepost.producer.accumulator.batch import Batch
from fencepost.producer.config.settings import Settings
from fencepost.producer.core.cluster.cluster_connection_states import ClusterConnectionStates, LinkState, Node, Request
from fencepost.producer.core.cluster.metadata_updater import MetadataUpdater
from fencepost.producer.core.cluster.view import NO_TOPIC_ID, ClusterView
from fencepost.producer.core.events import Command, Die, Send
from fencepost.producer.core.idempotence.in_flight_batch import InFlightBatch
from fencepost.producer.core.idempotence.transaction_hooks import ProducerIdSource, TransactionHooks
from fencepost.producer.core.metrics import Metrics
from fencepost.producer.core.partition_sender import PartitionSender
from fencepost.producer.core.ready_partitions import ReadyPartitions
from fencepost.producer.core.stalled_partitions import NO_LEADER
from fencepost.producer.core.standstill import Standstill
from fencepost.producer.core.timestamps_in_seconds import TimestampsInSeconds
from fencepost.producer.errors import DeliveryError, FencepostError
from fencepost.producer.wire import DescribeProducersRequest, FetchRequest, ProduceRequest
from fencepost.producer.wire.codes import Api
from fencepost.producer.wire.messages.describe_producers import TopicRequest
from fencepost.producer.wire.messages.fetch import FetchPartition, FetchTopic
from fencepost.producer.wire.messages.produce import PartitionProduceData, TopicProduceData
from fencepost.producer.wire.schema.fields import gathered

PRODUCE_VERSION_WITHOUT_IDS = 12
FETCH_VERSION_WITHOUT_IDS = 12
LOOK_UP_BYTES = 1024 * 1024


class BatchesSent(Request):
    """A Produce request in flight, with the partition sender of each batch. `topic_ids`: the id of each topic in the request; NO_TOPIC_ID
    if the request has the name."""

    in_flight_batches: dict[InFlightBatch, PartitionSender] = {}
    topic_ids: dict[str, UUID] = {}


class PartitionAsked(Request):
    """A DescribeProducers or Fetch request about one partition, in flight."""

    sender: PartitionSender | None = None


class ProduceRequests:
    """All partition senders, and the work for each that has batches. By node id, `_ready` has the senders with a batch for a node that can
    be written to, in the order in which they are served. `_waiting_for_node` has the senders whose node cannot be written to now."""

    def __init__(
        self,
        settings: Settings,
        accumulator: Accumulator,
        *,
        nodes: ClusterConnectionStates,
        view: ClusterView,
        metadata_updater: MetadataUpdater,
        producer_id_manager: ProducerIdSource,
        hooks: TransactionHooks,
        metrics: Metrics,
        standstill: Standstill,
        pack_aside_bytes: int | None,
    ) -> None:
        self.senders: dict[tuple[str, int], PartitionSender] = {}
        self.ready_partitions = ReadyPartitions()
        self._ready: dict[int, dict[PartitionSender, None]] = {}
        self._waiting_for_node: dict[int, dict[PartitionSender, None]] = {}
        self._hurried = False
        self._newest_hurry: object = None
        self._settings = settings
        self._accumulator = accumulator
        self._nodes = nodes
        self._view = view
        self._metadata_updater = metadata_updater
        self._producer_id_manager = producer_id_manager
        self._hooks = hooks
        self._metrics = metrics
        self._standstill = standstill
        self._pack_aside_bytes = pack_aside_bytes
        self._timestamps_in_seconds = TimestampsInSeconds()

    # -- one round ---------------------------------------------------------------------------------------------------

    def advance(self, now_ms: float) -> list[Command]:
        """Expire, heal, publish and send everything that can be now."""
        self._hear()
        commands = self._look_at_nodes(now_ms)
        if self._hooks.drop_reason is not None:
            commands += self._drop(*self._hooks.drop_reason)
        seen = dict.fromkeys(self.ready_partitions.take(now_ms))
        for sender in seen:
            commands += self._visit(sender, now_ms)
        for node_id, waiting in self._ready.items():
            node = self._nodes.get(node_id)
            if waiting and node is not None and node.ready(now_ms):
                commands += self._fill(node, waiting, seen, now_ms)
        for sender in seen:
            if not sender.idle:
                commands += sender.pack()
                self.ready_partitions.plan(sender, now_ms)
        if self._hooks.transactional_id is not None:
            self._hooks.looked(commands, quiet=not self.ready_partitions.active)
        return commands

    def packed(self, batch: Batch, payload: bytes) -> None:
        """A batch was compressed beside the loop."""
        sender = self.senders[batch.topic, int(batch.partition)]
        sender.packed(batch, payload)
        self.ready_partitions.mark(sender)

    def next_deadline(self, now_ms: float) -> float:
        return self.ready_partitions.next_ms()

    def busy(self) -> set[str]:
        """Topics with batches to send, resolve or publish."""
        return {sender.topic for sender in self.ready_partitions.active}

    def fail_all(self, error: FencepostError) -> list[Command]:
        """The producer ends: fail every record without an outcome."""
        self._hear()
        commands = [command for sender in self.ready_partitions.active for command in sender.fail_all(str(error))]
        self.ready_partitions.active.clear()
        return commands

    def recreated(self, topic: str) -> None:
        """The topic was deleted and created again: its new partitions have no state of our producer id."""
        for sender in self.senders.values():
            if sender.topic == topic:
                sender.window.introduce_anew()

    def cluster_changed(self) -> None:
        """From now on everything goes to another cluster, which has no state of our producer id."""
        for sender in self.senders.values():
            sender.window.change_cluster()
        self.ready_partitions.stir()

    def _drop(self, kind: type[DeliveryError], reason: str) -> list[Command]:
        """Fail everything that is not in flight."""
        commands: list[Command] = []
        for sender in self.ready_partitions.active:
            commands += sender.drop(kind, reason)
            self.ready_partitions.mark(sender)
        return commands

    def sender(self, queue: PartitionQueue) -> PartitionSender:
        """The partition sender of a partition's queue, made on first use."""
        tp = (queue.topic, int(queue.partition))
        sender = self.senders.get(tp)
        if sender is None:
            sender = self.senders[tp] = PartitionSender(queue, self._settings, self._accumulator, pack_aside_bytes=self._pack_aside_bytes)
        return sender

    def _hear(self) -> None:
        """Mark the partitions that callers' threads changed since the last round."""
        accumulator = self._accumulator
        for queue in accumulator.take_touched():
            self.ready_partitions.add(self.sender(queue))
        for batch in accumulator.take_urgent():
            sender = self.senders.get((batch.topic, int(batch.partition)))
            if sender is not None:
                self.ready_partitions.mark(sender)
        # A wait for room that ended may be followed by another one in the middle of a round, which saw no hurry: each stirs once.
        hurried, newest = accumulator.hurried(), accumulator.newest_hurry
        if hurried and (newest is not self._newest_hurry or not self._hurried):
            self.ready_partitions.stir()
        self._hurried, self._newest_hurry = hurried, newest

    def _look_at_nodes(self, now_ms: float) -> list[Command]:
        """Mark the partition senders that wait for a node, if it can be written to now. Otherwise connect to it."""
        commands: list[Command] = []
        for node_id, waiting in self._waiting_for_node.items():
            node = self._nodes.get(node_id)
            if not waiting:
                continue
            if node is None or node.ready(now_ms):
                for sender in waiting:
                    self.ready_partitions.mark(sender)
            else:
                commands += self._reach(node, now_ms)
        return commands

    def _visit(self, sender: PartitionSender, now_ms: float) -> list[Command]:
        sender.resume(now_ms)
        self._metadata_updater.used(sender.topic, now_ms)
        sender.window.led_by(self._view.leadership(sender.topic, sender.partition))
        sender.window.expire(now_ms)
        commands: list[Command] = []
        node = self._leader_node(sender, now_ms, commands) if not sender.idle else None
        if node is not None and node.ready(now_ms):
            commands += self._ask(node, sender, now_ms)
        self._heal(sender)
        commands += sender.publish()
        commands += sender.expire(now_ms, self._why_blocked)
        if sender.idle:
            sender.rest(now_ms)
            sender.wait_in(None)
            self.ready_partitions.drop(sender)
        elif node is not None:
            ready = node.ready(now_ms)
            waits = not ready or sender.next_size(now_ms) > 0
            sender.wait_in((self._ready if ready else self._waiting_for_node).setdefault(node.node_id, {}) if waits else None)
        return commands

    def _heal(self, sender: PartitionSender) -> None:
        window = sender.window
        if not self._settings.enable_idempotence:
            return
        if self._hooks.transactional_id is not None:
            self._follow(sender)
            return
        if window.wants_bump():
            window.bump()
        if window.identity is None:
            identity = self._producer_id_manager.identity_after(window.spent_pid)
            if identity is not None:
                window.adopt(identity)

    def _follow(self, sender: PartitionSender) -> None:
        """In transactions all partitions have the same identity, and none of them bumps it. All take the next one between two
        transactions, when nothing is queued or in flight."""
        window = sender.window
        if window.wants_bump():
            window.spoil()
        identity = self._producer_id_manager.identity_after(None)
        if identity is None or window.in_flight_batches:
            return
        first = self._hooks.takes_over(sender.topic, sender.partition)
        if first is not None or identity != window.identity:
            window.begin(identity, first)

    def _leader_node(self, sender: PartitionSender, now_ms: float, commands: list[Command]) -> Node | None:
        """The partition sender's leader. Connects to it if there is no connection, and asks for metadata if no leader is known."""
        leader = self._view.leader(sender.topic, sender.partition)
        node = self._nodes.get(leader.node) if leader is not None else None
        if node is None:
            sender.wait_in(None)
            self._metadata_updater.want(sender.topic, until_ms=now_ms + self._settings.max_block_ms)
            self._metadata_updater.refresh()
        else:
            commands += self._reach(node, now_ms)
        return node

    def _reach(self, node: Node, now_ms: float) -> list[Command]:
        """Connect to the node if there is no connection. If that failed before, also ask for metadata: another node may lead now."""
        if node.state is not LinkState.DOWN:
            return []
        if node.failures:
            self._metadata_updater.refresh()
        return self._nodes.connect(node, now_ms)

    def _why_blocked(self, sender: PartitionSender, since_ms: float) -> str:
        """Why the partition's batches could not be sent since then, for an error message."""
        here = self._standstill.what(self._settings.delivery_timeout_ms / 2.0, since_ms)
        leader = self._view.leader(sender.topic, sender.partition)
        node = self._nodes.get(leader.node) if leader is not None else None
        if node is None:
            return NO_LEADER
        if node.state is not LinkState.UP:
            return f"no connection to broker {node.node_id} ({node.address}): {node.last_failure or here or 'not tried yet'}"
        if sender.window.identity is None and self._settings.enable_idempotence:
            return f"no producer id was assigned: {self._producer_id_manager.trouble}"
        busy = f"broker {node.node_id} throttles this client, or has max_in_flight={self._settings.max_in_flight} requests in flight"
        return here or busy

    # -- requests ----------------------------------------------------------------------------------------------------

    def _fill(self, node: Node, waiting: dict[PartitionSender, None], seen: dict[PartitionSender, None], now_ms: float) -> list[Command]:
        """Produce requests with at most one batch per partition each, until nothing is ready or the connection has `max_in_flight`."""
        commands: list[Command] = []
        while waiting and node.produces < self._settings.max_in_flight:
            in_flight_batches = self._collect(waiting, seen, now_ms)
            if in_flight_batches:
                commands += self._produce(node, in_flight_batches, now_ms)
        return commands

    def _collect(
        self, waiting: dict[PartitionSender, None], seen: dict[PartitionSender, None], now_ms: float
    ) -> dict[InFlightBatch, PartitionSender]:
        """Take one batch of each partition sender in turn, as many as fit one request. Served senders go to the end of the queue."""
        in_flight_batches: dict[InFlightBatch, PartitionSender] = {}
        size = 0
        for sender in list(waiting):
            more = sender.next_size(now_ms)
            if more and in_flight_batches and size + more > self._settings.max_request_size:
                break
            in_flight = sender.next_batch(now_ms, self._hooks) if more else None
            sender.wait_in(None)
            seen[sender] = None
            if in_flight is not None:
                in_flight_batches[in_flight] = sender
                self._timestamps_in_seconds.look(sender.topic, in_flight.max_timestamp)
                size += in_flight.size
        for sender in in_flight_batches.values():
            sender.wait_in(waiting)
        return in_flight_batches

    def _produce(self, node: Node, in_flight_batches: dict[InFlightBatch, PartitionSender], now_ms: float) -> list[Command]:
        request = self._nodes.begin(node, Api.PRODUCE, now_ms, BatchesSent)
        request.in_flight_batches = in_flight_batches
        version = node.produce_version(self._hooks.produce_versions)
        if version is None:
            return [Die(node.unusable(self._hooks.produce_versions))]
        self._metrics.produced(node.node_id, in_flight_batches, now_ms)
        topics: dict[str, list[PartitionProduceData]] = {}
        for in_flight, sender in in_flight_batches.items():
            sender.window.launched(in_flight)
            topics.setdefault(sender.topic, []).append(PartitionProduceData(index=sender.partition, records=gathered(in_flight.records)))
        ids = {topic: self._view.topic_id(topic) for topic in topics}
        named = version <= PRODUCE_VERSION_WITHOUT_IDS or NO_TOPIC_ID in ids.values()
        if named:
            version = min(version, PRODUCE_VERSION_WITHOUT_IDS)
            ids = dict.fromkeys(topics, NO_TOPIC_ID)
        request.topic_ids = ids
        message = ProduceRequest(
            transactional_id=self._hooks.transactional_id,
            acks=self._settings.acks,
            timeout_ms=int(self._settings.request_timeout_ms),
            topic_data=[
                TopicProduceData(name=topic if named else "", topic_id=ids[topic], partition_data=data) for topic, data in topics.items()
            ],
        )
        return [Send(node.node_id, request.request_id, Api.PRODUCE, version, message, answered=self._settings.acks != 0)]

    def _ask(self, node: Node, sender: PartitionSender, now_ms: float) -> list[Command]:
        """DescribeProducers if the window must know what the log has; Fetch if it only lacks an offset."""
        if sender.asking or sender.query_not_before_ms > now_ms:
            return []
        if not sender.window.wants_answer():
            return self._look_up(node, sender, now_ms) if sender.window.wants_offsets() else []
        version = node.version(Api.DESCRIBE_PRODUCERS, 0)
        if version is None:
            sender.window.described(None)
            return []
        request = self._nodes.begin(node, Api.DESCRIBE_PRODUCERS, now_ms, PartitionAsked)
        request.sender = sender
        sender.asking = True
        sender.asked_at_launch = sender.window.launches
        sender.asked_under = self._view.leadership(sender.topic, sender.partition)
        message = DescribeProducersRequest(topics=[TopicRequest(name=sender.topic, partition_indexes=[sender.partition])])
        return [Send(node.node_id, request.request_id, Api.DESCRIBE_PRODUCERS, version, message)]

    def _look_up(self, node: Node, sender: PartitionSender, now_ms: float) -> list[Command]:
        """Fetch the part of the log that must have the batch, to find its offset."""
        version = node.version(Api.FETCH, FETCH_VERSION_WITHOUT_IDS)
        if version is None:
            return []
        request = self._nodes.begin(node, Api.FETCH, now_ms, PartitionAsked)
        request.sender = sender
        sender.asking = True
        wanted = FetchPartition(
            partition=sender.partition, fetch_offset=sender.window.offset_search.begin(), partition_max_bytes=LOOK_UP_BYTES
        )
        message = FetchRequest(max_bytes=LOOK_UP_BYTES, topics=[FetchTopic(topic=sender.topic, partitions=[wanted])])
        return [Send(node.node_id, request.request_id, Api.FETCH, version, message)]
