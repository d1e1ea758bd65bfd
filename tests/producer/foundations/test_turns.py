"""Waits that a standstill of the process does not cut short: the other thread gets its turns after the deadline, too."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from fencepost.broker_stub import BrokerStub
from fencepost.producer import Producer
from fencepost.producer.foundations.condition import Condition
from fencepost.producer.foundations.turns import TURN_S, in_turns
from tests.later import Jump, jump

__all__ = ["jump"]

LONG_S = 60.0


def test_a_standstill_takes_one_turn(jump: Jump) -> None:
    """The deadline passes inside a wait. The other thread gets another one."""
    waits: list[float] = []

    def wait(limit_s: float) -> bool:
        waits.append(limit_s)
        jump(3_600_000)
        return len(waits) > 1

    assert in_turns(wait, time.monotonic() + LONG_S)
    assert waits == [TURN_S, TURN_S]


def test_the_turns_end(jump: Jump) -> None:
    """A wait is as long as it may be until the deadline; after it there are so many turns and no more."""
    waits: list[float] = []

    def wait(limit_s: float) -> bool:
        waits.append(limit_s)
        jump(3_600_000)
        return False

    assert not in_turns(wait, time.monotonic() + LONG_S, turns=3, longest_s=5.0)
    assert waits == [5.0, TURN_S, TURN_S, TURN_S]
    waits.clear()
    assert not in_turns(wait, time.monotonic() - 1.0, turns=0)
    assert waits == [TURN_S]


@pytest.mark.parametrize("call", ["flush", "close"])
def test_a_process_that_stood_still_blames_no_callback(
    jump: Jump, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, call: str
) -> None:
    """The time passes while no thread runs, and a callback is under way. When it returns at once afterwards, the call succeeds."""
    going, release, waits = threading.Event(), threading.Event(), threading.Event()
    stood_still: list[bool] = []
    wait = Condition.wait

    def goes_on(condition: Condition, seen: object | None, deadline: float) -> bool:
        if stood_still and not release.is_set():
            release.set()
            deadline += LONG_S
        waits.set()
        return wait(condition, seen, deadline)

    def block(*_: object) -> None:
        going.set()
        release.wait(LONG_S)

    with BrokerStub() as stub, ThreadPoolExecutor(1) as pool:
        stub.create_topic("t")
        with Producer(bootstrap_servers=stub.bootstrap, linger_ms=0) as producer:
            sent = producer.send("t", b"x", on_delivery=block)
            assert going.wait(LONG_S)
            assert sent.done()
            monkeypatch.setattr(Condition, "wait", goes_on)
            calling = pool.submit(getattr(producer, call), 30.0)
            assert waits.wait(LONG_S)
            stood_still.append(True)
            jump(3_600_000)
            assert calling.exception(LONG_S) is None
    assert "a callback or an interceptor" not in caplog.text
    assert "has not returned" not in caplog.text
