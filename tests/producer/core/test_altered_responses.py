"""Brokers whose responses are altered and still readable.

For every such response the core raises nothing, and goes on or ends with a Fatal. FENCEPOST_RUNS says how many runs to play, by default a
sample. The number of a run replays it.
"""

from __future__ import annotations

import os
import random
import tracemalloc
from contextlib import suppress
from typing import Any

import pytest
from msgspec.structs import replace

from fencepost.producer.core.events import Send
from fencepost.producer.errors import Fatal
from fencepost.producer.wire import (
    Api,
    ErrorCode,
    Malformed,
    Message,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
    decode,
    encode,
)
from fencepost.producer.wire.messages import RESPONSES
from fencepost.producer.wire.messages.common import NodeEndpoint
from tests.drawn import drawn
from tests.producer.core.harness import CoreHarness, Flight
from tests.producer.wire.damage import damage

RUNS = max(20, int(os.environ.get("FENCEPOST_RUNS", "0")))
GROUPS = 5
STEPS = 40
CODES = (3, 6, 7, 45, 87)

pytestmark = pytest.mark.timeout(120 + RUNS)


class Liar(CoreHarness):
    """A harness that alters every other response after the test has switched this on."""

    def __init__(self, rng: random.Random, **settings: Any) -> None:
        super().__init__(**settings)
        self.rng = rng
        self.lies = False

    def answer_to(self, command: Send) -> Message:
        return self.twisted(super().answer_to(command), command.version)

    def reply(self, flight: Flight, message: Message) -> None:
        super().reply(flight, self.twisted(message, flight.command.version))

    def twisted(self, message: Message, version: int) -> Message:
        """The message with some bytes changed, where that is a message; or as it is."""
        if not self.lies or self.rng.random() < 0.5:
            return message
        data = encode(message, version)
        for _ in range(5):
            try:
                return decode(type(message), version, damage(data, self.rng))
            except Malformed:
                continue
        return message


@pytest.mark.parametrize("group", range(GROUPS))
def test_the_core_survives_what_it_is_told(group: int) -> None:
    """Metadata, producer ids, Produce and DescribeProducers, each with other topics, numbers, codes and counts than were said."""
    for run in range(group, RUNS, GROUPS):
        print(f"run {run}")
        rng = random.Random(run)
        harness = Liar(rng, partitions=2, metadata_max_age_ms=500.0, delivery_timeout_ms=20_000.0)
        harness.introduce()
        harness.lies = True
        for step in range(STEPS):
            if harness.dead is not None:
                break
            harness.send(b"x", partition=rng.randrange(2))
            for flight in harness.produces():
                if flight not in harness.open:
                    continue
                if rng.random() < 0.8:
                    harness.ack(flight, offset=step)
                else:
                    harness.refuse(flight, rng.choice(CODES))
            for question in harness.questions():
                if question in harness.open:
                    harness.tell(question, (0, 0, step))
            harness.advance(rng.choice([1, 50, 600]))
        assert harness.dead is None or isinstance(harness.dead.error, Fatal)


def hostile_metadata(name: str, topics: int = 3) -> MetadataResponse:
    """Topics of one partition that says to be the last of a million."""
    partition = MetadataResponsePartition(partition_index=999_999, leader_id=1, leader_epoch=0)
    named = [MetadataResponseTopic(error_code=0, name=name.format(n), partitions=[partition]) for n in range(topics)]
    return MetadataResponse(brokers=[MetadataResponseBroker(node_id=-1, host="h", port=1)], topics=named)


@pytest.mark.parametrize("name", ["{}", "t"])
def test_a_small_answer_costs_little(name: str) -> None:
    """A Metadata response of 150 bytes names topics with a million partitions, asked for or not. It takes little memory, changes no
    bootstrap address, and the producer still sends."""
    harness = CoreHarness().introduce()
    harness.auto.discard(Api.METADATA)
    harness.core.metadata_updater.refresh()
    harness.advance(100)
    (flight,) = harness.open
    data = encode(hostile_metadata(name), flight.command.version)
    assert len(data) < 250
    bootstrap = harness.core.nodes.get(-1)
    assert bootstrap is not None
    address = bootstrap.address
    tracemalloc.start()
    try:
        harness.reply(flight, decode(MetadataResponse, flight.command.version, data))
        assert tracemalloc.get_traced_memory()[1] < 500_000
    finally:
        tracemalloc.stop()
    assert bootstrap.address == address
    assert list(harness.core.view.topics) == ["t"]
    assert {news.heard.topic for news in harness.announced} == {"t"}
    harness.auto.add(Api.METADATA)
    harness.advance(1_000)
    (future,) = harness.send(b"x")
    harness.ack(harness.produces()[0])
    assert future.done()


def test_endpoints_of_brokers_that_lead_nothing() -> None:
    """A Produce answer may name the addresses of new leaders (KIP-951): those of others are not kept, however many it names."""
    harness = CoreHarness().introduce()
    harness.send(b"x")
    known = set(harness.core.view.brokers)
    (flight,) = harness.produces()
    endpoints = [NodeEndpoint(node_id=n, host="h", port=1) for n in (*range(-5, 0), *range(7, 1_000))]
    refusal = harness.refusal(flight, ErrorCode.NOT_LEADER_OR_FOLLOWER, leader=(7, 9))
    harness.reply(flight, replace(refusal, node_endpoints=endpoints))
    assert set(harness.core.view.brokers) == known | {7}


def memory_of(kind: type[Message], version: int, data: bytes) -> int:
    """The most that decoding takes, and with it what other threads take meanwhile."""
    tracemalloc.reset_peak()
    before = tracemalloc.get_traced_memory()[0]
    with suppress(Malformed):
        decode(kind, version, data)
    return tracemalloc.get_traced_memory()[1] - before


@drawn(4)
@pytest.mark.parametrize("kind", RESPONSES.values(), ids=lambda kind: kind.__name__)
def test_no_small_answer_takes_much_memory(kind: type[Message]) -> None:
    """For every kind and version of response, 300 bytes become objects of at most a few hundred times that size, also with false counts and
    lengths."""
    rng = random.Random(kind.__name__)
    tracemalloc.start()
    try:
        for version in kind.versions:
            with suppress(Malformed):
                decode(kind, version, bytes(300))  # compiles the decoder, which is kept
            for _ in range(30):
                data = bytes(rng.choices((0, 1, 2, 0x7F, 0xFF), (8, 4, 2, 1, 1), k=300))
                assert any(memory_of(kind, version, data) < 100_000 for _ in range(5)), (version, data)
    finally:
        tracemalloc.stop()
