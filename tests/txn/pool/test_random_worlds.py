"""Random worlds on the stub: parallel transactions while requests are late, refused or lost, coordinators move, slots are fenced, and
callers leave. Each transaction has the outcome that its caller was told, once, and afterwards the pool works as before.

FENCEPOST_SEED replays one seed: the worlds, not the order of threads and packets. FENCEPOST_RUNS says how many to run.
"""

from __future__ import annotations

import asyncio
import os
import random
from collections import Counter
from contextlib import suppress
from typing import Any

import pytest

from fencepost.broker_stub import BrokerStub
from fencepost.producer.errors import FencepostError
from fencepost.producer.wire import Api, ErrorCode
from fencepost.txn.async_producer import AsyncTransactionalProducer
from fencepost.txn.errors import CommitOutcomeUnknown
from fencepost.txn.pool.async_pool import AsyncTransactionalPool
from tests.producer.stub_helpers import LIMIT_S, QUICK, run_story
from tests.reading import read_values
from tests.txn.pool.helpers import KINDS, Pool, block, made_of, pool_of, sent

FIRST_SEED = int(os.environ.get("FENCEPOST_SEED", random.SystemRandom().randrange(10**6)))
RUNS = 1 if "FENCEPOST_SEED" in os.environ else int(os.environ.get("FENCEPOST_RUNS", "4"))
CALLERS = 12
TRANSACTIONS = 6
PARTITIONS = 3
APIS = (Api.END_TXN, Api.PRODUCE, Api.INIT_PRODUCER_ID, Api.ADD_PARTITIONS_TO_TXN, Api.FIND_COORDINATOR, Api.DESCRIBE_TRANSACTIONS)
CODES = (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.UNKNOWN_SERVER_ERROR)
SIZE = 4


class World:
    """One run. `told`: for each value what its caller was told: True for committed, False for not, or the doubt."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self.kind: type[Pool] = self.draw.choice(KINDS)
        self.version = self.draw.choice([1, 2])
        self.told: dict[bytes, bool | CommitOutcomeUnknown] = {}

    async def run(self, stub: BrokerStub) -> None:
        settings: dict[str, Any] = {"size": SIZE, "acquire_timeout_ms": 20_000, "request_timeout_ms": 1_000, "instance": "a"}
        async with pool_of(self.kind, stub.bootstrap, **settings) as pool:
            trouble = asyncio.create_task(self._trouble(stub))
            await asyncio.gather(*[self._caller(pool, number) for number in range(CALLERS)])
            trouble.cancel()
            with suppress(asyncio.CancelledError):
                await trouble
            stub.faults.clear()
            for doubt in [each for each in self.told.values() if isinstance(each, CommitOutcomeUnknown)]:
                value = next(value for value, told in self.told.items() if told is doubt)
                self.told[value] = await self._resolved(doubt)
            await self._works(pool)

    async def _caller(self, pool: Pool, number: int) -> None:
        for row in range(TRANSACTIONS):
            value = b"%d-%d" % (number, row)
            await self._one(pool, value, self.draw.random(), self.draw.random() * 0.1)

    async def _one(self, pool: Pool, value: bytes, chance: float, after_s: float) -> None:
        if chance < 0.2 and isinstance(pool, AsyncTransactionalPool):
            task = asyncio.create_task(self._write(pool, value, fails=False))
            await asyncio.wait([task], timeout=after_s)
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
                return
            # The client is gone, and was told nothing: either outcome is right, but not half of it.
            self.told.pop(value, None)
            return
        await self._write(pool, value, fails=chance > 0.85, timeout=0.3 if chance > 0.7 else LIMIT_S)

    async def _write(self, pool: Pool, value: bytes, *, fails: bool, timeout: float = LIMIT_S) -> None:
        try:
            async with block(pool, timeout) as tx:
                for _ in range(PARTITIONS):
                    await sent(tx, "t", value)
                if fails:
                    raise ZeroDivisionError
        except CommitOutcomeUnknown as unknown:
            self.told[value] = unknown
        except (FencepostError, ZeroDivisionError):
            self.told[value] = False
        else:
            self.told[value] = True

    async def _trouble(self, stub: BrokerStub) -> None:
        while True:
            await asyncio.sleep(self.draw.random() * 0.15)
            chance = self.draw.random()
            if chance < 0.15:
                node = self.draw.randint(1, 3)
                await made_of(stub.restart_broker, node)
            elif chance < 0.3:
                await self._fence(stub, self.draw.randrange(SIZE))
            else:
                fault = stub.faults.on(self.draw.choice(APIS))
                fault = fault.reply() if self.draw.random() < 0.5 else fault
                fault = fault.times(self.draw.randint(1, 3))
                match self.draw.randrange(4):
                    case 0:
                        fault.drop()
                    case 1:
                        fault.delay(self.draw.randint(1, 300))
                    case 2:
                        fault.disconnect()
                    case _:
                        fault.error(self.draw.choice(CODES))

    async def _fence(self, stub: BrokerStub, slot: int) -> None:
        async with AsyncTransactionalProducer(QUICK, bootstrap_servers=stub.bootstrap, transactional_id=f"p-a-{slot}") as other:
            with suppress(FencepostError):
                await other.init(5.0)

    async def _resolved(self, doubt: CommitOutcomeUnknown) -> bool:
        try:
            await made_of(doubt.resolve, LIMIT_S)
        except CommitOutcomeUnknown:
            raise
        except FencepostError:
            return False
        return True

    async def _works(self, pool: Pool) -> None:
        """Each slot begins and commits a transaction. A slot whose last owner was fenced says so once."""
        for attempt in range(SIZE + 1):
            try:
                async with block(pool, LIMIT_S), block(pool, LIMIT_S), block(pool, LIMIT_S), block(pool, LIMIT_S) as tx:
                    await sent(tx, "t", b"works")
            except FencepostError:
                if attempt == SIZE:
                    raise
            else:
                break
        stats = pool.stats()
        assert (stats.in_use, stats.waiting) == (0, 0), stats


@pytest.mark.parametrize("run", range(RUNS))
def test_outcomes_are_true(run: int) -> None:
    """Counted by a consumer with read_committed: what was committed is there once in full, and nothing of what was aborted."""
    seed = FIRST_SEED + run
    world = World(seed)
    with BrokerStub(brokers=3, seed=seed, transaction_version=world.version) as stub:
        stub.create_topic("t", partitions=PARTITIONS)
        run_story(world.run(stub))
        found = Counter(read_values(stub.bootstrap, "t", range(PARTITIONS)))
    right = {value: PARTITIONS if told else 0 for value, told in world.told.items()}
    assert {value: found[value] for value in right} == right, f"FENCEPOST_SEED={seed}"
    assert {number for value, number in found.items() if value != b"works"} <= {PARTITIONS}
