"""The condition: notifications before, during and after a wait, from several threads at once."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from fencepost.producer.foundations.condition import Condition
from tests.interleaved import at_each_step

LONG_S = 20.0
NOTIFIERS = 3
WAITERS = 3
WAITS = 1_000


def soon(seconds: float = LONG_S) -> float:
    return time.monotonic() + seconds


def test_a_notification_that_came_before_the_wait_counts() -> None:
    """A caller that looked at `notified` before its condition misses nothing; one that has seen the newest notification waits."""
    condition = Condition()
    before = condition.notified
    assert before is None
    assert not condition.wait(before, soon(0.01))
    condition.notify_all()
    assert condition.wait(before, soon())
    seen = condition.notified
    assert not condition.wait(seen, soon(0.01))
    condition.notify_all()
    assert condition.wait(seen, soon())


def test_every_waiting_thread_continues() -> None:
    """One notification ends the wait of all threads, and their locks are removed."""
    condition = Condition()
    with ThreadPoolExecutor(4) as pool:
        waits = [pool.submit(condition.wait, None, soon()) for _ in range(4)]
        while len(condition._waiting) < 4:
            time.sleep(0.001)
        condition.notify_all()
        assert [each.result(LONG_S) for each in waits] == [True] * 4
    assert condition._waiting == []


def test_notifications_within_a_notification() -> None:
    """Whatever other threads notify in the middle of a call, the next notification is another one than each that was seen before."""

    def attempt() -> tuple[Callable[[], object], Callable[[], object]]:
        condition = Condition()
        seen: list[object] = []

        def others() -> None:
            condition.notify_all()
            condition.notify_all()
            seen.append(condition.notified)

        def call() -> None:
            condition.notify_all()
            if seen:
                condition.notify_all()
                assert condition.wait(seen[0], soon(0.0))

        return call, others

    assert at_each_step(attempt) > 5


def test_a_notification_that_ends_late() -> None:
    """A thread that has seen a notification already, and begins to wait before that has looked for waiting threads, waits for the next."""
    condition = Condition()
    condition.notified = object()
    with ThreadPoolExecutor(1) as pool:
        wait = pool.submit(condition.wait, condition.notified, soon())
        while not condition._waiting:
            time.sleep(0.001)
        condition._waiting[0].release()  # what the notification does now
        time.sleep(0.05)
        assert not wait.done()
        condition.notify_all()
        assert wait.result(LONG_S)


def test_many_threads_notify_and_wait() -> None:
    """No notification raises, and no wait outlasts the notifications that come all the time."""
    condition = Condition()
    over = threading.Event()

    def notify() -> None:
        while not over.is_set():
            condition.notify_all()

    def wait() -> int:
        return sum(condition.wait(condition.notified, soon()) for _ in range(WAITS))

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        with ThreadPoolExecutor(NOTIFIERS + WAITERS) as pool:
            notifying = [pool.submit(notify) for _ in range(NOTIFIERS)]
            waiting = [pool.submit(wait) for _ in range(WAITERS)]
            try:
                assert [each.result(3 * LONG_S) for each in waiting] == [WAITS] * WAITERS
            finally:
                over.set()
            assert [each.result(LONG_S) for each in notifying] == [None] * NOTIFIERS
    finally:
        sys.setswitchinterval(interval)
    assert condition._waiting == []
