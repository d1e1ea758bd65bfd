"""A stub, a proxy and a control start once and end once, also when several threads try. A closed one can be read and changes no more."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol, Self

import pytest

from fencepost import BrokerStub, FaultProxy, Producer, VirtualClock
from fencepost.broker_stub import Control

DEADLINE_S = 20
THREADS = 4
NAMES = ("broker-stub", "fault-proxy", "stub-control")


class Started(Protocol):
    """A stub, a proxy or a control."""

    def start(self) -> Self: ...
    def close(self) -> None: ...


@pytest.fixture(scope="module")
def upstream() -> Iterator[BrokerStub]:
    with BrokerStub() as stub:
        yield stub


@pytest.fixture(params=["stub", "proxy", "control"])
def fresh(request: pytest.FixtureRequest, upstream: BrokerStub) -> Callable[[], Started]:
    """Makes one that has not started."""
    makers: dict[str, Callable[[], Started]] = {
        "stub": BrokerStub,
        "proxy": lambda: FaultProxy(upstream.bootstrap),
        "control": lambda: Control(upstream),
    }
    return makers[request.param]


@pytest.fixture
def eager_threads() -> Iterator[None]:
    """Threads take turns so often that a check and what follows from it come apart."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


def at_once(*calls: Callable[[], object]) -> list[str]:
    """Runs the calls at the same time, each in its own thread. Returns what they raised."""
    line, errors = threading.Barrier(len(calls)), list[str]()

    def run(call: Callable[[], object]) -> None:
        line.wait(DEADLINE_S)
        try:
            call()
        except RuntimeError as error:
            errors.append(str(error))

    threads = [threading.Thread(target=run, args=(call,)) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(DEADLINE_S)
    assert not any(thread.is_alive() for thread in threads)
    return errors


def loops() -> list[str]:
    return sorted(thread.name for thread in threading.enumerate() if thread.name in NAMES)


@pytest.mark.usefixtures("eager_threads")
def test_only_one_of_several_threads_starts_it(fresh: Callable[[], Started]) -> None:
    """The others are told, and nothing is left after the close."""
    before = loops()
    for _ in range(20):
        one = fresh()
        errors = at_once(*[one.start] * THREADS)
        assert len(loops()) == len(before) + 1
        one.close()
        assert len(errors) == THREADS - 1
        assert all("starts only once" in error for error in errors)
        assert loops() == before


@pytest.mark.usefixtures("eager_threads")
def test_a_close_beside_the_start_leaves_nothing_behind(fresh: Callable[[], Started]) -> None:
    """Whichever comes first, it is closed at the end, and the start has succeeded or says why it has not."""
    before = loops()
    for _ in range(20):
        one = fresh()
        for error in at_once(one.start, one.close, one.close):
            assert "starts only once" in error or "while it started" in error
        assert loops() == before


def test_a_closed_one_does_not_start(fresh: Callable[[], Started]) -> None:
    """Neither one that ran nor one that never did."""
    ran, never = fresh().start(), fresh()
    for one in (ran, never):
        one.close()
        with pytest.raises(RuntimeError, match=r"^this (stub|proxy|control) is closed, and a .* starts only once: make a new one$"):
            one.start()
        one.close()


def test_a_closed_stub_leaves_its_directory_to_the_next_one(tmp_path: Path) -> None:
    """It has given up the lock, so a start would let two stubs write the same files."""
    first = BrokerStub(data_dir=tmp_path)
    first.close()
    with pytest.raises(RuntimeError, match="closed"):
        first.start()
    with BrokerStub(data_dir=tmp_path) as second, Producer(second.settings) as producer:
        producer.send("orders", b"one").result(DEADLINE_S)


CHANGES: dict[str, Callable[[BrokerStub], object]] = {
    "advance": lambda stub: stub.advance(1),
    "create_topic": lambda stub: stub.create_topic("payments"),
    "delete_topic": lambda stub: stub.delete_topic("orders"),
    "add_partitions": lambda stub: stub.add_partitions("orders", 9),
    "clean_logs": lambda stub: stub.clean_logs(),
    "move_leader": lambda stub: stub.move_leader("orders", 0),
    "stop_broker": lambda stub: stub.stop_broker(1),
    "start_broker": lambda stub: stub.start_broker(1),
    "restart_broker": lambda stub: stub.restart_broker(1),
    "lose_power": lambda stub: stub.lose_power(1),
    "pause_broker": lambda stub: stub.pause_broker(1),
    "resume_broker": lambda stub: stub.resume_broker(1),
    "set_clock": lambda stub: stub.set_clock(1, 5),
    "slow_loading": lambda stub: stub.slow_loading(1, 5),
    "slow_disk": lambda stub: stub.slow_disk(1, 5),
    "fail_disk": lambda stub: stub.fail_disk(1),
    "repair_disk": lambda stub: stub.repair_disk(1),
    "corrupt": lambda stub: stub.corrupt("orders", 0, 0),
    "sever": lambda stub: stub.sever(1, 2),
    "mend": lambda stub: stub.mend(1, 2),
    "slow_down": lambda stub: stub.slow_down(1, 2, 5),
    "cut_connections": lambda stub: stub.cut_connections(),
    "allow": lambda stub: stub.allow("alice", "READ", topic="orders"),
    "quota": lambda stub: stub.quota(producer_byte_rate=1000, user="alice"),
}
READS: dict[str, Callable[[BrokerStub], Any]] = {
    "records": lambda stub: [record.value for record in stub.records("orders", 0)],
    "end_offset": lambda stub: stub.end_offset("orders", 0),
    "leader": lambda stub: stub.leader("orders", 0),
    "isr": lambda stub: stub.isr("orders", 0),
    "addresses": lambda stub: stub.addresses,
    "bootstrap": lambda stub: stub.bootstrap,
    "settings": lambda stub: stub.settings,
    "slow": lambda stub: stub.slow,
    "severed": lambda stub: stub.severed,
    "severed_one_way": lambda stub: stub.severed_one_way,
    "fenced": lambda stub: stub.fenced,
    "journal": lambda stub: len(stub.journal),
    "acls": lambda stub: stub.acls,
}


@pytest.fixture(scope="module")
def used() -> tuple[BrokerStub, dict[str, Any]]:
    """A closed stub with a record, and what could be read of it before."""
    with BrokerStub(brokers=2, clock=VirtualClock(), acls=[], super_users=["ANONYMOUS"]) as stub:
        stub.create_topic("orders")
        with Producer(stub.settings) as producer:
            producer.send("orders", b"one").result(DEADLINE_S)
        before = {name: read(stub) for name, read in READS.items()}
    return stub, before


@pytest.mark.parametrize("change", CHANGES)
def test_a_closed_stub_refuses_what_needs_it_running(used: tuple[BrokerStub, dict[str, Any]], change: str) -> None:
    """Without that a change would seem to succeed, or fail with an error about something else."""
    with pytest.raises(RuntimeError, match=r"^the stub is closed$"):
        CHANGES[change](used[0])


@pytest.mark.parametrize("name", READS)
def test_a_closed_stub_can_be_read(used: tuple[BrokerStub, dict[str, Any]], name: str) -> None:
    """A test may look at the records after the `with` block."""
    stub, before = used
    assert READS[name](stub) == before[name]


def test_a_closed_stub_shows_no_address(used: tuple[BrokerStub, dict[str, Any]]) -> None:
    """Its representation is for a failed assertion, and raises nothing."""
    assert repr(used[0]) == "BrokerStub(bootstrap=None, brokers=2, topics=1)"


def test_a_control_has_a_url_only_while_it_runs(upstream: BrokerStub) -> None:
    """Before the start its port is unknown. Its representation has no token."""
    control = Control(upstream, token="secret" * 4)
    with pytest.raises(RuntimeError, match=r"^the control has not started, so its port is not known"):
        control.url  # noqa: B018
    assert repr(control) == f"Control({upstream!r}, url=None)"
    with control:
        place = control.url.rpartition("@")[2]
        assert repr(control) == f"Control({upstream!r}, url='http://{place}')"
    with pytest.raises(RuntimeError, match=r"^the control is closed$"):
        control.url  # noqa: B018
    assert repr(control) == f"Control({upstream!r}, url=None)"
