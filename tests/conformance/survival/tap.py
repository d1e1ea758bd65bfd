"""Counts what goes in and out of a producer's core: batches that are sent, sent again, and every answer to each of them.

It stands between the engine and the core, where events and commands are plain values. It changes nothing.
"""

from __future__ import annotations

from collections import Counter
from uuid import UUID

from fencepost.producer import Producer
from fencepost.producer.core.events import Command, ConnectionLost, Event, Replied, Send
from fencepost.producer.wire import DescribeProducersRequest, ProduceRequest, ProduceResponse
from fencepost.producer.wire.codes import error_name
from fencepost.producer.wire.records import read_header
from tests.producer.core.harness import in_one

BatchName = tuple[int, int, int, int]
"""(partition, producer id, epoch, base sequence)."""

LOST = -1000
"""In place of an error code: the connection was lost first."""


class Tap:
    """Installed on a producer that writes to one topic."""

    def __init__(self, producer: Producer) -> None:
        self.answers: dict[BatchName, list[int]] = {}
        self.codes: Counter[str] = Counter()
        self.sent = 0
        self.resent = 0
        self.questions = 0
        self.highest_epoch = 0
        self.throttled = 0  # responses with a throttle time
        self.impatient = 0  # requests to a broker before its throttle time was over
        self._pauses: dict[int, float] = {}
        self._waiting: dict[int, tuple[int, dict[tuple[str | UUID, int], BatchName]]] = {}
        engine = producer._sender.engine
        self._core = engine.core
        self._step, engine.step = engine.step, self._watch

    def state(self) -> str:
        """The state of every partition and connection, for the message of a test that fails."""
        lines = [
            f"partition {each.partition}: healing={each.window.healing} recovering={each.window.recovering} asking={each.asking} "
            f"identity={each.window.identity} queued={len(each.queue.batches)} batches="
            + str([(one.base_sequence, one.state.name, one.attempts, one.last_code, one.doubt) for one in each.window.in_flight_batches])
            for each in list(self._core.produce_requests.senders.values())
        ]
        lines += [
            f"broker {node.node_id}: {node.state.name}, {len(node.requests)} requests, {node.failures} failures, {node.last_failure!r}"
            for node in self._core.nodes
        ]
        return "\n".join(lines)

    def _watch(self, event: Event, now_ms: float) -> list[Command]:
        if isinstance(event, Replied):
            self._answered(event, now_ms)
        elif isinstance(event, ConnectionLost):
            self._lost(event.node)
        commands = self._step(event, now_ms)
        for command in commands:
            if isinstance(command, Send):
                self._sent(command, now_ms)
        return commands

    def _sent(self, command: Send, now_ms: float) -> None:
        message = command.message
        self.impatient += now_ms < self._pauses.get(command.node, 0.0)
        if isinstance(message, DescribeProducersRequest):
            self.questions += 1
        if not isinstance(message, ProduceRequest):
            return
        batches: dict[tuple[str | UUID, int], BatchName] = {}
        for topic in message.topic_data:
            for part in topic.partition_data:
                header = read_header(in_one(part.records))
                name = (part.index, header.producer_id, header.producer_epoch, header.base_sequence)
                batches[topic.name or topic.topic_id, part.index] = name
                if name in self.answers and header.producer_id >= 0:
                    self.resent += 1
                else:
                    self.sent += 1
                    self.answers[name] = []
                self.highest_epoch = max(self.highest_epoch, header.producer_epoch)
        if command.answered:
            self._waiting[command.request_id] = (command.node, batches)

    def _answered(self, event: Replied, now_ms: float) -> None:
        pause_ms = getattr(event.response, "throttle_time_ms", 0)
        if pause_ms:
            self.throttled += 1
            self._pauses[event.node] = now_ms + pause_ms
        waiting = self._waiting.pop(event.request_id, None)
        if waiting is None or not isinstance(event.response, ProduceResponse):
            return
        for topic in event.response.responses:
            for part in topic.partition_responses:
                name = waiting[1].get((topic.name or topic.topic_id, part.index))
                if name is not None:
                    self._note(name, part.error_code)

    def _lost(self, node: int) -> None:
        for request_id in [request_id for request_id, (where, _) in self._waiting.items() if where == node]:
            for name in self._waiting.pop(request_id)[1].values():
                self._note(name, LOST)

    def _note(self, name: BatchName, code: int) -> None:
        self.answers[name].append(code)
        self.codes["no answer" if code == LOST else error_name(code)] += 1
