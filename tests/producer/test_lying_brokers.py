"""Brokers whose answers are damaged on the way and can be read all the same: whatever they say, the core raises nothing, goes on or ends
with a Fatal.

A sample by default; FENCEPOST_RUNS plays so many. A run is replayed by its number.
"""

from __future__ import annotations

import os
import random
from typing import Any

import pytest

from producer.core.errors import Fatal
from producer.core.events import Send
from producer.wire import Malformed, Message, decode, encode
from tests.producer.desk import Desk, Flight
from tests.wire.damage import damage

RUNS = max(20, int(os.environ.get("FENCEPOST_RUNS", "0")))
GROUPS = 5
STEPS = 40
CODES = (3, 6, 7, 45, 87)

pytestmark = pytest.mark.timeout(120 + RUNS)


class Liar(Desk):
    """A desk at which every other answer is damaged, once it has begun to lie."""

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
        desk = Liar(rng, partitions=2, metadata_max_age_ms=500.0, delivery_timeout_ms=20_000.0)
        desk.introduce()
        desk.lies = True
        for step in range(STEPS):
            if desk.dead is not None:
                break
            desk.send(b"x", partition=rng.randrange(2))
            for flight in desk.produces():
                if flight not in desk.open:
                    continue
                if rng.random() < 0.8:
                    desk.ack(flight, offset=step)
                else:
                    desk.refuse(flight, rng.choice(CODES))
            for question in desk.questions():
                if question in desk.open:
                    desk.tell(question, (0, 0, step))
            desk.advance(rng.choice([1, 50, 600]))
        assert desk.dead is None or isinstance(desk.dead.error, Fatal)
