"""The sender thread wakes when something is due, and whenever a caller needs it; nothing waits for an event that never comes."""

from __future__ import annotations

import itertools
import threading
import time

import pytest

from fencepost.broker_stub import BrokerStub
from fencepost.producer.wire import Api, ErrorCode
from tests.producer.stub_helpers import quick, until, values


def test_a_backoff_that_ends_while_the_timer_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    """Time that passes between the core's last step and the setting of the timer loses no wake-up, however short the backoff is."""
    leaps, monotonic = itertools.count(), time.monotonic
    monkeypatch.setattr(time, "monotonic", lambda: monotonic() + next(leaps) * 0.002)
    with BrokerStub() as stub, quick(stub, retry_backoff_ms=1, retry_backoff_max_ms=1) as producer:
        fault = stub.faults.on(Api.PRODUCE).before().times(5).error(ErrorCode.NOT_ENOUGH_REPLICAS)
        assert producer.send("t", b"x").result(20).offset == 0
        assert fault.hits == 5
        stub.cut_connections()
        assert producer.send("t", b"y").result(20).offset == 1
        assert values(stub, "t") == [b"x", b"y"]


def test_a_thread_that_begins_after_the_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C may interrupt `Thread.start` while the new thread has not begun. The constructor raises, and the thread ends at once when it
    begins: nothing would stop it later."""
    late: list[threading.Thread] = []
    start = threading.Thread.start

    def interrupted(thread: threading.Thread) -> None:
        if thread.name.startswith("fencepost-sender"):
            late.append(thread)
            raise KeyboardInterrupt
        start(thread)

    with BrokerStub() as stub:
        with monkeypatch.context() as patched:
            patched.setattr(threading.Thread, "start", interrupted)
            with pytest.raises(KeyboardInterrupt):
                quick(stub)
        late[0].start()
        until(lambda: not late[0].is_alive(), "the thread has ended")


def test_a_thread_that_begins_before_the_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same where the thread runs already."""
    running: list[threading.Thread] = []
    start = threading.Thread.start

    def interrupted(thread: threading.Thread) -> None:
        start(thread)
        if thread.name.startswith("fencepost-sender"):
            running.append(thread)
            raise KeyboardInterrupt

    with BrokerStub() as stub:
        with monkeypatch.context() as patched:
            patched.setattr(threading.Thread, "start", interrupted)
            with pytest.raises(KeyboardInterrupt):
                quick(stub)
        until(lambda: not running[0].is_alive(), "the thread has ended")
