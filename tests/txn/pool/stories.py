"""Stories of pools that the stub and Apache Kafka tell alike."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from typing import Any

import pytest

from fencepost.broker_stub.proxy.proxy import FaultProxy
from fencepost.producer.wire import Api
from fencepost.txn.pool.errors import PoolTakenOver, PoolTimeout
from fencepost.txn.pool.pool import TransactionalPool
from tests.producer.stub_helpers import LIMIT_S, QUICK
from tests.txn.pool.helpers import Pool, block, made_of, pool_of, sent, wrote
from tests.waiting import until

LEFT_OPEN = """
import sys, threading
from fencepost import TransactionalPool
bootstrap, topic, prefix, settings = sys.argv[1:]
pool = TransactionalPool(bootstrap_servers=bootstrap, transactional_id_prefix=prefix, size=4, **eval(settings))
entered = [pool.transaction() for _ in range(3)]
for block in entered:
    block.__enter__().send(topic, b"left open").result(30)
print(pool.instance, flush=True)
sys.stdin.read()
"""


async def is_cut_off_and_followed(kind: type[Pool], bootstrap: str, topic: str, prefix: str = "p") -> None:
    """The registration of a pool's slot gets no answer, and its caller leaves. When the pool reaches the brokers again, another process has
    the instance. It sends the registration no more, which would fence the newer pool, but asks first."""
    settings = {"transactional_id_prefix": prefix, "instance": "a", "size": 2, "acquire_timeout_ms": 30_000}
    with FaultProxy(bootstrap) as proxy:
        async with (
            pool_of(kind, proxy.bootstrap, **settings, request_timeout_ms=1_000) as older,
            pool_of(kind, bootstrap, **settings) as newer,
        ):
            await made_of(older.init, LIMIT_S)
            async with block(older):
                cut_off = proxy.faults.on(Api.INIT_PRODUCER_ID).forever().drop()
                while not cut_off.hits:
                    with pytest.raises(PoolTimeout):
                        await wrote(older, b"none", topic, timeout=0.5)
            window = older._program._slots.all[1].window
            await made_of(until, lambda: not window.is_open(), "the time for the registration is over")
            async with block(newer) as one, block(newer) as other:
                cut_off.remove()
                registered = proxy.faults.on(Api.INIT_PRODUCER_ID).forever().delay(0)
                much_later = time.monotonic() + 3.0
                while time.monotonic() < much_later:
                    await made_of(newer.check, LIMIT_S)
                assert registered.hits == 0
                await sent(one, topic, b"newer")
                await sent(other, topic, b"newer")
            with pytest.raises(PoolTakenOver):
                await made_of(older.check, LIMIT_S)


async def share_an_instance(kind: type[Pool], bootstrap: str, topic: str, prefix: str = "p") -> None:
    """Two pools have one instance."""
    settings = {"transactional_id_prefix": prefix, "instance": "a", "size": 3, "acquire_timeout_ms": 30_000}
    async with pool_of(kind, bootstrap, **settings) as older, pool_of(kind, bootstrap, **settings) as newer:
        await wrote(older, b"older", topic)
        await made_of(newer.init, LIMIT_S)
        # The older pool may find out at its first record, at its commit, or before it opens a slot that it does not have yet.
        told = [await asyncio.gather(wrote(older, b"lost", topic), return_exceptions=True) for _ in range(3)]
        for each in told:
            assert isinstance(each[0], PoolTakenOver), each
        with pytest.raises(
            PoolTakenOver, match=rf"instance 'a' of the pool '{prefix}' belongs to another process now, which has registered"
        ):
            async with block(older), block(older):
                pass
        for _ in range(3):
            await wrote(newer, b"newer", topic)
        assert newer.stats().replaced == 0


def is_killed_and_followed(bootstrap: str, topic: str, prefix: str = "p", **settings: Any) -> None:
    """A process is killed while it has three transactions open, and another one follows."""
    arguments = [bootstrap, topic, prefix, repr({name: str(value) for name, value in settings.items()})]
    worker = [sys.executable, "-P", "-c", LEFT_OPEN, *arguments]
    with subprocess.Popen(worker, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as killed:
        assert killed.stdout is not None
        instance = killed.stdout.readline().strip()
        killed.kill()
    with TransactionalPool(QUICK, bootstrap_servers=bootstrap, transactional_id_prefix=prefix, size=4, **settings) as pool:
        pool.init(LIMIT_S)
        assert pool.instance == instance
        with pool.transaction() as tx:
            tx.send(topic, b"after")
