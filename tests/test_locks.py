"""Locks that the main thread takes: Ctrl-C at any point of a call leaves none of them taken, so what other threads do next, and a close,
does not hang.

Python 3.14 runs signal handlers between taking a lock of `threading` and the `with` block, and any Python inside the functions of its
conditions, events and futures. So `producer/foundations` has a lock and a condition of its own. `test_loops_in_blocks` is about loops.
"""

from __future__ import annotations

import ast
import threading
from collections.abc import Callable
from contextlib import closing, suppress
from itertools import count
from typing import Any, Final
from uuid import UUID

import pytest

from fencepost import Api, BrokerStub, VirtualClock
from fencepost.broker_stub.inspector.upstream_snapshot import UpstreamSnapshots
from fencepost.broker_stub.journal.journal import Journal
from fencepost.compat.confluent import Producer
from fencepost.txn.keyed_topic.reading import Mark, Memory
from fencepost.txn.keyed_topic.scan import Scan
from fencepost.txn.loop.calls import Blocking, Calls, finished
from fencepost.txn.loop.runs import BlockingRuns
from tests.gil import needs_gil
from tests.strike import MARKS, Struck, interrupt, struck
from tests.test_layers import modules

LIMIT_S = 10.0

PLAIN: Final = {
    "fencepost.producer.network.sender_thread": "it decides once which of two threads is first",
    "fencepost.producer.accumulator.batch": "a wait, and plans, whose callers stop waiting for each other after a while",
    "fencepost.producer.foundations.condition": "a wait",
    "fencepost.txn.pool.calls": "a wait",
    "fencepost.txn.foundations.call_outcome": "a wait",
    "fencepost.txn.loop.calls": "the executor of an event loop",
    "fencepost.txn.spark.sink.micro_batch": "no thread waits for it",
    "fencepost.txn.spark.sink.partition_writer": "an event of one call, whose thread is a daemon",
    "fencepost.broker_stub.network.loop_thread": "waits",
    "fencepost.spark_demo.driver": "an event of a program for a demo",
    "fencepost.compat.confluent.reports": "a wait",
    "fencepost.cli.control_client": "an event of one call",
}
"""The modules that use a lock, a condition, an event, a timer or an executor of Python's, and why Ctrl-C does no harm there."""

THEIRS: Final = {"Lock", "RLock", "Condition", "Event", "Semaphore", "BoundedSemaphore", "Barrier", "ThreadPoolExecutor"}


def test_locks_of_python_are_used_where_they_do_no_harm() -> None:
    """Each module that makes one is in the table, and the table has no others. To wait for a thread, use `foundations.condition`; to keep
    threads apart, `foundations.rlock`."""
    found = {module for module, file in modules().items() if made_in(ast.parse(file.read_text()))}
    assert found == {*PLAIN}


def made_in(tree: ast.Module) -> set[str]:
    """The locks and so on that a module imports from Python and calls."""
    imported = {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module in ("threading", "concurrent.futures")
        for alias in node.names
    }
    made = set()
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id="threading"), attr=name)) if name in THEIRS:
                made.add(name)
            case ast.Call(func=ast.Name(id=name)) if name in THEIRS & imported:
                made.add(name)
    return made


Use = tuple[Callable[[], object], ...]
"""A call that is struck, the call that another thread then makes, and what ends the object where that is needed."""


def journal() -> Use:
    kept = Journal(10)

    def use() -> None:
        kept.requests()
        kept.clear()

    return use, kept.clear


def clock() -> Use:
    virtual = VirtualClock(0)

    def use() -> None:
        end = virtual.watch(lambda: None)
        virtual.advance(1)
        end()

    return use, lambda: virtual.advance(1)


def snapshots() -> Use:
    taken = UpstreamSnapshots(dict)
    return taken.close, taken.close


def memory() -> Use:
    kept = Memory()
    mark = Mark("t", UUID(int=1), frozenset(), 0, 0)
    scan = Scan("t", 0, start=0, end=0, wanted={b"k"})

    def use() -> None:
        kept.keep(mark, 0, {b"k"}, scan)
        kept.recall(mark, 0, {b"k"}, 0)

    return use, use


def commits() -> Use:
    calls = Blocking(lambda: False)

    async def work() -> int:
        return 7

    calls.start(work())

    def use() -> None:
        assert finished(calls.start(work()).result(LIMIT_S)) == 7

    return use, use, lambda: finished(calls.close())


def leases() -> Use:
    pytest.importorskip("pyspark")
    from fencepost.txn.spark.guards.partition_lease_server import LeaseServer

    server = LeaseServer("127.0.0.1", "127.0.0.1")

    def use() -> None:
        server.registry()
        server.close()

    return use, server.close


def metrics() -> Use:
    pytest.importorskip("pyspark")
    from fencepost.txn.spark.sink.metrics import MetricsHistory

    history = MetricsHistory()
    return lambda: (history.newest(), history.all(), history.stats("s")), history.all


@pytest.mark.parametrize("make", [journal, clock, snapshots, memory, commits, leases, metrics])
@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")
@MARKS[0]
def test_a_struck_call_leaves_no_lock_taken(make: Callable[[], Use]) -> None:
    """Another thread makes the next call."""
    use, then, *ends = make()
    at_each_point(use, lambda: elsewhere(then))
    for end in ends:
        end()


CALLS: Final[dict[str, Callable[[BrokerStub], object]]] = {
    "records": lambda stub: stub.records("t", 0),
    "create_topic": lambda stub: stub.create_topic("other"),
    "a rule": lambda stub: stub.faults.on(Api.PRODUCE).drop_reply().remove(),
    "wait for a rule": lambda stub: wait_in_vain(stub),
    "remove all rules": lambda stub: stub.faults.clear(),
    "journal": lambda stub: stub.journal.requests(),
}


def wait_in_vain(stub: BrokerStub) -> None:
    with suppress(TimeoutError):
        stub.faults.on(Api.FETCH).drop_reply().wait(timeout=0.001)


@pytest.mark.parametrize("call", CALLS)
@MARKS[0]
def test_a_stub_goes_on_and_closes(call: str) -> None:
    """Its loop waits for no lock that a struck caller has: another thread asks it, and it closes within its timeout."""
    with BrokerStub() as stub:
        stub.create_topic("t")

        def asks() -> None:
            stub.records("t", 0)
            stub.faults.on(Api.PRODUCE).drop_reply()
            stub.faults.clear()
            stub.journal.clear()

        def use() -> None:
            with suppress(ValueError):  # the topic exists already
                CALLS[call](stub)

        at_each_point(use, lambda: elsewhere(asks))
        stub.close(LIMIT_S)


class NoRunner:
    """A run that has nothing to do."""

    stopping = False

    async def run(self, *, ends_at: float, batches: int | None) -> bool:
        return True

    async def close(self, *, failed: bool) -> None:
        pass


class NoPlan:
    transactional_id = "t"

    def runner(self, calls: Calls, make_producer: Callable[[dict[str, Any]], Any]) -> NoRunner:
        return NoRunner()

    def described(self) -> str:
        return ""


@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")
@MARKS[0]
@pytest.mark.parametrize("kept", [False, True])
def test_a_pipeline_or_job_is_not_taken_for_a_running_one(kept: bool) -> None:
    """A run or a close that was struck is over, also while the exception of the strike is alive: it can be closed and run again."""
    runs: BlockingRuns[Any] = BlockingRuns(NoPlan())
    runs._kept = kept
    for call in (lambda: runs._go(LIMIT_S, None), runs.close):
        for point in count():
            try:
                struck(call, point, interrupt)
                break
            except Struck:
                runs.close()
                assert runs._go(LIMIT_S, None)
        assert point > 3


@needs_gil
@MARKS[0]
def test_a_compat_producer_closes() -> None:
    """Messages that wait for their topic are held under a lock, which `close` needs."""
    producer = Producer({"bootstrap.servers": "127.0.0.1:1", "message.timeout.ms": 60_000})
    with closing(producer):
        at_each_point(lambda: producer.produce("t", b"held"), lambda: elsewhere(lambda: producer._held.finish()))
        elsewhere(lambda: producer.purge(in_queue=True))


def at_each_point(call: Callable[[], object], then: Callable[[], object]) -> None:
    """Make the call, struck at one point after the other, and what follows each time, until no strike comes any more."""
    spared = 0
    for point in count():
        try:
            struck(call, point, interrupt)
            spared += 1
        except Struck:
            spared = 0
        then()
        if spared == 3:
            return


def elsewhere(call: Callable[[], Any]) -> None:
    """Make the call in another thread, within LIMIT_S."""
    done: list[Any] = []
    thread = threading.Thread(target=lambda: done.append(call()), daemon=True)
    thread.start()
    thread.join(LIMIT_S)
    assert done, "the call hangs, or has failed"
