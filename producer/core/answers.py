"""Reading answers: what a Produce or DescribeProducers answer, or its loss, means for the batches that it is about.

The meaning of a code is `verdict`'s, the consequences for a partition's sequences are `window`'s; this only carries the one to the other.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from uuid import UUID

from producer.core.agenda import Agenda
from producer.core.cluster import NO_TOPIC_ID, Address, ClusterView, Leader
from producer.core.errors import Fatal, Fenced
from producer.core.events import Command, Die
from producer.core.gate import Gate
from producer.core.lane import Lane
from producer.core.meter import Meter
from producer.core.nodes import Nodes, Request, backoff_ms
from producer.core.printable import said
from producer.core.scout import Scout
from producer.core.settings import Settings
from producer.core.slot import Slot, State
from producer.core.verdict import Verdict, judge
from producer.core.window import Known
from producer.wire.codes import Api, ErrorCode, error_name
from producer.wire.messages import DescribeProducersResponse, FetchResponse, ProduceResponse
from producer.wire.messages.produce import PartitionProduceResponse
from producer.wire.records import CorruptBatch, iter_batches

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


class Answers:
    """See the module. Every lane that an answer is about is marked on the agenda."""

    def __init__(
        self,
        settings: Settings,
        lanes: Mapping[tuple[str, int], Lane],
        agenda: Agenda,
        *,
        nodes: Nodes,
        view: ClusterView,
        scout: Scout,
        gate: Gate,
        draw: Callable[[], float],
        meter: Meter,
    ) -> None:
        self._settings = settings
        self._lanes = lanes
        self._agenda = agenda
        self._nodes = nodes
        self._view = view
        self._scout = scout
        self._gate = gate
        self._draw = draw
        self._meter = meter

    def produced(self, request: Request, answer: ProduceResponse, now_ms: float) -> list[Command]:
        """Read a Produce answer. A partition that it leaves out counts as unanswered.

        Topics are called what the request called them: one that was created anew meanwhile has another id by now.
        """
        commands = self._learn_endpoints(answer)
        said: dict[tuple[str | UUID, int], PartitionProduceResponse] = {}
        for topic in answer.responses:
            for partition in topic.partition_responses:
                said[topic.name or topic.topic_id, partition.index] = partition
        for slot in _unanswered(request):
            topic_name, partition_index = slot.batch.topic, int(slot.batch.partition)
            part = said.get((topic_name, partition_index)) or said.get((request.topic_ids[topic_name], partition_index))
            if part is None:
                self._lost(slot, now_ms)
                continue
            commands += self._read(slot, part, now_ms)
            if request.topic_ids[topic_name] not in (self._view.topic_id(topic_name), NO_TOPIC_ID):
                self._lane_of(slot).window.introduce_anew()  # to the topic that there is now
        return commands

    def _read(self, slot: Slot, part: PartitionProduceResponse, now_ms: float) -> list[Command]:
        window = self._lane_of(slot).window
        row = judge(Api.PRODUCE, part.error_code)
        if row.verdict is Verdict.DONE:
            known = part.error_code == ErrorCode.NONE
            window.acknowledged(slot, part.base_offset if known else -1, part.log_append_time_ms if known else -1)
            return []
        if part.error_code in MOVED or part.error_code in GONE:
            self._view.deny(slot.batch.topic, int(slot.batch.partition))
        if part.error_code in MOVED and part.current_leader.leader_id >= 0:
            self._view.moved(
                slot.batch.topic, int(slot.batch.partition), Leader(part.current_leader.leader_id, part.current_leader.leader_epoch)
            )
        if row.verdict is Verdict.SPLIT and slot.count > 1 and not slot.decided:
            if slot.doubt and self._settings.enable_idempotence:
                window.too_large(slot)
            else:
                self._split(self._lane_of(slot), slot)
            return []
        if row.verdict is Verdict.REFRESH:
            self._scout.refresh()
            if part.error_code in GONE and not slot.decided:
                self._scout.want(slot.batch.topic, until_ms=slot.deadline_ms)
        slot.doubt = slot.doubt or part.base_offset >= 0  # Whatever the error is, it was appended before.
        message = record_errors(part)
        window.refused(slot, row, part.error_code, now_ms, self._pause(slot, part.error_code, introduced=window.introduced), message)
        if row.verdict is Verdict.FATAL:
            kind = Fenced if part.error_code == ErrorCode.PRODUCER_FENCED else Fatal
            place = f"{slot.batch.topic}-{int(slot.batch.partition)}"
            return [Die(kind(f"Produce to {place} was refused with {error_name(part.error_code)}: {row.why}"))]
        return []

    def written(self, request: Request) -> None:
        """acks=0: the socket has the bytes, and nothing more will be heard."""
        for slot in _unanswered(request):
            self._lane_of(slot).window.acknowledged(slot, -1, -1)

    def lost(self, request: Request, now_ms: float) -> None:
        """The link died under the request."""
        if request.api is Api.PRODUCE:
            self._gate.unanswered()
        for slot in _unanswered(request):
            self._lost(slot, now_ms)
        if request.subject is not None:
            self._ask_later(self._lane_at(request.subject), now_ms)

    def described(self, request: Request, answer: DescribeProducersResponse, now_ms: float) -> None:
        """Read a DescribeProducers answer."""
        assert request.subject is not None
        lane = self._lane_at(request.subject)
        lane.asking = False
        part = next((p for t in answer.topics if t.name == lane.topic for p in t.partitions if p.partition_index == lane.partition), None)
        if part is None or part.error_code in ASK_AGAIN:
            self._scout.refresh()
            self._ask_later(lane, now_ms)
            return
        if lane.asked_at_launch != lane.window.launches:
            return  # Something was sent after the question: the answer may be older than what it would be applied to.
        if lane.asked_under != self._view.leadership(lane.topic, lane.partition):
            return  # Somebody else leads by now, perhaps without what this one had.
        lane.query_attempts = 0
        identities = {slot.identity[0] for slot in lane.window.slots if slot.unresolved}
        mine = [p for p in part.active_producers if p.producer_id in identities] if not part.error_code else []
        lane.window.described(Known(mine[0].producer_epoch, mine[0].last_sequence) if mine else None)
        oversized = lane.window.to_split()
        if oversized is not None:
            self._split(lane, oversized)

    def _split(self, lane: Lane, slot: Slot) -> None:
        self._meter.splits += 1
        lane.split(slot)

    def looked_up(self, request: Request, answer: FetchResponse, now_ms: float) -> None:
        """Read what the log holds where a batch is looked for."""
        assert request.subject is not None
        lane = self._lane_at(request.subject)
        lane.asking = False
        part = next(
            (p for t in answer.responses if t.topic == lane.topic for p in t.partitions if p.partition_index == lane.partition), None
        )
        if part is not None and part.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            lane.window.look_anew()
        if part is None or part.error_code:
            self._scout.refresh()
            self._ask_later(lane, now_ms)
            return
        try:
            batches = [header for header, _ in iter_batches(part.records or b"")]
        except CorruptBatch as error:
            log.warning("%s-%d holds a batch that cannot be read: %s", lane.topic, lane.partition, error)
            batches = []
        if lane.window.looked_at(batches):
            lane.query_attempts = 0
        else:
            self._ask_later(lane, now_ms)

    def _ask_later(self, lane: Lane, now_ms: float) -> None:
        lane.asking = False
        lane.query_not_before_ms = now_ms + self._backoff(lane.query_attempts)
        lane.query_attempts += 1

    def _lost(self, slot: Slot, now_ms: float) -> None:
        self._lane_of(slot).window.lost(slot, now_ms, self._backoff(slot.attempts - 1))

    def _lane_of(self, slot: Slot) -> Lane:
        return self._lane_at((slot.batch.topic, int(slot.batch.partition)))

    def _lane_at(self, tp: tuple[str, int]) -> Lane:
        lane = self._lanes[tp]
        self._agenda.mark(lane)
        return lane

    def _pause(self, slot: Slot, code: int, *, introduced: bool) -> float:
        """How long to wait before the slot is sent again, if it is."""
        bounds = self._gate.pause_ms(code, introduced=introduced, attempts=slot.attempts)
        if bounds is None:
            return self._backoff(slot.attempts - 1)
        return bounds[0] + (bounds[1] - bounds[0]) * self._draw()

    def _backoff(self, attempt: int) -> float:
        return backoff_ms(attempt, self._settings.retry_backoff_ms, self._settings.retry_backoff_max_ms, self._draw())

    def _learn_endpoints(self, answer: ProduceResponse) -> list[Command]:
        """KIP-951: a refusal names the new leader's address along with its id. Addresses of others are of no use."""
        leaders = {part.current_leader.leader_id for topic in answer.responses for part in topic.partition_responses}
        named = {e.node_id: Address(e.host, e.port) for e in answer.node_endpoints if e.node_id in leaders}
        if not named:
            return []
        if not named.keys() <= self._view.brokers.keys():
            self._agenda.stir()  # Other partitions may be led by it, too.
        self._view.brokers = self._view.brokers | named
        return self._nodes.learn(self._view.brokers)


def _unanswered(request: Request) -> list[Slot]:
    """The slots that wait for what comes now. One whose time ran out while its leader hung is resolved, and perhaps gone, as soon as the
    next leader acknowledges a later one."""
    return [slot for slot in request.slots if slot.state is State.FLYING]


def record_errors(part: PartitionProduceResponse) -> str:
    """The broker's words on a refusal; where it has none, what it says of single records (KIP-467)."""
    named = (f"record {e.batch_index}: {e.batch_index_error_message}" for e in part.record_errors[:5])
    return said(part.error_message or "; ".join(named))
