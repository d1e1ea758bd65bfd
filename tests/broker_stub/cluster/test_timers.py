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


def test_housekeeping_has_no_deadline_but_can_be_due() -> None:
    """It is asked for after other work, and runs at most once in a millisecond."""
    timers, ran = Timers(), list[str]()
    timers.every(0, lambda: ran.append("always"), first_ms=5)
    timers.every(10, lambda: ran.append("at times"), first_ms=7)
    assert timers.next_deadline() is None
    assert [timers.housekeeping_is_due(now_ms) for now_ms in (4, 5)] == [False, True]
    timers.run_due(7)
    assert ran == ["always", "at times"]
    assert [timers.housekeeping_is_due(now_ms) for now_ms in (7, 8)] == [False, True]


def test_housekeeping_is_waited_for_while_it_may_have_something_to_do() -> None:
    """Once after other work, always if it depends on the time, at once if more is left, and never twice in a millisecond."""
    timers, slices = Timers(), [True, True, False]
    timers.every(50, lambda: None, first_ms=50)
    timers.every(0, lambda: slices.pop(0) if slices else False, first_ms=60)
    assert timers.next_housekeeping() == 50
    timers.run_due(50)
    assert timers.next_housekeeping() is None
    timers.worked()
    assert timers.next_housekeeping() == 100
    timers.at(70, lambda: None)
    timers.run_due(60)
    assert timers.next_housekeeping() == 61
    timers.run_due(61)
    timers.run_due(62)
    assert timers.next_housekeeping() == 100
    timers.run_due(100)
    assert timers.next_housekeeping() == 150  # the timer was work
    timers.run_due(150)
    assert timers.next_housekeeping() is None
    timers.run_due(1_000)
    assert timers.next_housekeeping() is None
    timers.every(500, lambda: None, first_ms=1_000, restless=True)
    assert timers.next_housekeeping() == 1_001
    timers.run_due(1_001)
    assert timers.next_housekeeping() == 1_501


def test_cancelled_timers_do_not_stay_under_a_clock_that_stands_still() -> None:
    """A hundred thousand operations that were over before their time leave a small heap; those that wait all run."""
    timers, ran = Timers(), []
    for number in range(100_000):
        timer = timers.at(1_000, lambda: ran.append(0))
        if number % 1_000:
            timer.cancel()
    assert len(timers._heap) < 3_000
    timers.run_due(1_000)
    assert len(ran) == 100
