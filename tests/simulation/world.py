"""A producer's core and a stub cluster under one virtual clock, with a network that loses, delays and forgets.

The engine drives the same core, and the stub's server drives the same cluster; only sockets, threads and time are replaced. One seed
decides everything, so a seed replays its run.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from fencepost.broker_stub import handlers
from fencepost.broker_stub.cluster.clock import VirtualClock
from fencepost.broker_stub.cluster.cluster import Cluster
from fencepost.broker_stub.journal.journal import Journal
from fencepost.broker_stub.requests.call import Fate, Reply
from fencepost.broker_stub.requests.dispatcher import Dispatcher
from fencepost.broker_stub.requests.services import Services
from fencepost.producer.accumulator.accumulator import Accumulator, TopicQueues
from fencepost.producer.accumulator.batch import RecordFuture, Shared
from fencepost.producer.config.settings import Settings
from fencepost.producer.core.core import Core
from fencepost.producer.core.events import (
    Announce,
    Appended,
    Change,
    Command,
    Connect,
    Connected,
    ConnectionLost,
    Die,
    Disconnect,
    Event,
    Pack,
    Packed,
    Replied,
    Send,
    Settle,
    Ticked,
    TopicWanted,
    Written,
)
from fencepost.producer.foundations.address import Address
from fencepost.producer.wire import REQUESTS, Api, Message, ProduceRequest, RequestHeader, decode_request, encode_request
from fencepost.producer.wire.records import BatchHeader, read_records
from tests.strike import spared

handlers.register()

FRAME_SIZE_BYTES = 4
START_MS = 1_700_000_000_000
SESSION_MS = 2_000
"""Shorter than Kafka's, so that brokers are fenced and come back within one run."""
STRANGER = b"written by another producer"


class SimConnection:
    """One connection. Requests arrive in order, and responses come back in order. Either direction can be cut at any time."""

    def __init__(self, world: World, key: int, node: int, number: int) -> None:
        self.world = world
        self.key = key
        self.node = node
        self.number = number
        self.open = True
        self.told = False
        self.mute = False
        self.slow_until = 0.0
        self._queue: list[Send] = []
        self._busy = False
        self._arrival = 0.0
        self._return = 0.0

    def send(self, command: Send) -> None:
        self._arrival = max(self._arrival, self.world.now + self.world.latency())
        self.world.at(self._arrival, lambda: self._arrived(command))

    def _arrived(self, command: Send) -> None:
        if not self.open and self.world.random.random() < 0.5:
            self._queue.clear()
            self.mute = True
        if self.mute and not self.open:
            return
        if not self.open and not self.slow_until:
            self.slow_until = self.world.now + self.world.random.choice((0.0, 50.0, 1_000.0, 6_000.0))
            self.world.counts["LATE"] = self.world.counts.get("LATE", 0) + 1
        self._queue.append(command)
        self._serve()

    def _serve(self) -> None:
        if self._busy or not self._queue:
            return
        thaw = max(self.world.frozen.get(self.node, 0.0), self.slow_until)
        if thaw > self.world.now:
            self.world.at(thaw, self._serve)
            return
        if not self.world.cluster.brokers[self.node].alive:
            self._queue.clear()
            self.cut()
            return
        command = self._queue.pop(0)
        self._busy = True
        header, message = through_the_wire(command)
        if isinstance(message, ProduceRequest):  # A shorter timeout than requested, so that some requests time out.
            message = replace(message, timeout_ms=self.world.random.choice((100, 1_000, message.timeout_ms)))
        self.world.dispatcher.handle(self.node, self.number, header, message, lambda reply: self._served(command, reply))

    def _served(self, command: Send, reply: Reply) -> None:
        self._busy = False
        if reply.fate is Fate.ANSWER and self.open:
            assert reply.response is not None
            response = self.world.tamper(reply.response)
            self._return = max(self._return, self.world.now + self.world.latency())
            self.world.at(self._return, lambda: self._returned(command, response))
        elif reply.fate in (Fate.CUT, Fate.CUT_HALFWAY):
            self.cut()
        elif reply.fate is Fate.SILENCE:
            self.open = False
        self.world.at(self.world.now, self._serve)

    def _returned(self, command: Send, response: Any) -> None:
        if self.open:
            self.world.event(Replied(self.key, command.request_id, response))

    def cut(self, *, notice_ms: float = 0.0) -> None:
        """Cut the connection. The client notices after a while, or by its own timeout."""
        self.open = False
        self.world.at(self.world.now + notice_ms, self._tell)

    def _tell(self) -> None:
        if not self.told and self.world.connections.get(self.key) is self:
            self.told = True
            del self.world.connections[self.key]
            self.world.event(ConnectionLost(self.key, "cut"))


class World:
    """See the module docstring."""

    def __init__(
        self,
        seed: int,
        *,
        brokers: int = 3,
        latency_ms: tuple[float, float] = (0.2, 8.0),
        pack_aside_bytes: int | None = None,
        produce_version_max: int | None = None,
        **settings: Any,
    ) -> None:
        self.random = random.Random(seed)
        self.thorough = seed % 2 == 0
        self.now = 0.0
        self.clock = VirtualClock(START_MS)
        self.cluster = Cluster(self.clock, brokers=brokers, seed=seed, config={"broker.session.timeout.ms": SESSION_MS})
        self.services = Services(self.cluster, Journal(0))
        self.dispatcher = Dispatcher(self.services)
        self.connections: dict[int, SimConnection] = {}
        self.frozen: dict[int, float] = {}
        self.settled: list[tuple[float, Settle]] = []
        self.counts: dict[str, int] = {}
        self.dead: Die | None = None
        self.tamper: Callable[[Message], Message] = lambda response: response
        self.widest = 0
        self.produce_version_max = produce_version_max
        self._latency = latency_ms
        self._heap: list[tuple[float, int, Callable[[], None]]] = []
        self._number = 0
        self._timer = float("inf")
        self.settings = Settings(bootstrap_servers=("sim:1",), **settings)
        self.wakes = 0
        self.shared = Shared(patience_s=1.0)
        self.shared.wake = self._wake
        self.accumulator = Accumulator(
            batch_size=self.settings.batch_size, buffer_memory=self.settings.buffer_memory, clock=lambda: self.now, shared=self.shared
        )
        addresses = [Address("broker", node) for node in self.cluster.brokers]
        self.core = Core(
            self.settings, self.accumulator, bootstrap=addresses[:1], draw=self.random.random, pack_aside_bytes=pack_aside_bytes
        )

    # -- time ------------------------------------------------------------------------------------------------------------

    def at(self, when: float, run: Callable[[], None]) -> None:
        self._number += 1
        heapq.heappush(self._heap, (max(when, self.now), self._number, run))

    def run(self, until: float) -> None:
        """Run all events up to this time, in milliseconds."""
        while True:
            cluster_due = self.cluster.next_deadline()
            cluster_at = cluster_due - START_MS if cluster_due is not None else float("inf")
            heap_at = self._heap[0][0] if self._heap else float("inf")
            when = min(heap_at, cluster_at, self._timer)
            if when > until:
                break
            self._advance(max(when, self.now))
            if when == heap_at:
                heapq.heappop(self._heap)[2]()
            elif when == cluster_at:
                self.cluster.tick(self.clock.now_ms())
            else:
                self._timer = float("inf")
                self.event(Ticked())
        self._advance(until)

    def _advance(self, now: float) -> None:
        self.now = max(self.now, now)
        behind = int(START_MS + self.now) - self.clock.now_ms()
        if behind > 0:
            self.clock.advance(behind)

    def latency(self) -> float:
        return self.random.uniform(*self._latency)

    # -- the engine's part -----------------------------------------------------------------------------------------------

    def event(self, event: Event) -> None:
        for command in self.core.handle(event, self.now):
            self._do(command)
        self._check_nothing_is_forgotten()
        self.widest = max([self.widest, *(len(sender.window.in_flight_batches) for sender in self.core.produce_requests.senders.values())])
        wake = self.core.next_wake_ms(self.now)
        self._timer = wake if wake > self.now else self.now + 0.01 if wake != float("inf") else wake

    def _wake(self) -> None:
        self.at(self.now, self._woken)
        self.wakes += 1

    def _woken(self) -> None:
        self.wakes -= 1
        self.event(Appended())

    def _check_nothing_is_forgotten(self) -> None:
        """In every other run: check every partition, not only the ready ones. None may have more to do."""
        if self.thorough and self.core.dead is None:
            self.core.produce_requests.ready_partitions.stir()
            forgotten = self.core.produce_requests.advance(self.now)
            assert not forgotten, f"no partition was marked as ready, but these commands were due: {forgotten}"

    def _do(self, command: Command) -> None:
        match command:
            case Send():
                self._count(command)
                connection = self.connections.get(command.node)
                if connection is None:
                    self.at(self.now, lambda: self.event(ConnectionLost(command.node, "no connection")))
                    return
                connection.send(command)
                if not command.answered:
                    self.at(self.now, lambda: self.event(Written(command.node, command.request_id)))
            case Pack():
                self.counts["PACK"] = self.counts.get("PACK", 0) + 1
                assert command.batch.builder is not None
                payload = command.batch.builder.payload(command.codec, command.level)
                self.at(self.now + self.latency(), lambda: self.event(Packed(command.batch, payload)))
            case Settle():
                self.accumulator.release(command.batch)
                command.batch.settle(command.base_offset, command.log_append_time, command.failure)
                self.settled.append((self.now, command))
            case Connect():
                self.at(self.now + self.latency(), lambda: self._dial(command))
            case Disconnect():
                connection = self.connections.pop(command.node, None)
                if connection is not None:
                    connection.open = False
                    connection.told = True
                self.at(self.now, lambda: self.event(ConnectionLost(command.node, command.reason)))
            case Announce():
                self._announce(command)
            case Die():
                self.dead = command
                self.accumulator.refusal = command.error

    def _count(self, command: Send) -> None:
        self.counts[command.api.name] = self.counts.get(command.api.name, 0) + 1

    def _dial(self, command: Connect) -> None:
        node = command.node if command.node > 0 else command.port
        moved = command.node > 0 and command.port != self.cluster.brokers[node].port
        if moved or not self.cluster.brokers[node].alive:
            self.event(ConnectionLost(command.node, "refused"))
            return
        self._number += 1
        self.connections[command.node] = SimConnection(self, command.node, node, self._number)
        versions = {int(api): (message.versions.start, message.versions.stop - 1) for api, message in REQUESTS.items()}
        if self.produce_version_max is not None:
            versions[Api.PRODUCE] = (versions[Api.PRODUCE][0], self.produce_version_max)
        self.event(Connected(command.node, versions))

    def _announce(self, command: Announce) -> None:
        heard = command.heard
        if heard.change in (Change.MISSING, Change.REFUSED):
            return
        queues = self.accumulator.topics.get(heard.topic)
        if queues is None:
            queues = self.accumulator.topics[heard.topic] = TopicQueues(
                heard.topic, draw=lambda: self.random.getrandbits(31), round_robin=False
            )
        queues.grow(heard.partitions)
        queues.partitions = heard.partitions
        queues.available = list(command.available)

    def elapse(self, span_ms: float) -> None:
        """Let time pass in the middle of a caller's call. The interrupts of that call do not hit the events of this time."""
        with spared():
            self.run(self.now + span_ms)

    def dawdle(self) -> None:
        """The caller's own code takes some time, or other callers run. Mostly the time is too short to matter."""
        if self.random.random() < 0.05:
            self.elapse(self.random.expovariate(1 / 40))

    # -- the caller's part -----------------------------------------------------------------------------------------------

    def learn(self, topic: str) -> None:
        """Wait until the topic is known."""
        self.event(TopicWanted(topic))
        deadline = self.now + 10_000
        while topic not in self.accumulator.topics and self.now < deadline:
            self.run(self.now + 10)
        assert topic in self.accumulator.topics

    def send(self, topic: str, partition: int, value: bytes) -> RecordFuture | None:
        """Send a record; None if the buffer has no room."""
        return self.accumulator.append(self.accumulator.topics[topic], partition, int(START_MS + self.now), b"key", value, None, None)

    def headers(self, topic: str, partition: int) -> list[BatchHeader]:
        """The header of every batch in the partition's log."""
        found = self.cluster.find(topic, partition)
        assert found is not None
        return [header for header, _ in found.log.batches()]

    def log(self, topic: str, partition: int) -> list[tuple[int, bytes]]:
        """(offset, value) of each of the producer's records in the partition's log."""
        found = self.cluster.find(topic, partition)
        assert found is not None
        return [
            (record.offset, bytes(record.value or b""))
            for header, batch in found.log.batches()
            if not header.is_control
            for record in read_records(batch)
            if record.value != STRANGER
        ]


def through_the_wire(command: Send) -> tuple[RequestHeader, Message]:
    """What a broker reads from the bytes that a connection would write."""
    parts = encode_request(command.message, command.version, correlation_id=command.request_id, client_id="sim")
    header, message = decode_request(b"".join(parts)[FRAME_SIZE_BYTES:])
    return header, message
