"""A producer whose process is stopped for a while, or whose thread is held: deadlines go on, and no broker is blamed."""

from __future__ import annotations

import logging

import pytest

from fencepost.producer import DeliveryTimeout, Persisted
from fencepost.producer.core.events import Ticked
from tests.producer.core.harness import CoreHarness

LINGER_MS = 100.0


def stand_still(harness: CoreHarness, ms: float) -> None:
    """The process is stopped for so long from when something is due."""
    harness.now = harness.core.next_wake_ms(harness.now) + ms
    harness.happen(Ticked())


def test_a_record_that_was_not_sent_meanwhile(caplog: pytest.LogCaptureFixture) -> None:
    """Its error says what happened, and that it is not in the log. The log warns once."""
    harness = CoreHarness(delivery_timeout_ms=4_000.0, linger_ms=LINGER_MS, batch_size=1_000).introduce()
    harness.send(b"x")
    stand_still(harness, 6_000)
    (settled,) = (each for each in harness.settled if each.failure is not None)
    assert isinstance(settled.failure, DeliveryTimeout)
    assert settled.failure.persisted is Persisted.NO
    assert "the producer stood still for 6.0 s" in str(settled.failure)
    (warning,) = caplog.messages
    assert warning.startswith("the producer stood still for 6.0 s: its process was stopped")


def test_an_answer_that_arrived_meanwhile_counts() -> None:
    """The request's time has passed, and its answer waits in the socket: the connection stays, and the answer is read."""
    harness = CoreHarness(request_timeout_ms=1_000.0).introduce()
    harness.send(b"x")
    harness.advance(0)
    (flight,) = harness.produces()
    stand_still(harness, 5_000)
    assert harness.disconnects == []
    harness.ack(flight)
    assert [each.failure for each in harness.settled] == [None]


def test_without_an_answer_the_request_ends_a_second_later() -> None:
    """The grace is for what has arrived: a broker that is silent is left soon."""
    harness = CoreHarness(request_timeout_ms=1_000.0).introduce()
    harness.send(b"x")
    harness.advance(0)
    stand_still(harness, 5_000)
    harness.advance(1_100)
    assert len(harness.disconnects) == 1


def test_a_short_delay_is_none(caplog: pytest.LogCaptureFixture) -> None:
    """A busy machine wakes the producer somewhat late. Nothing is said, and no request gets more time."""
    harness = CoreHarness(request_timeout_ms=1_000.0).introduce()
    harness.send(b"x")
    harness.advance(0)
    stand_still(harness, 900)
    assert len(harness.disconnects) == 1
    assert [each for each in caplog.records if each.levelno >= logging.WARNING] == []


def test_a_connection_that_was_being_made(caplog: pytest.LogCaptureFixture) -> None:
    """The time in which nothing could be noticed is no outage of the broker. If it lasts, the log warns five seconds later."""
    harness = CoreHarness(delivery_timeout_ms=200_000.0).introduce()
    harness.mute = {1}
    harness.lose(1)
    harness.send(b"x")
    stand_still(harness, 8_000)
    assert [each for each in caplog.messages if "cannot be used" in each] == []
    harness.advance(5_100)
    (warning,) = [each for each in caplog.messages if "cannot be used" in each]
    assert " cannot be used for 5 s" in warning
