"""Timers: they run in the order of their deadlines."""

from __future__ import annotations

from fencepost.broker_stub.cluster.timers import Timers


def test_timers_run_in_the_order_of_their_time() -> None:
    """By deadline, then by arrival; cancelled ones never, late ones when their time comes, and new ones for now in the same turn."""
    timers, ran = Timers(), list[str]()

    def begin() -> None:
        ran.append("a")
        timers.at(10, lambda: ran.append("from a"))

    timers.at(20, lambda: ran.append("late"))
    timers.at(10, begin)
    timers.at(10, lambda: ran.append("b"))
    timers.at(5, lambda: ran.append("never")).cancel()
    assert timers.next_deadline() == 10
    assert timers.run_due(9) == 0
    assert timers.run_due(10) == 3
    assert ran == ["a", "b", "from a"]
    assert timers.next_deadline() == 20
    timers.run_due(100)
    assert ran[-1] == "late"
    assert timers.next_deadline() is None
