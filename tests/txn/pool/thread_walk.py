"""The walk with the blocking pool: callers are threads, which Ctrl-C strikes at random points. The process forks."""

from __future__ import annotations

import gc
import os
import random
import threading
import time
from functools import partial

from fencepost.producer.errors import FencepostError, ProducerForked
from fencepost.txn.errors import CommitOutcomeUnknown
from fencepost.txn.pool.errors import PoolTakenOver
from fencepost.txn.pool.pool import TransactionalPool
from fencepost.txn.transaction import Transaction
from tests.producer.stub_helpers import LIMIT_S
from tests.strike import Struck, draw_point, ended, interrupt, struck
from tests.txn.pool.walk import CALLERS, PARTITIONS, TRANSACTIONS, Walk
from tests.txn.test_interrupts_anywhere import threads
from tests.waiting import until

POINTS_MAX = 4_000
CLOSE_POINTS_MAX = 400
INTERRUPTS = (Struck, RuntimeError)
"""CPython's Condition raises RuntimeError where its exit is struck."""


class ThreadWalk(Walk):
    """See the module."""

    def run(self) -> None:
        before = threads()
        self.pool = self._open()
        callers = [threading.Thread(target=self._caller, args=(random.Random(self.draw.random()),)) for _ in range(CALLERS)]
        for each in callers:
            each.start()
        while any(each.is_alive() for each in callers):
            time.sleep(self.draw.random() * 0.1)
            self.trouble()
            chance = self.draw.random()
            if chance < 0.08:
                self._reopen()
            elif chance < 0.15:
                self._fork()
        self.stub.faults.clear()
        self._resolve()
        self._works()
        self.pool.close(LIMIT_S)
        gc.collect()  # An interrupted constructor leaves sockets.
        until(lambda: threads() <= before, "no thread is left")
        until(lambda: self.stub.stats()["open"] == 0, "no connection is left")

    def _open(self) -> TransactionalPool:
        pool = TransactionalPool(self.settings())
        self.opened.append(pool)
        return pool

    def _reopen(self) -> None:
        """Close the pool and open the next one, or the other way around, as two processes do that were given one instance."""
        older, closes_first = self.pool, self.draw.random() < 0.5
        if not closes_first:
            self.pool = self._open()
        limit_s = self.draw.choice([0.0, 0.5, LIMIT_S])
        try:
            struck(lambda: older.close(limit_s), draw_point(self.draw, CLOSE_POINTS_MAX), interrupt)
        except INTERRUPTS:
            older.close(limit_s)
        if closes_first:
            self.pool = self._open()

    def _fork(self) -> None:
        """The child has a pool of its own, or is refused. It does nothing to its parent's."""
        value = self.value()
        child = os.fork()
        if not child:
            code = 1
            try:
                code = self._in_child(value)
            finally:
                os._exit(code)
        status = ended(child)
        if status:
            self.broken.append(f"a child ended with {os.waitstatus_to_exitcode(status)}")

    def _in_child(self, value: bytes) -> int:
        try:
            with self.pool.transaction() as tx:
                write(tx, value)
        except ProducerForked:
            return 0 if self.instance is not None else 2
        except FencepostError:
            return 0
        return 0 if self.instance is None else 3

    def _caller(self, draw: random.Random) -> None:
        for _ in range(TRANSACTIONS):
            value, fails, timeout = self.value(), draw.random() < 0.15, draw.choice([0.2, None])
            if draw.random() < 0.5:
                self._block(value, fails=fails, timeout=timeout)
                continue
            try:
                struck(partial(self._block, value, fails=fails, timeout=timeout), draw_point(draw, POINTS_MAX), interrupt)
            except INTERRUPTS:
                self.told.pop(value, None)

    def _block(self, value: bytes, *, fails: bool = False, timeout: float | None = None) -> BaseException | None:
        """A transaction. Returns its error."""
        failure: BaseException | None = None
        try:
            with self.pool.transaction(timeout) as tx:
                with self.alone(tx):
                    write(tx, value)
                if fails:
                    raise ZeroDivisionError
        except (FencepostError, ZeroDivisionError) as error:
            failure = error
        self.heard(value, failure)
        return failure

    def _resolve(self) -> None:
        for value, doubt in list(self.told.items()):
            if not isinstance(doubt, CommitOutcomeUnknown):
                continue
            try:
                doubt.resolve(LIMIT_S)
            except CommitOutcomeUnknown:
                continue  # Its pool was closed before, and the coordinator has it open.
            except FencepostError:
                self.told[value] = False
            else:
                self.told[value] = True

    def _works(self) -> None:
        """Each slot commits a transaction while the others have one open. A slot whose owner was fenced says so once."""
        until(self._commits_in_all_slots, "each slot commits")
        stats = self.pool.stats()
        assert (stats.in_use, stats.waiting, stats.settling) == (0, 0, 0), stats

    def _commits_in_all_slots(self) -> bool:
        together = threading.Barrier(self.size)
        failures: list[BaseException] = []

        def use(value: bytes) -> None:
            try:
                with self.pool.transaction(LIMIT_S) as tx, self.alone(tx):
                    together.wait(LIMIT_S)
                    write(tx, value)
                self.told[value] = True
            except (FencepostError, threading.BrokenBarrierError) as error:
                failures.append(error)
                together.abort()

        users = [threading.Thread(target=use, args=(self.value(),)) for _ in range(self.size)]
        for each in users:
            each.start()
        for each in users:
            each.join()
        if any(isinstance(each, PoolTakenOver) for each in failures):
            self.pool.close(LIMIT_S)
            self.pool = self._open()
        return not failures


def write(tx: Transaction, value: bytes) -> None:
    """The value in each partition."""
    for partition in range(PARTITIONS):
        tx.send("t", value, partition=partition)
