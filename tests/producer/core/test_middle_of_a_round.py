"""What callers' threads do in the middle of a round of the sender: between what it hears, its visit of a partition, and its plan for it.

No batch is left behind: it leaves when the caller's wake-up comes, and without one at the end of its linger.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

import fencepost
from fencepost.producer.core.events import Appended
from fencepost.producer.core.partition_sender import PartitionSender
from tests.producer.core.harness import TOPIC, CoreHarness

LINGER_MS = 5_000.0
ROW = b"x" * 10

pytestmark = pytest.mark.skipif(fencepost.build_info().compiled, reason="a compiled round cannot be interrupted by a test")


def append(harness: CoreHarness) -> None:
    """As a caller's thread does: the sender hears of it when it is woken."""
    assert harness.accumulator.append(harness.accumulator.topics[TOPIC], 0, 1_700_000_000_000, None, ROW, None, None) is not None


def begin_to_wait(harness: CoreHarness) -> None:
    """A caller finds no room (`WaitingCallers.wait`)."""
    harness.accumulator.waiting = 1
    harness.accumulator.newest_hurry = object()


def stop_waiting(harness: CoreHarness) -> None:
    harness.accumulator.waiting = 0


def one_round(
    harness: CoreHarness,
    monkeypatch: pytest.MonkeyPatch,
    *,
    heard: Callable[[CoreHarness], object],
    visited: Callable[[CoreHarness], object],
) -> None:
    """One round of the sender. Callers make the one call after it has heard, and the other one after it has visited the partitions."""
    partitions = harness.core.produce_requests.ready_partitions
    take, plan = partitions.take, partitions.plan

    def take_late(now_ms: float) -> list[PartitionSender]:
        heard(harness)
        return take(now_ms)

    def plan_late(sender: PartitionSender, now_ms: float) -> None:
        visited(harness)
        plan(sender, now_ms)

    with monkeypatch.context() as patched:
        patched.setattr(partitions, "take", take_late)
        patched.setattr(partitions, "plan", plan_late)
        harness.happen(Appended())
    assert not harness.produces()


def test_a_wait_for_room_follows_another_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """A caller gets room and waits for more in the middle of a round, which sees that no caller waits. The second wait's wake-up has the
    batch sent: else the caller would wait for room that only this batch can give back."""
    harness = CoreHarness(linger_ms=LINGER_MS, batch_size=16_384).introduce()
    begin_to_wait(harness)
    harness.happen(Appended())
    append(harness)
    one_round(harness, monkeypatch, heard=stop_waiting, visited=begin_to_wait)
    harness.happen(Appended())
    (flight,) = harness.produces()
    assert flight.values == [ROW]


CHANGES: dict[str, Callable[[CoreHarness], object]] = {
    "a caller waits for room": begin_to_wait,
    "a caller flushes": lambda harness: harness.accumulator.begin_flush(object()),
    "a caller waits for the outcome": lambda harness: harness.shared.hasten([harness.accumulator.topics[TOPIC].queues[0].batches[0]]),
    "the next batch begins": append,
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_batch_leaves_at_the_end_of_its_linger(monkeypatch: pytest.MonkeyPatch, change: str) -> None:
    """A batch lingers when the sender visits its partition, and need not any more when it plans. It leaves with its linger at the latest,
    even if no wake-up comes."""
    harness = CoreHarness(linger_ms=LINGER_MS, batch_size=100).introduce()
    append(harness)
    one_round(harness, monkeypatch, heard=lambda harness: None, visited=CHANGES[change])
    assert harness.core.produce_requests.senders[TOPIC, 0].ready_at_ms(harness.now) == harness.now
    harness.advance(LINGER_MS)
    assert harness.produces()[0].values == [ROW]
