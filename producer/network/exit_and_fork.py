"""What happens to a producer that the program does not close: process exit, garbage collection, fork.

At exit the producer refuses new records, flushes within `exit_flush_ms` and logs how many records were not delivered. Garbage collection
ends the sender thread and warns. In a forked child the producer refuses every call, because its sockets and its thread belong to the
parent. The parent's producer is not affected.
If a callback on the sender thread forks, the child process ends when the callback returns.
"""

from __future__ import annotations

import atexit
import logging
import os
import sys
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from fencepost.producer.accumulator.accumulator import Accumulator
from fencepost.producer.accumulator.batch import Batch, Shared
from fencepost.producer.errors import ProducerClosed, ProducerForked
from fencepost.producer.foundations.counted import counted
from fencepost.producer.foundations.weak_list import WeakList

if TYPE_CHECKING:
    from fencepost.producer.network.async_engine import AsyncEngine
    from fencepost.producer.network.sender_thread import SenderThread

log = logging.getLogger("fencepost.producer")


class ExitGuard:
    """Only the producer object references it, so both are garbage-collected together."""

    def __init__(self, sender: SenderThread | AsyncEngine, accumulator: Accumulator, shared: Shared, *, exit_flush_s: float) -> None:
        self.sender = sender
        self._accumulator = accumulator
        self._shared = shared
        self._exit_flush_s = exit_flush_s
        self._ended = True
        LIVE.add(self)
        leave_with_multiprocessing()
        self._ended = False  # Last: if Ctrl-C interrupts the lines above, no producer owns this guard, and it must end nothing.

    def end(self) -> None:
        """The producer was closed properly."""
        self._ended = True
        LIVE.discard(self)

    def __del__(self) -> None:
        if self._ended or self._shared.forked is not None:
            return
        try:
            if self.sender.running:
                warnings.warn(
                    "a producer was garbage-collected without close(); its undelivered records fail: call close() or use `with`",
                    ResourceWarning,
                    stacklevel=2,
                )
        finally:  # The program may make warnings raise. And the thread may begin later, if Ctrl-C interrupted its start.
            self.sender.stop(ProducerClosed("the producer was garbage-collected before the record was acknowledged"))

    def begin_to_leave(self) -> Callable[[], None]:
        """The process exits: begin to flush. The returned function waits at most `exit_flush_ms`, and logs what was not delivered."""
        if self._ended or self._shared.forked is not None or not self.sender.running:
            return lambda: None
        self.end()
        patience_s = self._exit_flush_s if self.sender.goes_on else 0.0
        with self._shared.region:
            # Daemon threads run until the interpreter ends. A record that they send from now on would be accepted and lost.
            if self._accumulator.refusal is None:
                self._accumulator.refusal = ProducerClosed("the process exits: no more records can be sent")
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
            log.critical(
                "exit without close(): %s not delivered after waiting %.1f s (exit_flush_ms): call close() or use `with`",
                counted(count, "record was", "records were"),
                waited_s,
            )

    def after_fork_in_child(self) -> None:
        """Make the copy in this process unusable: the sender thread does not exist here, and the parent uses the sockets."""
        forked = ProducerForked(
            f"this producer was made in process {os.getppid()} and cannot be used in its child {os.getpid()}: make a new one after the fork"
        )
        self._shared.renew_lock()
        self._shared.forked = forked
        if self.sender.strands_children and self._shared.on_sender():
            self._shared.stranded = end_child
        self._accumulator.refusal = forked
        PARENTS_SENDERS.append(self.sender)


def end_child(error: BaseException | None) -> None:
    """End the child of a callback that forked, once the callback returned in the child. What follows on the sender thread (sockets,
    callbacks of other records) belongs to the parent. The exit code is the one that a program would have."""
    if isinstance(error, SystemExit):
        code = error.code if isinstance(error.code, int) else int(error.code is not None)
        if error.code is not None and not isinstance(error.code, int):
            print(error.code, file=sys.stderr)
    elif error is not None:
        log.error("a callback forked, and raised in the child process; the child ends with exit code 1", exc_info=error)
        code = 1
    else:
        code = 0
    for stream in (sys.stdout, sys.stderr):
        with suppress(AttributeError, OSError, ValueError):  # there is none, or it is closed
            stream.flush()
    os._exit(code & 0xFF)


LIVE: WeakList[ExitGuard] = WeakList()
PARENTS_SENDERS: list[SenderThread | AsyncEngine] = []
"""In a forked child, the parent's senders. They are kept, so that no destructor touches a socket or an epoll set that the parent uses."""


BEFORE_LEAVING: list[Callable[[], None]] = []
"""At exit they run first: they give records to the producers."""


def leave_all() -> None:
    """At exit, for every open producer. All begin to flush before the first one is waited for."""
    for prepare in BEFORE_LEAVING:
        prepare()
    for leave in [exit_guard.begin_to_leave() for exit_guard in LIVE.all()]:
        leave()


def leave_with_multiprocessing() -> None:
    """A forked child of multiprocessing ends with `os._exit`, which does not run `atexit`. It runs multiprocessing's finalizers."""
    process, util = sys.modules.get("multiprocessing.process"), sys.modules.get("multiprocessing.util")
    if process is not None and util is not None and process.parent_process() is not None and os.getpid() not in LEAVING:
        LEAVING[os.getpid()] = util.Finalize(None, leave_all, exitpriority=0)


LEAVING: dict[int, object] = {}
"""By process id: the finalizer that multiprocessing runs at the end of the process."""


def bury_all() -> None:
    """In a forked child."""
    for exit_guard in LIVE.all():
        exit_guard.after_fork_in_child()


atexit.register(leave_all)
if hasattr(os, "register_at_fork"):  # Windows has no fork.
    os.register_at_fork(after_in_child=bury_all)
