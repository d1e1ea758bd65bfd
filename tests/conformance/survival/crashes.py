"""A long send to three brokers, of which one at a time is killed at a random moment and started again.

One thread sends with `send` and `send_many`, while another one ends brokers: mostly the leader of the partition that is being sent to.
The sender stays just ahead of the next crash, so that each one comes while records are under way. Some crashes come when all replicas are
in sync, others before the broker of the last one has caught up. A leader whose followers can be cut off is sometimes alone with its newest
batches when it ends. Power fails only while all replicas are in sync: two brokers that lose data one after the other may lose records that
were acknowledged.

Afterwards another client reads everything.
"""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Any, Final

from msgspec import Struct

from fencepost.producer import Persisted, Producer
from tests.conformance.survival.ledger import Account, Ledger
from tests.conformance.survival.reader import Admin, read_topic
from tests.conformance.survival.three_brokers import NODES, Crash, ThreeBrokers
from tests.waiting import until

STEP_TIMEOUT_S: Final = 180.0
POLL_MAX_S: Final = 0.005
IN_ONE_CALL: Final = (1, 20, 300, 2_000)

HEADING: Final = (
    "where producer     seed crashes (power) leader busy | sent acknowledged NO YES MAYBE (of it in the log) | "
    "lost doubled disordered strange misplaced false claims | seconds"
)


class Outcome(Struct, kw_only=True):
    """What happened, and what is in the log."""

    where: str
    producer: str
    seed: int
    crashes: Counter[Crash]
    of_leaders: int  # crashes of the broker that led the partition under way
    under_way: list[int]  # at each crash: records without an outcome
    ledger: Ledger
    account: Account
    took_s: float

    def faults(self) -> dict[str, int]:
        """Everything that should be 0."""
        return {**self.account.faults(), "lost": self.account.lost_acknowledged}

    def row(self) -> str:
        """One line of the table. `leader`: crashes of the leader of the partition that was being sent to. `busy`: those with records under
        way."""
        ledger, said = self.ledger, Counter(self.ledger.claims.values())
        busy = sum(count > 0 for count in self.under_way)
        return (
            f"{self.where:<5} {self.producer:<9} {self.seed:>7} {self.crashes.total():>7} ({self.crashes[Crash.POWER_LOSS]}) "
            f"{self.of_leaders} {busy} | {ledger.sent:,} {ledger.acked:,} {said[Persisted.NO]:,} {said[Persisted.YES]:,} "
            f"{said[Persisted.MAYBE]:,} ({self.account.found_of(Persisted.MAYBE):,}) | "
            f"{' '.join(str(count) for count in self.faults().values())} | {self.took_s:.0f}"
        )


class CrashRun:
    """`rows` records to a new topic, with so many crashes. A broker is down for up to `down_max_s` seconds. `settings`: the producer's."""

    def __init__(
        self,
        place: ThreeBrokers,
        topic: str,
        *,
        rows: int,
        crashes: int,
        down_max_s: float,
        seed: int,
        partitions: int = 3,
        **settings: Any,
    ) -> None:
        self._place = place
        self._topic = topic
        self._partitions = partitions
        self._down_max_s = down_max_s
        self._settings = settings
        self._seed = seed
        self._rng = random.Random(f"crashes {seed}")
        self._admin = Admin(place.bootstrap)
        self._points = sorted(self._rng.sample(range(rows * 9 // 10), crashes))
        self._ahead = max(1, rows // (4 * crashes + 40))  # how far the sender may be ahead of the next crash, twice
        self._allowed = 0
        self._more = threading.Condition()
        self._failed = threading.Event()
        self._trouble: list[BaseException] = []
        self._partition = 0  # that the sender sent to last
        self._crashes = Counter[Crash]()
        self._of_leaders = 0
        self._under_way: list[int] = []
        self.ledger = Ledger(rows, seed=seed)

    def run(self, producer_name: str) -> Outcome:
        """Send everything, with the crashes. Then read it all back."""
        self._admin.create(self._topic, partitions=self._partitions, replicas=len(NODES), config={"min.insync.replicas": "2"})
        begun = time.monotonic()
        with Producer(bootstrap_servers=self._place.bootstrap, **self._settings) as producer:
            sender = threading.Thread(target=self._send, args=(producer,), name="crash-run-sender")
            sender.start()
            try:
                for point in self._points:
                    self._strike(point)
            finally:
                self._allow(self.ledger.rows)
                sender.join(STEP_TIMEOUT_S)
            self._await("the end of the send", lambda: not sender.is_alive())
            producer.flush(STEP_TIMEOUT_S)
        self._await("all outcomes", lambda: self._settled == self.ledger.rows)
        self._await("all replicas in sync", self._in_sync)
        account = Account(self.ledger)
        for message in read_topic(self._place.bootstrap, self._topic):
            account.take_message(message)
        return Outcome(
            where=self._place.name,
            producer=producer_name,
            seed=self._seed,
            crashes=self._crashes,
            of_leaders=self._of_leaders,
            under_way=self._under_way,
            ledger=self.ledger,
            account=account,
            took_s=time.monotonic() - begun,
        )

    @property
    def _settled(self) -> int:
        return self.ledger.acked + self.ledger.failed

    # -- the sender --------------------------------------------------------------------------------------------------------

    def _send(self, producer: Producer) -> None:
        rng = random.Random(f"sends {self._seed}")
        try:
            row = 0
            while row < self.ledger.rows:
                end = min(self.ledger.rows, self._wait_for_leave(row), row + rng.choice(IN_ONE_CALL))
                self._partition = partition = rng.randrange(self._partitions)
                if rng.random() < 0.5:
                    self.ledger.send_many(producer, self._topic, range(row, end), partition=partition)
                else:
                    for each in range(row, end):
                        self.ledger.send(producer, self._topic, each, partition=partition)
                row = end
        except BaseException as error:
            self._trouble.append(error)
            self._failed.set()
            raise

    def _wait_for_leave(self, row: int) -> int:
        """Wait until the row may be sent. Returns the first one that may not."""
        with self._more:
            if not self._more.wait_for(lambda: row < self._allowed, 2 * STEP_TIMEOUT_S):
                raise TimeoutError(f"row {row} was not allowed within {2 * STEP_TIMEOUT_S:.0f} s")
            return self._allowed

    def _allow(self, rows: int) -> None:
        with self._more:
            self._allowed = rows
            self._more.notify_all()

    # -- one crash ---------------------------------------------------------------------------------------------------------

    def _strike(self, point: int) -> None:
        rng, place = self._rng, self._place
        how = rng.choice(place.crashes)
        if how is Crash.POWER_LOSS or rng.random() < 0.5:
            self._await("all replicas in sync", self._in_sync)
        self._allow(point + self._ahead)
        self._await(f"the outcome of {point} records", lambda: self._settled >= point)
        leader = self._admin.in_sync(self._topic)[self._partition][0]
        node = leader if leader in NODES and rng.random() < 0.75 else rng.choice(NODES)
        try:
            if place.isolate is not None and rng.random() < 0.5:
                place.isolate(node)
                self._await_sending()
                self._pause(rng.random() * self._down_max_s)
            self._await_sending()
            self._under_way.append(self.ledger.sent - self._settled)
            place.crash(node, how)
        finally:
            place.reconnect()
        self._crashes[how] += 1
        self._of_leaders += node == leader
        self._pause(rng.random() * self._down_max_s)
        place.start(node)

    def _await_sending(self) -> None:
        """Wait until the sender is sending."""
        sent = self.ledger.sent
        self._allow(sent + self._ahead)
        self._await("records under way", lambda: self.ledger.sent > sent)

    def _pause(self, seconds: float) -> None:
        """How long a broker stays as it is. Crashes differ in this."""
        self._failed.wait(seconds)

    def _in_sync(self) -> bool:
        return all(leader >= 0 and isr == len(NODES) for leader, isr in self._admin.in_sync(self._topic).values())

    def _await(self, what: str, ready: Callable[[], bool]) -> None:
        """Wait until the condition is true. Raises the sending thread's error, or TimeoutError."""

        def checked() -> bool:
            if self._trouble:
                raise AssertionError(f"seed {self._seed}: the sending thread failed") from self._trouble[0]
            return ready()

        try:
            until(checked, what, timeout_s=STEP_TIMEOUT_S, pause_max_s=POLL_MAX_S)
        except TimeoutError as late:
            late.add_note(f"seed {self._seed}: sent {self.ledger.sent}, acknowledged {self.ledger.acked}, failed {self.ledger.failed}")
            raise
