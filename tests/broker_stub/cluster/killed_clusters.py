"""Kills the process of a cluster of three brokers again and again, while one program sends records and another one transactions, and counts
what is there at the end."""

from __future__ import annotations

import random
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from fencepost.broker_stub import BrokerStub
from fencepost.producer import Producer, RecordFuture
from fencepost.producer.errors import DeliveryError, Persisted
from fencepost.txn import TransactionalProducer
from fencepost.txn.errors import CommitOutcomeUnknown, MustAbort
from tests.waiting import until

BROKERS, PARTITIONS, EACH = 3, 3, 5
SINGLE, ONE, OTHER = "single", "one", "other"
WORKS_S: Final = 0.8
"""How long a process works at most until it is killed, after each program has got something done."""
EARLY: Final = 0.25
"""The share of kills that come earlier."""
WAIT_S: Final = 120.0
IN_FLIGHT_MAX: Final = 500


class Found(NamedTuple):
    """The counts of a campaign. `early`: kills before the brokers listened. `false`: acknowledged at an offset that has another record, or
    called not persisted and there. `split`: transactions of which only a part is there, or that have not the outcome that was reported.
    `different`: partitions whose replicas differ."""

    sent: int
    acknowledged: int
    transactions: int
    committed: int
    kills: int
    early: int
    lost: int
    doubled: int
    false: int
    split: int
    different: int

    @property
    def wrong(self) -> tuple[int, ...]:
        return self.lost, self.doubled, self.false, self.split, self.different


def campaign(data_dir: Path, *, kills: int, seed: int, say: Callable[[str], None]) -> Found:
    """Starts the cluster, kills it so many times at random moments, and looks into its directory."""
    drawn = random.Random(seed)
    port = free_ports_from()
    bootstrap = f"127.0.0.1:{port}"
    few = {"transaction.state.log.num.partitions": 2}  # so that it starts fast
    with BrokerStub(data_dir=data_dir, brokers=BROKERS, config=few) as stub:
        with TransactionalProducer(**stub.settings, transactional_id="killed") as producer:
            producer.init(WAIT_S)
        for topic in (SINGLE, ONE, OTHER):
            stub.create_topic(topic, partitions=PARTITIONS, replication_factor=BROKERS, config={"min.insync.replicas": 2})
    ended = threading.Event()
    records, transactions = Records(bootstrap, ended), Transactions(bootstrap, ended, random.Random(seed + 1))
    threads = [threading.Thread(target=each.run, daemon=True) for each in (records, transactions)]
    early = 0
    for number in range(kills + 1):
        is_early = 0 < number < kills and drawn.random() < EARLY
        with cluster(data_dir, port, wait=not is_early) as process:
            if number == 0:
                for thread in threads:
                    thread.start()
            if not is_early:
                done = len(transactions.outcomes)
                until(lambda: records.failed or transactions.failed or len(transactions.outcomes) > done, "work", timeout_s=WAIT_S)  # noqa: B023
            early += is_early
            time.sleep(drawn.uniform(0, WORKS_S))
            if number < kills:
                stop(process, signal.SIGKILL)
                continue
            ended.set()
            for thread in threads:
                thread.join(WAIT_S)
                assert not thread.is_alive(), f"a program hangs, seed {seed}"
            stop(process, signal.SIGINT)
    for program in (records, transactions):
        if program.failed is not None:
            raise program.failed
    found = count(data_dir, records, transactions, kills=kills, early=early)
    say(f"{found} with seed {seed}")
    return found


@contextmanager
def cluster(data_dir: Path, port: int, *, wait: bool = True) -> Iterator[subprocess.Popen[str]]:
    """The process. `wait`: until it listens."""
    command = [sys.executable, "-P", "-m", "fencepost", "broker", "--brokers", str(BROKERS), "--port", str(port)]
    complaints = data_dir.parent / "complaints"
    with (
        complaints.open("a") as stderr,
        subprocess.Popen([*command, "--data-dir", str(data_dir)], stdout=subprocess.PIPE, stderr=stderr, text=True) as process,
    ):
        try:
            line = process.stdout.readline() if process.stdout is not None and wait else ""
            assert line or not wait, complaints.read_text()
            yield process
        finally:
            if process.poll() is None:
                process.kill()
            process.communicate(timeout=WAIT_S)


def free_ports_from() -> int:
    """A port that is free now, as are the next ones, one for each broker."""
    while True:
        with ExitStack() as bound:
            first = bound.enter_context(socket.create_server(("127.0.0.1", 0))).getsockname()[1]
            try:
                for port in range(first + 1, first + BROKERS):
                    bound.enter_context(socket.create_server(("127.0.0.1", port)))
            except OSError:
                continue
            return int(first)


def stop(process: subprocess.Popen[str], how: signal.Signals) -> None:
    process.send_signal(how)
    process.wait(WAIT_S)


class Records:
    """Sends numbered records with acks=all, each to the next partition."""

    def __init__(self, bootstrap: str, ended: threading.Event) -> None:
        self.futures: list[RecordFuture] = []
        self.failed: BaseException | None = None
        self._bootstrap = bootstrap
        self._ended = ended

    def run(self) -> None:
        try:
            with Producer(bootstrap_servers=self._bootstrap, request_timeout_ms=1000, linger_ms=1, delivery_timeout_ms=90_000) as producer:
                while not self._ended.is_set():
                    number = len(self.futures)
                    if number >= IN_FLIGHT_MAX:
                        self.futures[number - IN_FLIGHT_MAX].exception(WAIT_S)
                    self.futures.append(producer.send(SINGLE, value=b"%d" % number, partition=number % PARTITIONS))
                for future in self.futures:
                    future.exception(WAIT_S)
        except BaseException as error:  # noqa: BLE001 - the main thread raises it
            self.failed = error


class Transactions:
    """Writes transactions of EACH records to two topics, and notes what it is told of each: True for committed, False for aborted, None if
    it does not learn that."""

    def __init__(self, bootstrap: str, ended: threading.Event, drawn: random.Random) -> None:
        self.outcomes: list[bool | None] = []
        self.failed: BaseException | None = None
        self._bootstrap = bootstrap
        self._ended = ended
        self._drawn = drawn

    def run(self) -> None:
        try:
            with TransactionalProducer(
                bootstrap_servers=self._bootstrap, transactional_id="killed", request_timeout_ms=1000, delivery_timeout_ms=60_000
            ) as producer:
                while not self._ended.is_set():
                    self.outcomes.append(self._one(producer, len(self.outcomes)))
        except BaseException as error:  # noqa: BLE001 - the main thread raises it
            self.failed = error

    def _one(self, producer: TransactionalProducer, number: int) -> bool | None:
        tx = producer.begin()
        try:
            for each in range(EACH):
                tx.send(ONE if each % 2 else OTHER, value=b"%d %d" % (number, each), partition=self._drawn.randrange(PARTITIONS))
            if self._drawn.random() < 0.2:
                producer.abort(WAIT_S)
                return False
            producer.commit(WAIT_S)
        except CommitOutcomeUnknown as unknown:
            try:
                unknown.resolve(WAIT_S)
            except MustAbort:
                producer.abort(WAIT_S)
                return False
        except MustAbort:
            producer.abort(WAIT_S)
            return False
        return True


def count(data_dir: Path, records: Records, transactions: Transactions, *, kills: int, early: int) -> Found:
    with BrokerStub(data_dir=data_dir, brokers=BROKERS) as stub:
        there = {
            (topic, partition, record.offset): record.value or b""
            for topic in (SINGLE, ONE, OTHER)
            for partition in range(PARTITIONS)
            for record in stub.records(topic, partition)
        }
        different = sum(
            len({tuple(stub.records(topic, partition, isolation="read_uncommitted", node=node)) for node in range(1, BROKERS + 1)}) > 1
            for topic in (SINGLE, ONE, OTHER)
            for partition in range(PARTITIONS)
        )
    single = Counter(value for (topic, _, _), value in there.items() if topic == SINGLE)
    lost = false = acknowledged = 0
    for number, future in enumerate(records.futures):
        value, error = b"%d" % number, future.exception(0)
        if error is None:
            acknowledged += 1
            lost += value not in single
            false += there.get((SINGLE, number % PARTITIONS, future.result(0).offset)) != value
        elif isinstance(error, DeliveryError):
            lost += error.persisted is Persisted.YES and value not in single
            false += error.persisted is Persisted.NO and value in single
    in_transactions = Counter(value for (topic, _, _), value in there.items() if topic != SINGLE)
    parts = Counter(int(value.split()[0]) for value in in_transactions)
    expected = {True: (EACH,), False: (0,), None: (0, EACH)}
    return Found(
        sent=len(records.futures),
        acknowledged=acknowledged,
        transactions=len(transactions.outcomes),
        committed=sum(outcome is True for outcome in transactions.outcomes),
        kills=kills,
        early=early,
        lost=lost,
        doubled=sum(found > 1 for found in (single + in_transactions).values()),
        false=false,
        split=sum(parts[number] not in expected[outcome] for number, outcome in enumerate(transactions.outcomes)),
        different=different,
    )
