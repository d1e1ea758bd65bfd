"""What other threads call while a stub or a proxy starts or closes. One thread is paused at the moment in question."""

from __future__ import annotations

import asyncio
import gc
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from fencepost import BrokerStub, FaultProxy, Producer, VirtualClock
from fencepost.broker_stub.cluster.cluster import Cluster
from fencepost.broker_stub.handlers import create_topics
from fencepost.broker_stub.inspector.inspector import Inspector
from fencepost.broker_stub.inspector.upstream_snapshot import UpstreamSnapshots
from fencepost.broker_stub.journal.exchange import Exchange
from fencepost.broker_stub.network.loop_thread import LoopEnded, LoopThread
from tests.broker_stub.test_start_and_close import CHANGES, READS

WAIT_S = 10.0
pytestmark = pytest.mark.timeout(60)


class Beside:
    """A call in another thread, and what became of it."""

    def __init__(self, call: Callable[[], object]) -> None:
        self.outcome: object = None
        self._call = call
        self.thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        try:
            self.outcome = self._call()
        except Exception as error:  # noqa: BLE001 - the outermost frame of a thread: the test gets the error
            self.outcome = repr(error)

    def begin(self) -> None:
        """Begin."""
        self.thread.start()

    def end(self) -> object:
        """Its outcome."""
        self.thread.join(WAIT_S)
        assert not self.thread.is_alive()
        return self.outcome


def opened() -> BrokerStub:
    """A stub with a topic."""
    stub = BrokerStub(brokers=2, clock=VirtualClock(), acls=[], super_users=["ANONYMOUS"]).start()
    stub.create_topic("orders")
    return stub


def asked_while_it_goes_down(stub: BrokerStub, call: Callable[[], object], monkeypatch: pytest.MonkeyPatch) -> object:
    """The outcome of a call that found the stub open, and whose loop has then closed its sockets and has not ended yet."""
    thread = stub._once.thread
    assert thread is not None
    beside = Beside(call)
    found_open, is_down = threading.Event(), threading.Event()
    asked = threading.Event()
    down, wait = thread._down, LoopThread._wait

    def paused(self: LoopThread, answer: Any, begin: Callable[[], None], timeout_s: float) -> None:
        if threading.current_thread() is not beside.thread or found_open.is_set():
            wait(self, answer, begin, timeout_s)
            return
        found_open.set()
        assert is_down.wait(WAIT_S)

        def begun() -> None:
            begin()
            asked.set()

        wait(self, answer, begun, timeout_s)

    async def slowly() -> None:
        await down()
        is_down.set()
        await asyncio.to_thread(asked.wait, WAIT_S)
        await asyncio.get_running_loop().shutdown_default_executor()

    monkeypatch.setattr(LoopThread, "_wait", paused)
    monkeypatch.setattr(thread, "_down", slowly)
    beside.begin()
    assert found_open.wait(WAIT_S)
    stub.close()
    return beside.end()


@pytest.mark.parametrize("change", [name for name in CHANGES if name not in ("allow", "clean_logs")])
def test_a_change_while_it_closes(change: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is refused as after the close, and not with a KeyError about a broker whose socket is closed."""
    stub = opened()
    assert asked_while_it_goes_down(stub, lambda: CHANGES[change](stub), monkeypatch) == "RuntimeError('the stub is closed')"
    assert stub._server is not None
    assert stub._server._sockets == {}


def test_a_read_while_it_closes(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is answered."""
    stub = opened()
    assert asked_while_it_goes_down(stub, lambda: READS["leader"](stub), monkeypatch) == stub.leader("orders", 0)


def test_a_read_waits_until_the_files_are_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The loop has ended, and the closing thread closes the logs: the reading thread does not read them meanwhile."""
    stub = opened()
    close, call = Cluster.close, LoopThread.call
    ended = threading.Event()
    busy: list[str] = []
    seen: list[list[str]] = []
    reading = Beside(lambda: stub._read(lambda: seen.append([*busy])))

    def called(self: LoopThread, run: Callable[[], Any], timeout_s: float) -> Any:
        if threading.current_thread() is reading.thread:
            ended.set()
            raise LoopEnded
        return call(self, run, timeout_s)

    def slowly(self: Cluster) -> None:
        busy.append("closing")
        reading.begin()
        assert ended.wait(WAIT_S)
        reading.thread.join(0.2)
        close(self)
        busy.clear()

    monkeypatch.setattr(LoopThread, "call", called)
    monkeypatch.setattr(Cluster, "close", slowly)
    stub.close()
    reading.end()
    assert seen == [[]]


def test_two_threads_before_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """They have no loop that puts them into an order: one creates the topic, and the other hears that it is there."""
    stub = BrokerStub()
    why_not = create_topics.why_not
    line = threading.Barrier(2)

    def slowly(*arguments: Any, **options: Any) -> Any:
        refusal = why_not(*arguments, **options)
        with suppress(threading.BrokenBarrierError):
            line.wait(0.3)  # If both can be here at once, both are.
        return refusal

    monkeypatch.setattr(create_topics, "why_not", slowly)
    both = [Beside(lambda: stub.create_topic("orders")) for _ in range(2)]
    for each in both:
        each.begin()
    outcomes = sorted("TOPIC_ALREADY_EXISTS" in str(each.end()) for each in both)
    stub.close()
    assert outcomes == [False, True]


def test_a_start_while_a_broker_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    """The stop found a stub that had not started. The broker that it stops listens no more."""
    stub = BrokerStub(brokers=2)
    call = stub._call

    def started(run: Callable[[], object]) -> object:
        stub.start()
        return call(run)

    monkeypatch.setattr(stub, "_call", started)
    stub.stop_broker(1)
    monkeypatch.undo()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(stub.addresses[1], WAIT_S)
    stub.close()


@pytest.mark.parametrize("kind", ["stub", "proxy"])
@pytest.mark.parametrize("moment", ["before the check", "after the check", "after the start"])
def test_a_page_that_is_opened_while_it_closes(kind: str, moment: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It ends with the stub or the proxy, or is refused: no thread and no port is left."""
    upstream = BrokerStub().start()
    one: Any = upstream if kind == "stub" else FaultProxy(upstream.bootstrap).start()
    close = Beside(lambda: one.close())

    def closes(call: Callable[..., Any], *, first: bool) -> Callable[..., Any]:
        def closing(*arguments: Any, **options: Any) -> Any:
            result = None if first else call(*arguments, **options)
            if close.thread.ident is None:
                close.begin()
                close.end()
            return call(*arguments, **options) if first else result

        return closing

    if moment == "before the check":
        monkeypatch.setattr(Inspector, "__init__", closes(Inspector.__init__, first=False))
    else:
        monkeypatch.setattr(Inspector, "start", closes(Inspector.start, first=moment == "after the check"))
    page = Beside(lambda: one.ui().url)
    page.begin()
    assert "closed" in str(page.end()) or "does not run" in str(page.end())
    assert [thread.name for thread in threading.enumerate() if thread.name == "stub-inspector"] == []
    upstream.close()


def test_two_threads_ask_a_proxy_for_its_page_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """They share one client of the cluster, which the proxy closes."""
    made: list[UpstreamSnapshots] = []
    init = UpstreamSnapshots.__init__
    line = threading.Barrier(2)

    def slowly(self: UpstreamSnapshots, *arguments: Any) -> None:
        init(self, *arguments)
        made.append(self)
        with suppress(threading.BrokenBarrierError):
            line.wait(0.3)

    monkeypatch.setattr(UpstreamSnapshots, "__init__", slowly)
    with BrokerStub() as upstream, FaultProxy(upstream.bootstrap) as proxy:
        both = [Beside(proxy._source) for _ in range(2)]
        for each in both:
            each.begin()
        for each in both:
            each.end()
    assert len(made) == 1


@pytest.mark.parametrize("kind", ["stub", "proxy"])
def test_a_close_on_its_own_thread(kind: str) -> None:
    """As in a follower of the journal. It would wait for itself up to its timeout: it is refused at once, and works elsewhere."""
    refusals: list[str] = []

    class Follower:
        """Closes what it follows."""

        def asked(self, exchange: Exchange) -> None:
            """At the first request."""
            try:
                one.close()
            except RuntimeError as error:
                refusals.append(str(error))

        def answered(self, exchange: Exchange) -> None:
            """Nothing."""

    with BrokerStub() as upstream:
        one: Any = upstream if kind == "stub" else FaultProxy(upstream.bootstrap).start()
        one.journal.follow(Follower())
        with Producer(bootstrap_servers=one.bootstrap) as producer:
            producer.send("orders", b"one").result(WAIT_S)
        one.close()
    assert refusals[0] == f"close() on the {kind}'s own thread would wait for itself: call it on another thread"


@pytest.mark.filterwarnings("error")
def test_work_that_is_given_to_a_loop_that_goes_down(caplog: pytest.LogCaptureFixture) -> None:
    """It does not begin: what it opened would stay open. Its caller hears that the loop has ended."""
    is_down, go_on = threading.Event(), threading.Event()
    begun: list[str] = []

    async def down() -> None:
        is_down.set()
        await asyncio.to_thread(go_on.wait, WAIT_S)
        await asyncio.get_running_loop().shutdown_default_executor()

    async def work() -> None:
        begun.append("work")

    thread = LoopThread("test", asyncio.new_event_loop(), down)
    thread.start()
    stopping = Beside(lambda: thread.stop(WAIT_S))
    stopping.begin()
    assert is_down.wait(WAIT_S)
    with pytest.raises(LoopEnded):
        thread.complete(work(), WAIT_S)
    go_on.set()
    stopping.end()
    gc.collect()
    assert (begun, caplog.records) == ([], [])
