"""Signals whose handler raises, at random times, while other threads write to the same transactions: the reported outcomes are true.

FENCEPOST_SEED replays one seed: the calls and the points at which they are interrupted, not the order of the threads. FENCEPOST_RUNS says
how many to run.
"""

from __future__ import annotations

import os
import random
import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import count
from types import FrameType

import pytest

from fencepost.broker_stub import BrokerStub
from fencepost.producer.errors import FencepostError
from fencepost.producer.wire import Api
from fencepost.txn.errors import CommitOutcomeUnknown, IllegalCall, MustAbort
from fencepost.txn.group_metadata import GroupMetadata
from fencepost.txn.producer import TransactionalProducer
from fencepost.txn.transaction import Transaction
from tests.strike import MARKS, Struck
from tests.txn.stub_helpers import SETTINGS, committed

FIRST_SEED = int(os.environ.get("FENCEPOST_SEED", random.SystemRandom().randrange(10**6)))
RUNS = 1 if "FENCEPOST_SEED" in os.environ else int(os.environ.get("FENCEPOST_RUNS", "4"))
TURNS = 40
WRITERS = 2
PATIENCE_S = 20.0
GROUP = GroupMetadata("g")

pytestmark = [*MARKS, pytest.mark.skipif(not hasattr(signal, "pthread_kill"), reason="there is no way to strike a thread here")]


class Striker:
    """Strikes this thread, once in a call at most."""

    def __init__(self) -> None:
        self.struck = 0
        self._armed = False
        self._thread = threading.get_ident()

    def within(self, after_s: float | None, call: Callable[[], object]) -> bool:
        """Make the call, and strike it after so long. Whether it came to its end."""
        if after_s is None:
            call()
            return True
        timer = threading.Timer(after_s, signal.pthread_kill, (self._thread, signal.SIGUSR1))
        timer.daemon = True
        timer.start()
        try:
            try:
                self._armed = True
                call()
            finally:
                self._armed = False
        except Struck:
            self.struck += 1
            return False
        finally:
            timer.cancel()
            timer.join()
        return True

    def strike(self, _: int, __: FrameType | None) -> None:
        if self._armed:
            self._armed = False
            raise Struck


@contextmanager
def striking() -> Iterator[Striker]:
    striker = Striker()
    before = signal.signal(signal.SIGUSR1, striker.strike)
    try:
        yield striker
    finally:
        signal.signal(signal.SIGUSR1, before)


class Play:
    """One producer, its transactions by number, and those that write to the one there is. `accepted`: the values of each; `ends`: whether
    it is said to be committed."""

    def __init__(self, producer: TransactionalProducer, seed: int, striker: Striker) -> None:
        self.producer = producer
        self.random = random.Random(seed)
        self.striker = striker
        self.accepted: dict[int, list[bytes]] = {}
        self.ends: dict[int, bool] = {}
        self.tx: Transaction | None = None
        self.number = 0
        self.over = threading.Event()

    def write(self, who: int) -> None:
        """The part of another thread: it writes to the open transaction."""
        for index in count():
            if self.over.is_set():
                return
            self.over.wait(0.0005)  # The sender needs its turns, too.
            tx, number = self.tx, self.number
            if tx is None:
                continue
            values = [b"%d %d %d %d" % (number, who, index, row) for row in range(1 + index % 3)]
            with suppress(FencepostError):
                if index % 2:
                    tx.send_many("t", values, partition=0)
                else:
                    values = values[:1]
                    tx.send("t", values[0], partition=0)
                self.accepted[number] += values

    def turn(self) -> None:
        """A transaction, struck in one of its calls, and in no, one or another way ended; then what is true is asked for."""
        self.number += 1
        self.accepted[self.number] = []
        self.ends[self.number] = False
        if not self.struck(self.begin):
            self.begin()
        tx = self.tx
        assert tx is not None
        for _ in range(self.random.randrange(3)):
            work = self.random.choice((self.rest, lambda: tx.send_offsets({("t", 0): self.number}, GROUP), self.producer.flush))
            self.struck(work)
        end = self.random.choice((tx.commit, tx.commit, tx.commit, tx.abort, tx.prepare, None))
        if end is not None:
            self.struck(end)
        self.tx = None
        self.ends[self.number] = self.settled(tx, self.random.choice((tx.commit, tx.abort)))

    def struck(self, call: Callable[[], object]) -> bool:
        after_s = 10 ** self.random.uniform(-4.5, -2) if self.random.random() < 0.7 else None
        return self.striker.within(after_s, call)

    def begin(self) -> None:
        self.tx = self.producer.begin(PATIENCE_S)

    def rest(self) -> None:
        threading.Event().wait(self.random.uniform(0, 0.003))

    def settled(self, tx: Transaction, call: Callable[[float], None]) -> bool:
        """Whether it is committed."""
        while True:
            commits = call == tx.commit
            try:
                call(PATIENCE_S)
                return commits
            except CommitOutcomeUnknown as unknown:
                unknown.resolve(PATIENCE_S)
                return True
            except MustAbort:
                call = tx.abort
            except IllegalCall as illegal:
                if "the transaction has been" in str(illegal):
                    return not commits
                call = tx.abort if commits else tx.commit


@pytest.mark.parametrize("run", range(RUNS))
def test_interrupted_calls_report_the_true_outcome(run: int) -> None:
    """Every transaction that is said to be committed is whole in the log, once, with all that was accepted into it; nothing of another one
    is seen; and every thread ends."""
    seed = FIRST_SEED + run
    print(f"FENCEPOST_SEED={seed}")
    before = threading.active_count()
    with BrokerStub() as stub:
        stub.faults.on(Api.END_TXN).reply().probability(0.2, seed).delay(5)
        stub.faults.on(Api.PRODUCE).reply().probability(0.1, seed).delay(3)
        stub.faults.on(Api.END_TXN, Api.PRODUCE, Api.TXN_OFFSET_COMMIT).probability(0.02, seed).drop_reply()
        with striking() as striker, TransactionalProducer(SETTINGS, bootstrap_servers=stub.bootstrap, request_timeout_ms=300) as producer:
            producer.init(PATIENCE_S)
            play = Play(producer, seed, striker)
            writers = [threading.Thread(target=play.write, args=(who,), daemon=True) for who in range(WRITERS)]
            for writer in writers:
                writer.start()
            try:
                for _ in range(TURNS):
                    play.turn()
            finally:
                play.over.set()
            for writer in writers:
                writer.join(PATIENCE_S)
                assert not writer.is_alive()
        found = Counter(committed(stub, "t"))
    assert set(found.values()) <= {1}
    wanted = {value for number, values in play.accepted.items() if play.ends[number] for value in values}
    assert wanted <= set(found)
    assert {int(value.split()[0]) for value in found} <= {number for number, commits in play.ends.items() if commits}
    assert striker.struck > TURNS // 4
    assert threading.active_count() <= before  # threads that an earlier test left may end meanwhile
