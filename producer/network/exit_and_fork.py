"""What happens to a producer that nobody closes: process exit, garbage collection, fork.

Exit takes no more records, flushes within `exit_flush_ms` and says how many were not delivered. Collection ends the sender thread and
warns. In a forked child the producer refuses every call, because its sockets and its thread belong to the parent; the parent's goes on
untouched.
A child that a callback forked on the sender thread ends when the callback does.
"""

from __future__ import annotations

import atexit
import logging
import os
import sys
import time
import warnings
import weakref
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from fencepost.producer.accumulator.accumulator import Accumulator
from fencepost.producer.accumulator.batch import Batch, Shared
from fencepost.producer.errors import ProducerClosed, ProducerForked

if TYPE_CHECKING:
    from fencepost.producer.network.async_engine import AsyncEngine
    from fencepost.producer.network.sender_thread import SenderThread

log = logging.getLogger("fencepost.producer")


class ExitGuard:
    """Held by the producer object alone, so that its collection is the producer's collection."""

    def __init__(self, sender: SenderThread | AsyncEngine, accumulator: Accumulator, shared: Shared, *, exit_flush_s: float) -> None:
        self.sender = sender
        self._accumulator = accumulator
        self._shared = shared
        self._exit_flush_s = exit_flush_s
        self._ended = True
        LIVE.add(self)
        leave_with_multiprocessing()
        self._ended = False  # Ctrl-C may have struck before: then no producer owns this guard, and it ends nothing.

    def end(self) -> None:
        """The producer was closed properly."""
        self._ended = True
        LIVE.discard(self)

    def __del__(self) -> None:
        if not self._ended and self._shared.forked is None and self.sender.running:
            warnings.warn("a producer was garbage-collected without close(); its undelivered records fail", ResourceWarning, stacklevel=2)
            self.sender.stop(ProducerClosed("the producer was garbage-collected before the record was acknowledged"))

    def begin_to_leave(self) -> Callable[[], None]:
        """The process exits: begin to flush. What this returns waits for the rest of the bound, and says what was not delivered."""
        if self._ended or self._shared.forked is not None or not self.sender.running:
            return lambda: None
        self.end()
        patience_s = self._exit_flush_s if self.sender.goes_on else 0.0
        with self._shared.region:
            # Daemon threads go on until the very end: what they sent from here on would be accepted, and lost.
            if self._accumulator.refusal is None:
                self._accumulator.refusal = ProducerClosed("the process exits: no record can be sent any more")
        return partial(self._leave, self._accumulator.begin_flush(self), time.monotonic(), patience_s)

    def _leave(self, batches: list[Batch], began: float, patience_s: float) -> None:
        deadline = began + patience_s
        late = [batch for batch in batches if not batch.wait(max(0.0, deadline - time.monotonic()))]
        waited_s = time.monotonic() - began
        lost = sum(int(batch.count) for batch in late)
        self.sender.stop(ProducerClosed("the process exited before the record was acknowledged"))
        unseen = self.sender.failures.take()
        if lost or unseen is not None:
            count = unseen.count if unseen is not None else lost
            log.critical("exit without close(): %d records were not delivered after waiting %.1f s", count, waited_s)

    def after_fork_in_child(self) -> None:
        """This process has a copy of the memory, but neither the thread nor, by rights, the sockets."""
        forked = ProducerForked(
            f"this producer was made in process {os.getppid()} and cannot be used in its child {os.getpid()}: make a new one after the fork"
        )
        self._shared.renew_lock()
        self._shared.forked = forked
        if self.sender.strands_children and self._shared.on_sender():
            self._shared.stranded = end_child
        self._accumulator.refusal = forked
        BURIED.append(self.sender)


def end_child(error: BaseException | None) -> None:
    """A callback forked, and now its child's copy of it is over. What comes next on the sender thread is the parent's: the sockets, and the
    callbacks of other records. The child ends as a program ends."""
    if isinstance(error, SystemExit):
        code = error.code if isinstance(error.code, int) else int(error.code is not None)
        if error.code is not None and not isinstance(error.code, int):
            print(error.code, file=sys.stderr)
    elif error is not None:
        log.error("a callback raised in the child that it had forked", exc_info=error)
        code = 1
    else:
        code = 0
    for stream in (sys.stdout, sys.stderr):
        with suppress(AttributeError, OSError, ValueError):  # there is none, or it is closed
            stream.flush()
    os._exit(code & 0xFF)


LIVE: weakref.WeakSet[ExitGuard] = weakref.WeakSet()
BURIED: list[SenderThread | AsyncEngine] = []
"""A parent's senders in its child: kept, so that no destructor touches a socket or an epoll set that the parent is using."""


def leave_all() -> None:
    """At exit, for every producer that is still open. They share the time that they have."""
    for leave in [exit_guard.begin_to_leave() for exit_guard in list(LIVE)]:
        leave()


def leave_with_multiprocessing() -> None:
    """A child of multiprocessing that was forked ends with `os._exit`, which passes over `atexit`; it runs its own finalizers."""
    process, util = sys.modules.get("multiprocessing.process"), sys.modules.get("multiprocessing.util")
    if process is not None and util is not None and process.parent_process() is not None and os.getpid() not in LEAVING:
        LEAVING[os.getpid()] = util.Finalize(None, leave_all, exitpriority=0)


LEAVING: dict[int, object] = {}
"""What multiprocessing was asked to run at this process's end."""


def bury_all() -> None:
    """In a forked child."""
    for exit_guard in list(LIVE):
        exit_guard.after_fork_in_child()


atexit.register(leave_all)
if hasattr(os, "register_at_fork"):  # Windows has no fork.
    os.register_at_fork(after_in_child=bury_all)
