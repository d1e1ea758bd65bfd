"""Reading responses: what a Produce or DescribeProducers response, or its loss, means for its batches.

`error_table` says what a code means, and `in_flight_window` what follows for the partition's sequences.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from uuid import UUID

from fencepost.producer.config.settings import Settings
from fencepost.producer.core.cluster.cluster_connection_states import ClusterConnectionStates, Request, backoff_ms
from fencepost.producer.core.cluster.metadata_updater import MetadataUpdater
from fencepost.producer.core.cluster.view import NO_TOPIC_ID, ClusterView, Leader
from fencepost.producer.core.error_table import ErrorAction, judge
from fencepost.producer.core.events import Command, Die
from fencepost.producer.core.idempotence.in_flight_batch import InFlightBatch, State
from fencepost.producer.core.idempotence.in_flight_window import Known
from fencepost.producer.core.idempotence.transaction_hooks import TransactionHooks
from fencepost.producer.core.metrics import Metrics
from fencepost.producer.core.partition_sender import PartitionSender
from fencepost.producer.core.produce_requests import BatchesSent, PartitionAsked
from fencepost.producer.core.ready_partitions import ReadyPartitions
from fencepost.producer.core.stalled_partitions import StalledPartitions
from fencepost.producer.errors import Fatal, Fenced, with_code
from fencepost.producer.foundations.address import Address
from fencepost.producer.foundations.printable import said
from fencepost.producer.wire import DescribeProducersResponse, FetchResponse, ProduceResponse
from fencepost.producer.wire.codes import Api, ErrorCode, error_name
from fencepost.producer.wire.messages.produce import PartitionProduceResponse
from fencepost.producer.wire.records import CorruptBatch, iter_batches

log = logging.getLogger("fencepost.producer")

MOVED = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)
GONE = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)
ASK_AGAIN = (
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.LEADER_NOT_AVAILABLE,
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.REQUEST_TIMED_OUT,
)


class ProduceResponses:
    """See the module. It marks every partition sender of a response as ready."""

    def __init__(
        self,
        settings: Settings,
        ready_partitions: ReadyPartitions,
        *,
        nodes: ClusterConnectionStates,
        view: ClusterView,
        metadata_updater: MetadataUpdater,
        hooks: TransactionHooks,
        draw: Callable[[], float],
        metrics: Metrics,
        stalled_partitions: StalledPartitions,
    ) -> None:
        self._settings = settings
        self._ready_partitions = ready_partitions
        self._nodes = nodes
        self._view = view
        self._metadata_updater = metadata_updater
        self._hooks = hooks
        self._draw = draw
        self._metrics = metrics
        self._stalled_partitions = stalled_partitions

    def produced(self, request: Request, answer: ProduceResponse, now_ms: float) -> list[Command]:
        """Read a Produce response. A partition that it lacks counts as lost.

        Topics are found by the id or name of the request: a topic that was created again meanwhile has another id now.
        """
        assert isinstance(request, BatchesSent)
        commands = self._learn_endpoints(answer)
        said: dict[tuple[str | UUID, int], PartitionProduceResponse] = {}
        for topic in answer.responses:
            for partition in topic.partition_responses:
                said[topic.name or topic.topic_id, partition.index] = partition
        for in_flight, sender in self._unanswered(request):
            topic_id = request.topic_ids[sender.topic]
            part = said.get((sender.topic, sender.partition)) or said.get((topic_id, sender.partition))
            if part is None:
                self._lost(in_flight, sender, now_ms, "the response lacks the partition")
                continue
            commands += self._read(in_flight, sender, part, now_ms)
            if topic_id not in (self._view.topic_id(sender.topic), NO_TOPIC_ID):
                sender.window.introduce_anew()  # to the topic that was created again
        return commands

    def _read(self, in_flight: InFlightBatch, sender: PartitionSender, part: PartitionProduceResponse, now_ms: float) -> list[Command]:
        window = sender.window
        row = judge(Api.PRODUCE, part.error_code)
        if row.action is ErrorAction.DONE:
            known = part.error_code == ErrorCode.NONE
            window.acknowledged(in_flight, part.base_offset if known else -1, part.log_append_time_ms if known else -1)
            return []
        if part.error_code in MOVED or part.error_code in GONE:
            self._view.deny(sender.topic, sender.partition)
        if part.error_code in MOVED and part.current_leader.leader_id >= 0:
            leader = Leader(part.current_leader.leader_id, part.current_leader.leader_epoch)
            self._view.moved(sender.topic, sender.partition, leader)
        if row.action is ErrorAction.SPLIT and in_flight.count > 1 and not in_flight.decided:
            if in_flight.doubt and self._settings.enable_idempotence:
                window.too_large(in_flight)
            else:
                self._split(sender, in_flight)
            return []
        if row.action is ErrorAction.REFRESH:
            self._metadata_updater.refresh()
            if part.error_code in GONE and not in_flight.decided:
                self._metadata_updater.want(sender.topic, until_ms=in_flight.deadline_ms)
        in_flight.doubt = in_flight.doubt or part.base_offset >= 0  # An offset beside an error: an earlier attempt was appended.
        message = record_errors(part)
        window.refused(
            in_flight, row, part.error_code, now_ms, self._pause(in_flight, part.error_code, introduced=window.introduced), message
        )
        if not in_flight.decided:
            self._stalled_partitions.note(sender, f"its leader answers {error_name(part.error_code)}", now_ms)
        if row.action is ErrorAction.FATAL:
            kind = Fenced if part.error_code == ErrorCode.PRODUCER_FENCED else Fatal
            why = f"Produce to {sender.topic}-{sender.partition} was refused with {error_name(part.error_code)}: {row.why}"
            return [Die(with_code(kind(why), part.error_code))]
        return []

    def written(self, request: Request) -> None:
        """acks=0: the socket has the bytes, and no response comes."""
        for in_flight, sender in self._unanswered(request):
            sender.window.acknowledged(in_flight, -1, -1)

    def lost(self, request: Request, now_ms: float, why: str) -> None:
        """The connection was lost before the response. `why`: for an error message."""
        if request.api is Api.PRODUCE:
            self._hooks.unanswered()
        for in_flight, sender in self._unanswered(request):
            self._lost(in_flight, sender, now_ms, why)
        if isinstance(request, PartitionAsked):
            self._ask_later(self._asked(request), now_ms)

    def described(self, request: Request, answer: DescribeProducersResponse, now_ms: float) -> None:
        """Read a DescribeProducers response."""
        sender = self._asked(request)
        sender.asking = False
        part = next(
            (p for t in answer.topics if t.name == sender.topic for p in t.partitions if p.partition_index == sender.partition), None
        )
        if part is None or part.error_code in ASK_AGAIN:
            self._metadata_updater.refresh()
            self._ask_later(sender, now_ms)
            return
        if sender.asked_at_launch != sender.window.launches:
            return  # A batch was sent after this request, so the response may be older than that batch.
        if sender.asked_under != self._view.leadership(sender.topic, sender.partition):
            return  # Another broker leads now, perhaps without the batches of this one.
        sender.query_attempts = 0
        identities = {in_flight.identity[0] for in_flight in sender.window.in_flight_batches if in_flight.unresolved}
        mine = [p for p in part.active_producers if p.producer_id in identities] if not part.error_code else []
        sender.window.described(Known(mine[0].producer_epoch, mine[0].last_sequence) if mine else None)
        oversized = sender.window.to_split()
        if oversized is not None:
            self._split(sender, oversized)

    def _split(self, sender: PartitionSender, in_flight: InFlightBatch) -> None:
        self._metrics.splits += 1
        sender.split(in_flight)

    def looked_up(self, request: Request, answer: FetchResponse, now_ms: float) -> None:
        """Read the Fetch response with the part of the log in which a batch is searched."""
        sender = self._asked(request)
        sender.asking = False
        part = next(
            (p for t in answer.responses if t.topic == sender.topic for p in t.partitions if p.partition_index == sender.partition), None
        )
        if part is not None and part.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            sender.window.offset_search.start_over()
        if part is None or part.error_code:
            self._metadata_updater.refresh()
            self._ask_later(sender, now_ms)
            return
        try:
            batches = [header for header, _ in iter_batches(part.records or b"")]
        except CorruptBatch as error:
            log.warning("the log of %s-%d has a batch that cannot be read: %s", sender.topic, sender.partition, error)
            batches = []
        if sender.window.offset_search.read(batches, sender.window.in_flight_batches):
            sender.query_attempts = 0
        else:
            self._ask_later(sender, now_ms)

    def _ask_later(self, sender: PartitionSender, now_ms: float) -> None:
        sender.asking = False
        sender.query_not_before_ms = now_ms + self._backoff(sender.query_attempts)
        sender.query_attempts += 1

    def _lost(self, in_flight: InFlightBatch, sender: PartitionSender, now_ms: float, why: str) -> None:
        # The error names the newest code after this text.
        in_flight.last_failure = f"{why}; the last error code was" if in_flight.last_code else why
        sender.window.lost(in_flight, now_ms, self._backoff(in_flight.attempts - 1))

    def _unanswered(self, request: Request) -> list[tuple[InFlightBatch, PartitionSender]]:
        """Return the batches that still wait for this response, with their partition senders. It leaves out a batch that expired while its
        leader hung: the next leader resolves it by acknowledging a later batch."""
        if not isinstance(request, BatchesSent):
            return []
        waiting = [(in_flight, sender) for in_flight, sender in request.in_flight_batches.items() if in_flight.state is State.FLYING]
        for _, sender in waiting:
            self._ready_partitions.mark(sender)
        return waiting

    def _asked(self, request: Request) -> PartitionSender:
        """The partition sender that a DescribeProducers or Fetch request is about."""
        assert isinstance(request, PartitionAsked)
        assert request.sender is not None
        self._ready_partitions.mark(request.sender)
        return request.sender

    def _pause(self, in_flight: InFlightBatch, code: int, *, introduced: bool) -> float:
        """How long to wait before the batch is sent again, in ms."""
        bounds = self._hooks.pause_ms(code, introduced=introduced, attempts=in_flight.attempts)
        if bounds is None:
            return self._backoff(in_flight.attempts - 1)
        return bounds[0] + (bounds[1] - bounds[0]) * self._draw()

    def _backoff(self, attempt: int) -> float:
        return backoff_ms(attempt, self._settings.retry_backoff_ms, self._settings.retry_backoff_max_ms, self._draw())

    def _learn_endpoints(self, answer: ProduceResponse) -> list[Command]:
        """Learn the new leader's address, which an error response contains (KIP-951). Addresses of other brokers are ignored."""
        leaders = {part.current_leader.leader_id for topic in answer.responses for part in topic.partition_responses}
        named = {e.node_id: Address(e.host, e.port) for e in answer.node_endpoints if e.node_id in leaders}
        if not named:
            return []
        if not named.keys() <= self._view.brokers.keys():
            self._ready_partitions.stir()  # The broker may lead other partitions, too.
        self._view.brokers = self._view.brokers | named
        return self._nodes.learn(self._view.brokers)


def record_errors(part: PartitionProduceResponse) -> str:
    """The broker's error message; without one, its messages about single records (KIP-467)."""
    named = (f"record {e.batch_index}: {e.batch_index_error_message}" for e in part.record_errors[:5])
    return said(part.error_message or "; ".join(named))
