"""Many senders on one producer. Each writes its own rows, and `Account` checks the results.

A row contains its sender, its number and the CRC of its bytes. All rows of a key belong to one sender, in the order of their numbers. A
sender offers a row again if `send` has no room for it.
"""

from __future__ import annotations

import asyncio
import os
import random
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple
from zlib import crc32

from fencepost.producer import AsyncProducer, BufferFull, Producer, TopicUnavailable

FULL = os.environ.get("FENCEPOST_CROWD") == "full"
DEADLINE_S = 1_800.0 if FULL else 90.0
KEYS = 3  # of each sender
BULK = 10
IN_FLIGHT = 50  # a sender looks at its acknowledgements so often
FILLER_MAX = 400
PAUSE_S = 0.05
"""Before a row is offered again, by each of two hundred tasks. With so short a pause that their loop never rests it gives the interpreter
back so often and so briefly that, on a machine with nothing else to do, other threads hardly get it, the sender's among them."""


class Plan(NamedTuple):
    """The number of senders, the rows of each, and the seed."""

    topic: str
    senders: int
    rows_each: int
    seed: int

    @property
    def rows(self) -> int:
        return self.senders * self.rows_each


def row(plan: Plan, sender: int, number: int) -> tuple[bytes, bytes]:
    """Key and value."""
    rng = random.Random(f"{plan.seed} {sender} {number}")
    head = b"%d %d %s" % (sender, number, b"." * rng.randrange(FILLER_MAX))
    return b"%d-%d" % (sender, rng.randrange(KEYS)), head + b" %08x" % crc32(head)


def runs(plan: Plan, sender: int) -> Iterator[list[tuple[bytes, bytes]]]:
    """The sender's rows in order, mostly one at a time, now and then several."""
    rng, number = random.Random(f"{plan.seed} {sender}"), 0
    while number < plan.rows_each:
        count = min(BULK if rng.random() < 0.05 else 1, plan.rows_each - number)
        yield [row(plan, sender, each) for each in range(number, number + count)]
        number += count


def is_last_third(plan: Plan, rows: list[tuple[bytes, bytes]]) -> bool:
    """Whether the faults must have happened before these rows are sent."""
    return int(rows[0][1].split(b" ")[1]) * 3 >= plan.rows_each * 2


class Account:
    """The accepted and acknowledged rows so far; any thread may count. `struck`: the faults have happened; the last third may follow."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.struck = threading.Event()
        self.accepted = 0
        self.acknowledged = 0

    def count(self, *, accepted: int = 0, acknowledged: int = 0) -> None:
        with self._lock:
            self.accepted += accepted
            self.acknowledged += acknowledged


def threads(plan: Plan, settings: dict[str, Any], account: Account) -> None:
    """Every sender is a thread, on one Producer."""
    with Producer(**settings) as producer, ThreadPoolExecutor(plan.senders) as pool:
        for each in [pool.submit(_thread, plan, producer, sender, account) for sender in range(plan.senders)]:
            each.result(DEADLINE_S)


def _thread(plan: Plan, producer: Producer, sender: int, account: Account) -> None:
    futures: list[Any] = []
    for rows in runs(plan, sender):
        if is_last_third(plan, rows):
            assert account.struck.wait(DEADLINE_S)
        future: Any = producer.send(plan.topic, rows[0][1], key=rows[0][0]) if len(rows) == 1 else producer.send_many(plan.topic, rows)
        account.count(accepted=len(rows))
        futures.append((future, len(rows)))
        if len(futures) >= IN_FLIGHT:
            _settle(futures, account)
    _settle(futures, account)


def _settle(futures: list[Any], account: Account) -> None:
    for future, rows in futures:
        _check(future.result(DEADLINE_S), rows)
        account.count(acknowledged=rows)
    futures.clear()


def tasks(plan: Plan, settings: dict[str, Any], account: Account) -> None:
    """Every sender is a task, on one AsyncProducer."""

    async def sender(producer: AsyncProducer, number: int) -> None:
        futures: list[Any] = []
        for rows in runs(plan, number):
            if is_last_third(plan, rows) and not account.struck.is_set():
                assert await asyncio.to_thread(account.struck.wait, DEADLINE_S)
            if len(rows) == 1:
                future: Any = await producer.send(plan.topic, rows[0][1], key=rows[0][0])
            else:
                future = await producer.send_many(plan.topic, rows)
            account.count(accepted=len(rows))
            futures.append((future, len(rows)))
            if len(futures) >= IN_FLIGHT:
                await _settled(futures, account)
        await _settled(futures, account)

    async def crowd() -> None:
        async with AsyncProducer(**settings) as producer, asyncio.timeout(DEADLINE_S):
            await asyncio.gather(*(sender(producer, number) for number in range(plan.senders)))

    asyncio.run(crowd())


def tasks_on_a_thread(plan: Plan, settings: dict[str, Any], account: Account) -> None:
    """Every sender is a task, on one Producer, and awaits its futures. It offers a row again if there is no room."""

    async def sender(producer: Producer, number: int) -> None:
        futures: list[Any] = []
        for rows in runs(plan, number):
            if is_last_third(plan, rows) and not account.struck.is_set():
                assert await asyncio.to_thread(account.struck.wait, DEADLINE_S)
            for key, value in rows:
                while True:
                    try:
                        futures.append((producer.try_send(plan.topic, value, key=key), 1))
                        break
                    except (BufferFull, TopicUnavailable):
                        await (_settled(futures, account) if futures else asyncio.sleep(PAUSE_S))
                account.count(accepted=1)
            if len(futures) >= IN_FLIGHT:
                await _settled(futures, account)
        await _settled(futures, account)

    async def crowd(producer: Producer) -> None:
        async with asyncio.timeout(DEADLINE_S):
            await asyncio.gather(*(sender(producer, number) for number in range(plan.senders)))

    with Producer(**settings) as producer:
        producer.partitions_for(plan.topic)
        asyncio.run(crowd(producer))


async def _settled(futures: list[Any], account: Account) -> None:
    for future, rows in futures:
        _check(await future, rows)
        account.count(acknowledged=rows)
    futures.clear()


def _check(outcome: Any, rows: int) -> None:
    if rows > 1:
        assert (outcome.acknowledged, outcome.failures) == (rows, {}), outcome


Crowd = Callable[[Plan, dict[str, Any], Account], None]


def faults_of(plan: Plan, logs: Iterable[Iterable[tuple[bytes | None, bytes | None]]]) -> dict[str, int]:
    """How many rows were lost, duplicated, damaged, foreign or out of order. Each log is one partition's (key, value)s in order."""
    found: Counter[tuple[int, int]] = Counter()
    wrong = {"damaged": 0, "foreign": 0, "out of order": 0}
    for log in logs:
        newest: dict[bytes, int] = {}
        for key, value in log:
            head, _, crc = (value or b"").rpartition(b" ")
            if not crc or crc32(head) != int(crc, 16):
                wrong["damaged"] += 1
                continue
            sender, number = (int(each) for each in head.split(b" ")[:2])
            if not (0 <= sender < plan.senders and 0 <= number < plan.rows_each) or (key, value) != row(plan, sender, number):
                wrong["foreign"] += 1
                continue
            found[sender, number] += 1
            assert key is not None
            wrong["out of order"] += newest.get(key, -1) >= number
            newest[key] = number
    return {"lost": plan.rows - len(found), "doubled": found.total() - len(found), **wrong}
