"""Ctrl-C at every single point of a pool's calls, one after the other: the pool loses no slot, and goes on."""

from __future__ import annotations

import itertools
import os
import random
import threading
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import pytest

from fencepost.broker_stub import BrokerStub
from fencepost.txn.pool.pool import TransactionalPool
from tests.strike import MARKS, Struck, interrupt, struck
from tests.txn.stub_helpers import SETTINGS, committed
from tests.txn.test_interrupts_anywhere import PATIENCE_S, elsewhere, threads
from tests.waiting import until

FIRST_USE_EVERY = 61
FIRST_USE_FIRST = int(os.environ.get("FENCEPOST_SEED", random.SystemRandom().randrange(10**6))) % FIRST_USE_EVERY
OWN: dict[str, Any] = {key: value for key, value in SETTINGS.items() if key != "transactional_id"}

pytestmark = [
    *MARKS,
    pytest.mark.timeout(600),
    # A call is a coroutine, which is never begun where the strike comes first.
    pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning"),
]


class Site:
    """A stub and a pool with `size` slots. `told`: the values of the blocks that were not struck."""

    def __init__(self, stub: BrokerStub, size: int) -> None:
        self.stub = stub
        self.size = size
        self.told: list[bytes] = []
        self.pool = self.opened()

    def opened(self, **settings: Any) -> TransactionalPool:
        return TransactionalPool(
            OWN,
            bootstrap_servers=self.stub.bootstrap,
            transactional_id_prefix="pool",
            instance="one",
            size=self.size,
            acquire_timeout_ms=int(PATIENCE_S * 1000),
            **settings,
        )

    def works(self) -> None:
        """As many transactions at a time as there are slots, on other threads, so each slot must be there."""
        together = threading.Barrier(self.size, timeout=PATIENCE_S)
        values = [b"told %d" % (len(self.told) + number) for number in range(self.size)]

        def write(value: bytes) -> None:
            with self.pool.transaction() as tx:
                together.wait()
                tx.send("t", value, partition=0)

        def write_all() -> None:
            running = [threading.Thread(target=write, args=(value,)) for value in values]
            for each in running:
                each.start()
            for each in running:
                each.join()

        elsewhere(write_all)
        self.told += values


def strikes(call: Callable[[], object], every: int = 1, first: int = 0) -> Iterator[None]:
    """Make the call repeatedly, with a strike at one point after the other, or at one in `every`, until there are no more.

    The strike's exception, which keeps the call's frames, is gone each time: by that the pool knows of a block that was struck before its
    first instruction.
    """
    spared = 0
    for point in count(first, every):
        try:
            struck(call, point, interrupt)
            spared += 1
        except (Struck, RuntimeError):  # CPython's Condition raises RuntimeError where its exit is struck.
            spared = 0
        if spared == 3:  # as in `at_every_point`
            return
        yield


@pytest.fixture
def site(request: pytest.FixtureRequest) -> Iterator[Site]:
    """The test's parameter is the size."""
    with BrokerStub() as stub:
        stub.create_topic("t", partitions=1)
        before = threads()
        site = Site(stub, getattr(request, "param", 1))
        site.works()
        yield site
        site.works()
        site.pool.close(PATIENCE_S)
        until(lambda: threads() == before, "the threads of its producers are gone")
        found = committed(stub, "t")
        assert sorted(value for value in found if value.startswith(b"told")) == sorted(site.told)
        assert len(found) == len(set(found))


@pytest.mark.parametrize("site", [1, 2], indirect=True)
def test_a_block(site: Site) -> None:
    """Struck on its way in, inside or on its way out: the slot is free for the next one, and what was written is there once or not at
    all."""
    number = 0

    def block() -> None:
        nonlocal number
        number += 1
        with site.pool.transaction() as tx:
            tx.send("t", b"struck %d" % number, partition=0)

    for _ in strikes(block):
        site.works()
    assert site.pool.stats().in_use == 0


def test_a_block_that_fails(site: Site) -> None:
    """The same for one that aborts."""

    def block() -> None:
        with site.pool.transaction() as tx:
            tx.send("t", b"aborted", partition=0)
            raise ArithmeticError

    def fails() -> None:
        with pytest.raises(ArithmeticError):
            block()

    for _ in strikes(fails):
        site.works()
    assert b"aborted" not in committed(site.stub, "t")


def test_a_caller_that_waits(site: Site) -> None:
    """Struck while another block has the only slot: it leaves the queue, and the slot goes to the next one."""
    for _ in strikes(lambda: late(site)):
        site.works()


def late(site: Site) -> None:
    """A call that finds no free slot."""
    with site.pool.transaction(), pytest.raises(TimeoutError), site.pool.transaction(0.02):
        pass


@pytest.mark.parametrize("call", ["init", "check"])
def test_a_question(site: Site, call: str) -> None:
    """An interrupted `init` or `check` takes nothing away."""
    ask: Callable[[], object] = getattr(site.pool, call)
    for _ in strikes(ask, every=1 if call == "init" else 29):
        site.works()


@pytest.mark.parametrize("call", ["transaction", "init"])
@pytest.mark.parametrize("site", [2], indirect=True)
def test_first_use(site: Site, call: str) -> None:
    """Struck while a pool opens: the next transactions find it open, or open it, and `close` leaves no thread. Nor is there one if `close`
    comes at once, as where the exception leaves a `with` block."""
    site.pool.close(PATIENCE_S)
    before = threads()
    numbers = itertools.count()

    def use() -> None:
        if call == "init":
            site.pool.init()
            return
        with site.pool.transaction() as tx:
            tx.send("t", b"first %d" % next(numbers), partition=0)

    site.pool = site.opened(warm=2)
    at_once = itertools.cycle((True, False))
    for _ in strikes(use, every=FIRST_USE_EVERY, first=FIRST_USE_FIRST):
        if next(at_once):
            site.works()
            assert call == "transaction" or site.pool.stats().replaced == 0
        site.pool.close(PATIENCE_S)
        until(lambda: threads() <= before, "its threads are gone")
        site.pool = site.opened(warm=2)


def test_close(site: Site) -> None:
    """The next `close` does what an interrupted one has left to do: no thread is left. Only with one producer, because more are closed in
    threads, and CPython keeps a thread in its list for ever if its `start` is struck."""
    site.pool.close(PATIENCE_S)
    before = threads()
    for point in range(0, 200, 3):
        site.pool = site.opened()
        site.works()
        try:
            struck(lambda: site.pool.close(PATIENCE_S), point, interrupt)
        except Struck:
            site.pool.close(PATIENCE_S)
        else:
            break
        until(lambda: threads() <= before, "its threads are gone")
    assert point > 20
    site.pool = site.opened()
