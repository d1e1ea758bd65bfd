"""Ctrl-C at every point of `produce`, `poll` and `flush`, uncompiled: no callback is called twice or forgotten, and `flush` still ends with
0."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from fencepost import BrokerStub
from fencepost.compat.confluent import Producer
from fencepost.producer.accumulator.batch import COMPILED
from tests.gil import needs_gil
from tests.strike import MARKS, Struck, interrupt, struck
from tests.waiting import until

pytestmark = [*MARKS, needs_gil, pytest.mark.skipif(COMPILED, reason="compiled code has no such points")]


@pytest.mark.parametrize("call", ["produce", "poll", "flush"])
def test_anywhere(call: str) -> None:
    """Each message is reported once if `produce` returned, and at most once if Ctrl-C ended it."""
    told: list[bytes] = []
    strikes = 0
    with BrokerStub() as broker:
        broker.create_topic("t")
        with Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 0}) as producer:

            def produce(value: bytes) -> None:
                producer.produce("t", value, on_delivery=lambda error, message: told.append(value))

            def under_strike(work: Callable[[], object], point: int) -> bool:
                """Whether Ctrl-C ended the call."""
                try:
                    struck(work, point, interrupt)
                except Struck:
                    return True
                return False

            produce(b"first")
            assert producer.flush(20) == 0
            for point in range(1, 80):
                value = b"%d" % point
                hit = False
                if call == "produce":
                    hit = under_strike(lambda: produce(b"%d" % point), point)  # noqa: B023  # called at once
                else:
                    produce(value)
                    until(lambda: producer._reports.ready, "the report")
                    strikes += under_strike((lambda: producer.poll(0)) if call == "poll" else (lambda: producer.flush(20)), point)
                strikes += hit
                assert producer.flush(5) == 0, f"point {point}"
                assert len(producer) == 0
                assert told.count(value) in ((0, 1) if hit else (1,)), f"point {point}: {told.count(value)}"
    assert strikes > 5
