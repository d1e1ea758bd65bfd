"""The runs of a pipeline or a job: a run makes the runner, and closes it at its end. In a `with` block the runner stays open until the
block's end.

`BlockingRuns` and `AsyncRuns` differ in how they make and await the runner's calls (`fencepost.txn.loop.calls`). A second run at the
same time is refused, because both would use one transaction. So is a run in a forked child, which has the parent's connections.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import Any, ClassVar, Final, Generic, NoReturn, Protocol, Self, TypeVar

from fencepost.producer.errors import ProducerForked, bound_to_process
from fencepost.producer.foundations.rlock import RLock
from fencepost.txn.async_producer import AsyncTransactionalProducer
from fencepost.txn.errors import IllegalCall
from fencepost.txn.loop.calls import Blocking, Calls, OnLoop, finished
from fencepost.txn.loop.checks import check_batches
from fencepost.txn.producer import TransactionalProducer


class AnyRunner(Protocol):
    """What runs a pipeline or a job."""

    stopping: bool

    @property
    def run(self) -> Callable[..., Coroutine[Any, Any, bool]]:
        """Takes `ends_at`, `batches`, and what only this kind of runner knows."""
        ...

    async def close(self, *, failed: bool) -> None:
        """Close everything."""
        ...


class AnyPlan(Protocol):
    """What a pipeline or a job is made of."""

    transactional_id: str

    def runner(self, calls: Calls, make_producer: Callable[[dict[str, Any]], Any]) -> Any:
        """A new runner."""
        ...

    def described(self) -> str:
        """The text inside the parentheses of `repr`."""
        ...


PlanT = TypeVar("PlanT", bound=AnyPlan)

PARENTS_RUNNERS: Final[list[AnyRunner]] = []
"""In a forked child: what the parent runs. Its consumer must not be collected here, because that waits for threads of the parent."""


class Runs(Generic[PlanT]):
    """What the blocking and the asyncio classes share."""

    _in_another_process: ClassVar[str]
    """What to do instead of pickling."""

    def __init__(self, plan: PlanT) -> None:
        self._plan = plan
        self._runner: AnyRunner | None = None
        self._leaving: AnyRunner | None = None
        """The runner that is being closed. A call that was interrupted meanwhile leaves it to the next one."""
        self._kept = False
        self._stopped = False
        self._beginning: Final = RLock()
        self._under_way: object | None = None
        """The call of `run` or `close`, or the end of the `with` block, that is under way."""
        self._opened_in = os.getpid()
        self.transactional_id = plan.transactional_id

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._plan.described()})"

    def __reduce__(self) -> NoReturn:
        raise bound_to_process(type(self).__name__, self._in_another_process)

    def stop(self) -> None:
        """Have `run` commit the open batch and return, within `stop_timeout_ms`. A call of the program's function, or of a job's source, is
        not interrupted. Returns at once. A signal handler or another thread may call it."""
        self._stopped = True
        self._hurry()

    def _is_stopped(self) -> bool:
        return self._stopped

    def _hurry(self) -> None:
        runner = self._runner
        if runner is not None:
            runner.stopping = True

    def _running(self, calls: Callable[[], Calls], make_producer: Callable[[dict[str, Any]], Any]) -> AnyRunner:
        """The runner that is open, or a new one."""
        if self._runner is None:
            self._runner = self._plan.runner(calls(), make_producer)
            self._opened_in = os.getpid()
        self._runner.stopping = False
        if self._stopped:  # After that, because `stop` may come between the two.
            self._runner.stopping = True
        return self._runner

    def _taken(self) -> AnyRunner | None:
        """The runner that the caller closes: the open one, or one that an interrupted call has not closed."""
        if self._runner is not None:
            self._leaving, self._runner = self._runner, None
        return self._leaving

    def _begin(self, call: str, this: object) -> None:
        """`this` is under way, until the caller ends it in a `finally` of its own, which no signal handler can strike: `_under_way` is
        None. Raises IllegalCall while another call is, and ProducerForked in a child of the process in which the runner is open."""
        kind = type(self).__name__
        if self._is_parents():
            raise ProducerForked(
                f"{call}: this {kind} is open in process {self._opened_in}, and cannot be used in its child {os.getpid()}:"
                f" {self._in_another_process}"
            )
        with self._beginning:
            if self._under_way is not None:
                raise IllegalCall(f"{call}: this {kind} is running. Call stop() and wait until `run` has returned, or make another {kind}")
            self._under_way = this

    def _is_parents(self) -> bool:
        """Whether the runner is that of a parent process."""
        runner = self._runner or self._leaving
        if runner is None or self._opened_in == os.getpid():
            return False
        if runner not in PARENTS_RUNNERS:
            PARENTS_RUNNERS.append(runner)
        return True

    def _ends(self, error: BaseException | None, this: object) -> bool:
        """At the end of a `with` block: whether the block closes the runner. Then `this` is under way, and the caller ends it as in
        `_begin`. Otherwise a run is under way: it stops, and closes the runner."""
        self._kept = False
        if self._is_parents():
            return False
        with self._beginning:
            if self._under_way is None:
                self._under_way = this
        if self._under_way is this:
            return True
        self.stop()
        if error is None:
            raise IllegalCall(f"the `with` block of this {type(self).__name__} ended while it was running: wait until `run` has returned")
        return False


class BlockingRuns(Runs[PlanT]):
    """See the module."""

    def close(self) -> None:
        """Close the connections. Not needed outside a `with` block, unless Ctrl-C interrupted the end of `run` or of the block: this call
        then ends what is left. Raises IllegalCall while `run` is under way."""
        this = object()
        try:
            self._begin("close", this)
            self._end(failed=False)
        finally:
            if self._under_way is this:
                self._under_way = None

    def __enter__(self) -> Self:
        self._kept = True
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        this = object()
        try:
            if self._ends(error, this):
                self._end(failed=error is not None)
        finally:
            if self._under_way is this:
                self._under_way = None

    def _go(self, limit_s: float, batches: int | None, **more: bool) -> bool:
        check_batches(batches)
        this = object()
        try:
            self._begin("run", this)
            try:
                if self._leaving is not None:
                    self._end(failed=True)
                runner = self._running(lambda: Blocking(self._is_stopped), TransactionalProducer)
                done = finished(runner.run(ends_at=time.monotonic() + limit_s, batches=batches, **more))
            except BaseException:
                self._end(failed=True)
                raise
            if not self._kept:
                self._end(failed=False)
            return done
        finally:
            if self._under_way is this:
                self._under_way = None

    def _end(self, *, failed: bool) -> None:
        runner = self._taken()
        if runner is not None:
            try:
                finished(runner.close(failed=failed))
            except Exception:
                self._leaving = None  # Everything has been tried. After Ctrl-C it has not, and is tried again.
                raise
            self._leaving = None


class AsyncRuns(Runs[PlanT]):
    """See the module."""

    _closing: asyncio.Future[None] | None = None

    async def close(self) -> None:
        """Close the connections. Not needed outside an `async with` block, unless the end of `run` or of the block was cancelled twice:
        this call then waits for what is left. Raises IllegalCall while `run` is under way."""
        this = object()
        try:
            self._begin("close", this)
            await self._end(failed=False)
        finally:
            if self._under_way is this:
                self._under_way = None

    async def __aenter__(self) -> Self:
        self._kept = True
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        this = object()
        try:
            if self._ends(error, this):
                await self._end(failed=error is not None)
        finally:
            if self._under_way is this:
                self._under_way = None

    async def _go(self, limit_s: float, batches: int | None, **more: bool) -> bool:
        check_batches(batches)
        this = object()
        try:
            self._begin("run", this)
            try:
                if self._leaving is not None:
                    await self._end(failed=True)
                runner = self._running(lambda: OnLoop(self._is_stopped, self._hurry), AsyncTransactionalProducer)
                done = await runner.run(ends_at=time.monotonic() + limit_s, batches=batches, **more)
            except BaseException:
                await self._end(failed=True)
                raise
            if not self._kept:
                await self._end(failed=False)
            return done
        finally:
            if self._under_way is this:
                self._under_way = None

    async def _end(self, *, failed: bool) -> None:
        """Close everything, also if the task is cancelled meanwhile. If it is cancelled again, that goes on, and the next call waits."""
        runner = self._taken()
        if runner is None:
            return
        if self._closing is None:
            self._closing = asyncio.ensure_future(runner.close(failed=failed))
        closing = self._closing
        try:
            await asyncio.shield(closing)
        except asyncio.CancelledError:
            await asyncio.wait([closing])
            raise
        finally:
            if closing.done():
                self._leaving = self._closing = None
