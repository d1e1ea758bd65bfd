"""The reentrant lock, and signal handlers that raise while a thread takes it."""

from __future__ import annotations

import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from fencepost.producer.foundations.rlock import RLock

STRIKES = 300
LIMIT_S = 20.0


class Struck(BaseException):
    """The exception of a signal handler, as with Ctrl-C."""


def test_it_is_a_reentrant_lock() -> None:
    """Its thread takes it again, and no other thread gets it before it was given back as often."""
    lock = RLock()
    with ThreadPoolExecutor(1) as other:
        with lock, lock:
            assert not other.submit(lock.acquire, timeout=0.01).result(LIMIT_S)
        assert other.submit(lock.acquire, timeout=LIMIT_S).result(LIMIT_S)
        assert other.submit(lock.release).result(LIMIT_S) is None


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="Windows has no timers that send signals")
def test_a_signals_handler_leaves_it_free() -> None:
    """Wherever a handler raises while a thread takes the lock and gives it back, other threads get it afterwards."""

    def strike(number: int, frame: object) -> None:
        raise Struck

    def take(lock: threading.RLock) -> None:
        deadline = time.monotonic() + LIMIT_S
        while time.monotonic() < deadline:
            for _ in range(100):
                with lock:
                    pass

    before = signal.signal(signal.SIGALRM, strike)
    try:
        with ThreadPoolExecutor(1) as other:
            for _ in range(STRIKES):
                lock = RLock()
                with pytest.raises(Struck):
                    signal.setitimer(signal.ITIMER_REAL, 0.0005)
                    take(lock)
                assert other.submit(lock.acquire, blocking=False).result(LIMIT_S)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
