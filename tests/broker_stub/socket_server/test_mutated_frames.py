"""Mutated frames, at the stub's socket and at a producer's connection, and odd requests that are well formed.

Nothing crashes, nothing stays in memory, and the next request is served. A sample by default; FENCEPOST_FRAMES=1000000 sends so many at
each (`make mutate`). The seed is printed; FENCEPOST_SEED replays one.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import random
import socket
import struct
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from msgspec.structs import replace

from fencepost.broker_stub import BrokerStub, Sasl, VirtualClock
from fencepost.broker_stub.cluster.cluster import Cluster
from fencepost.broker_stub.cluster.topics import OFFSETS_TOPIC, STATE_TOPIC
from fencepost.broker_stub.journal.journal import Journal
from fencepost.broker_stub.requests.dispatcher import Dispatcher
from fencepost.broker_stub.requests.router import route_to, served
from fencepost.broker_stub.requests.services import Services
from fencepost.broker_stub.socket_server import client_connection as server_link
from fencepost.broker_stub.socket_server.acceptor import Acceptor
from fencepost.producer.network.connection import CORRELATION_ID_FIRST, Connection
from fencepost.producer.wire import (
    REQUESTS,
    RESPONSES,
    Api,
    Buffer,
    FindCoordinatorRequest,
    Message,
    UnsupportedFieldValue,
    decode_response,
    encode_request,
    encode_response,
)
from fencepost.producer.wire.messages.group_admin import DescribeGroupsRequest
from fencepost.producer.wire.messages.groups import JoinGroupRequest, JoinGroupRequestProtocol
from fencepost.producer.wire.messages.sasl import SaslAuthenticateRequest, SaslHandshakeRequest
from fencepost.producer.wire.messages.share_groups import ShareGroupDescribeRequest, ShareGroupHeartbeatRequest
from tests.broker_stub.filled_requests import filled, request_of
from tests.broker_stub.odd_requests import GROUPS, TOPICS, OddRequests
from tests.broker_stub.stub_calls import Talker, numbered
from tests.drawn import drawn
from tests.producer.wire.damage import damage

FRAMES = int(os.environ.get("FENCEPOST_FRAMES", "4000"))
ROUNDS = 8
PER_CONNECTION = 6
DEADLINE_S = 30.0
SHARE_MAX = 0.02  # that a process may have grown by
BLOCKS_MORE_MAX = 3_000

LINGER_AND_FORGET = struct.pack("ii", 1, 0)  # no TIME_WAIT: there are too many connections for that

pytestmark = pytest.mark.timeout(7_200 if FRAMES > 10_000 else 200)


def seeded() -> random.Random:
    seed = int(os.environ.get("FENCEPOST_SEED") or random.SystemRandom().randrange(1 << 30))
    print(f"{FRAMES} frames, FENCEPOST_SEED={seed}")
    return random.Random(seed)


def requests() -> list[bytes]:
    """A frame of every request in every version that the stub serves, about topics that there are."""
    frames = []
    for each in served():
        route = route_to(each.api)
        assert route is not None
        for version in route.versions:
            message = request_of(each.api, version)
            if each.api == Api.PRODUCE:
                part = replace(message.topic_data[0].partition_data[0], records=numbered(7, 0))
                message = replace(message, topic_data=[replace(message.topic_data[0], partition_data=[part])])
            frames.append(b"".join(encode_request(message, version, correlation_id=1, client_id="mutant"))[4:])
    return frames


def sized(frame: bytes, rng: random.Random) -> bytes:
    """With its length in front, which is seldom wrong."""
    size = len(frame).to_bytes(4, "big")
    return (size if rng.random() < 0.98 else damage(size, rng)) + frame


def blocks() -> int:
    """How much Python's allocator has given out and not got back."""
    gc.collect()
    return sys.getallocatedblocks()


def assert_flat(after: list[int]) -> None:
    """Nothing grows after the first rounds, in which everything is loaded and compiled."""
    first, last = max(after[: len(after) // 2]), after[-1]
    assert last - first < max(first * SHARE_MAX, BLOCKS_MORE_MAX), after


def test_the_stub_survives_mutated_requests(caplog: pytest.LogCaptureFixture) -> None:
    """Each connection ends or is answered, other connections are served as before, no exception reaches the loop, and a stub that is
    closed leaves nothing in memory."""
    rng, corpus, after = seeded(), requests(), list[int]()
    with caplog.at_level(logging.ERROR):
        for _ in range(ROUNDS):
            with BrokerStub(auto_create_topics=False, journal=50) as stub:
                for name in ("name", "topic"):
                    stub.create_topic(name)
                with Talker(stub) as bystander:
                    for frame in corpus if not after else ():
                        talk(stub.addresses[1], sized(frame, rng))  # compiles the codecs that are compiled at their first use
                    for _ in range(max(1, FRAMES // ROUNDS // PER_CONNECTION)):
                        frames = [sized(damage(rng.choice(corpus), rng), rng) for _ in range(PER_CONNECTION)]
                        talk(stub.addresses[1], b"".join(frames))
                    bystander.producer_id()
                stub.faults.clear()
                stub.create_topic("after", partitions=1)
                with Talker(stub) as talker:
                    assert talker.produce("after", numbered(-1, -1)).error_code == 0
                    assert talker.fetch("after").records
            after.append(blocks())
    assert [record.getMessage() for record in caplog.records if record.name.startswith("fencepost")] == []
    assert_flat(after)


def talk(address: tuple[str, int], data: bytes) -> None:
    """Says it and listens to the end."""
    with socket.create_connection(address, timeout=DEADLINE_S) as connection:
        try:
            connection.sendall(data)
            connection.shutdown(socket.SHUT_WR)
            while connection.recv(65_536):
                pass
        except ConnectionError:
            pass  # it had heard enough
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, LINGER_AND_FORGET)


class Ear:
    """The client's end of a connection without a socket: it hears frames, and whether the broker hung up."""

    def __init__(self) -> None:
        self.frames: list[bytes] = []
        self.ended = False

    def write(self, parts: list[Buffer]) -> None:
        self.frames.append(b"".join(parts)[4:])

    def cut(self, *, flush: bool) -> None:
        self.ended = True

    def pause(self, paused: bool) -> None:
        """Everything that is asked waits its turn."""


class OddWorld:
    """A cluster, clients that ask odd things, and brokers that come and go."""

    def __init__(self, rng: random.Random, *, sasl: bool) -> None:
        self.rng = rng
        self.clock = VirtualClock()
        users = {"a": "secret"}
        self.cluster = Cluster(self.clock, brokers=3, config={"max.connections": 1000})
        dispatcher = Dispatcher(Services(self.cluster, Journal(10)))
        self.acceptor = Acceptor(dispatcher, sasl=Sasl(users) if sasl else None)
        for broker in self.cluster.brokers.values():
            broker.host, broker.port = "broker", 9000 + broker.node_id
        for name in (OFFSETS_TOPIC, STATE_TOPIC):
            self.cluster.internal_topic(name)
        for name in TOPICS:
            self.cluster.create_topic(name, partitions=2, replication_factor=2)
        self.odd = OddRequests(rng)
        self.sasl = sasl
        self._connections: dict[int, list[tuple[server_link.ClientConnection, Ear]]] = {node: [] for node in self.cluster.brokers}

    def step(self) -> None:
        chance = self.rng.random()
        if chance < 0.9:
            self._ask()
        elif chance < 0.97:
            self.pass_time(self.rng.choice([1, 100, 5_000, 60_000]))
        else:
            self._disturb()
        self.cluster.tick()

    def pass_time(self, ms: int) -> None:
        self.clock.advance(ms)
        self.cluster.tick()

    def settle(self) -> None:
        """Every broker is up and reaches the others, and every wait is over."""
        for node, broker in self.cluster.brokers.items():
            if not broker.registered:  # a client has unregistered it, and nothing leads on it until it starts again
                self.cluster.stop_broker(node)
                self.cluster.start_broker(node)
        for node in self.cluster.brokers:
            self.cluster.start_broker(node)
            for other in self.cluster.brokers:
                if other != node:
                    self.cluster.broker_links.mend(node, other)
        self.cluster.cut_connections()
        for _ in range(12):
            self.pass_time(600_000)

    def ask(self, node: int, request: Message, version: int) -> Any:
        """The response to a new client, which must come at once or after the timers that are due."""
        ear = Ear()
        connection = self.acceptor.connect(node, ear)
        connection.receive(b"".join(encode_request(request, version, correlation_id=1, client_id="after"))[4:])
        self.cluster.tick()
        (frame,) = ear.frames
        return decode_response(frame, request.api, version)[1]

    def _ask(self) -> None:
        node = self.rng.choice([node for node, broker in self.cluster.brokers.items() if broker.alive and not broker.fenced])
        connections = self._connections[node] = [(connection, ear) for connection, ear in self._connections[node] if connection.open]
        free = [each for each in connections if not each[0].busy]
        if not free or self.rng.random() < 0.1:
            if len(connections) > 5:
                connections[0][0].lost()
            ear = Ear()
            connections.append((self.acceptor.connect(node, ear), ear))
            free = [connections[-1]]
        connection, ear = self.rng.choice(free)
        request, version = self._greeting() if self.sasl and not connection.proven else self.odd.one()
        try:
            parts = encode_request(request, version, correlation_id=1, client_id="odd")
        except UnsupportedFieldValue:
            return  # a tagged field or a null that this version cannot say
        before = len(ear.frames)
        connection.receive(b"".join(parts)[4:])
        for frame in ear.frames[before:]:
            if connection.sasl_state is None or not connection.sasl_state.bare:
                self.odd.hear(decode_response(frame, request.api, version)[1])
        del ear.frames[:]

    def _greeting(self) -> tuple[Message, int]:
        """What is listened to before a client is authenticated."""
        greetings: list[type[Message]] = [SaslHandshakeRequest, SaslAuthenticateRequest]
        cls = self.rng.choice(greetings)
        version = cls.versions.stop - 1
        return self.odd.of(cls, version), version

    def _disturb(self) -> None:
        cluster, node = self.cluster, self.rng.choice(list(self.cluster.brokers))
        if cluster.brokers[node].alive and len(cluster.live) > 1:
            cluster.stop_broker(node)
        else:
            cluster.start_broker(node)
        one, other = self.rng.sample(list(cluster.brokers), 2)
        self.rng.choice([cluster.broker_links.sever, cluster.broker_links.mend, cluster.broker_links.mend])(one, other)


@drawn(2)
@pytest.mark.parametrize("sasl", [False, True])
def test_the_stub_survives_odd_requests(sasl: bool, caplog: pytest.LogCaptureFixture) -> None:
    """For all contents of well-formed requests, also repeated ones, no handler and no timer fails. Afterwards all clients are served as
    before: records, transactions, and every group of the other clients."""
    rng = seeded()
    for _ in range(ROUNDS):
        seed = rng.randrange(1 << 30)
        world = OddWorld(random.Random(seed), sasl=sasl)
        with caplog.at_level(logging.ERROR):
            for _ in range(max(1, FRAMES // ROUNDS)):
                world.step()
            world.settle()
        assert [record.getMessage() for record in caplog.records if record.name.startswith("fencepost")] == [], f"seed {seed}"
        if not sasl:
            for group in GROUPS:
                assert_served(world, group, seed)


def assert_served(world: OddWorld, group: str, seed: int) -> None:
    """A newcomer to the group joins it, and is its only member. A share group stays one, and takes a member of its own kind."""
    found = world.ask(1, FindCoordinatorRequest(coordinator_keys=[group]), 4).coordinators[0]
    assert found.error_code == 0, f"seed {seed}"
    if not world.ask(found.node_id, ShareGroupDescribeRequest(group_ids=[group]), 1).groups[0].error_code:
        joining = ShareGroupHeartbeatRequest(group_id=group, member_id="newcomer", subscribed_topic_names=["t"])
        assert world.ask(found.node_id, joining, 1).error_code == 0, f"seed {seed}"
        return
    described = world.ask(found.node_id, DescribeGroupsRequest(groups=[group]), 5).groups[0]
    request = JoinGroupRequest(
        group_id=group,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        protocol_type=described.protocol_type or "consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
    )
    answer = world.ask(found.node_id, request, 3)
    assert (answer.error_code, answer.leader) == (0, answer.member_id), f"seed {seed}: {answer}, of {described}"


class Nowhere(asyncio.Transport):
    """A transport that takes everything."""

    def __init__(self) -> None:
        super().__init__()
        self.aborted = False

    def write(self, data: Buffer) -> None:
        """The bytes go nowhere."""

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """There is no buffer."""

    def get_write_buffer_size(self) -> int:
        return 0

    def abort(self) -> None:
        self.aborted = True

    def is_closing(self) -> bool:
        return self.aborted


def answers() -> Iterator[tuple[Message, int, bytes]]:
    """A request in every version, and a frame that answers it."""
    for api, request in REQUESTS.items():
        for version in RESPONSES[api].versions:
            if version in request.versions:
                answer: Any = filled(RESPONSES[api], version)
                yield request_of(api, version), version, b"".join(encode_response(answer, version, correlation_id=CORRELATION_ID_FIRST))[4:]


def test_a_link_survives_mutated_answers() -> None:
    """Each is an answer, or the end of the connection with a reason, and no more; its owner hears of that end once; nothing is kept."""
    rng, corpus, after = seeded(), list(answers()), list[int]()
    heard = {"replies": 0, "ends": 0}
    for request, version, frame in corpus:
        decode_response(frame, request.api, version)

    async def rounds() -> None:
        for _ in range(ROUNDS):
            for _ in range(max(1, FRAMES // ROUNDS)):
                replies = answered(rng.choice(corpus), rng)
                heard["replies"] += replies
                heard["ends"] += not replies
            after.append(blocks())

    asyncio.run(rounds())
    print(heard)
    assert min(heard.values()) > 0
    assert_flat(after)


def answered(question: tuple[Message, int, bytes], rng: random.Random) -> int:
    """How many answers a connection of its own reads of a damaged one, in two pieces."""
    request, version, frame = question
    replies, ends = list[Message](), list[str]()
    connection = Connection("mutant", on_reply=lambda _, answer: replies.append(answer), on_lost=ends.append)
    connection.connection_made(Nowhere())
    connection.send(1, request.api, version, request)
    data = sized(damage(frame, rng), rng)
    cut = rng.randrange(len(data) + 1)
    for piece in (data[:cut], data[cut:]):
        connection.get_buffer(-1)[: len(piece)] = piece
        connection.buffer_updated(len(piece))
    connection.connection_lost(None)
    assert len(replies) <= 1
    assert len(ends) == 1, ends
    return len(replies)
