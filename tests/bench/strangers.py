"""aiokafka and kafka-python behind the calls of `tests.bench.contenders`, used as their users use them.

Neither limits the bytes of its buffer as a whole, so they run without such a limit. A failed delivery ends the worker.
"""

from __future__ import annotations

import asyncio
from itertools import cycle, islice
from typing import Any

from aiokafka import AIOKafkaProducer
from kafka import KafkaProducer

from tests.bench.load import Load

WINDOW = 20_000
"""How many deliveries aiokafka's caller waits for at a time, because aiokafka does not slow down a caller that never waits."""

TIMEOUT_S = 300.0


class Aiokafka:
    """One task on a loop of the worker's thread. It awaits each `send`, and gathers the futures from time to time."""

    def __init__(self, load: Load) -> None:
        self.acked = 0
        self._load = load
        self._loop = asyncio.new_event_loop()
        self._kept: list[asyncio.Future[Any]] = []
        self._producer = self._run(self._start())

    def send(self, count: int) -> None:
        self._run(self._send(count))

    def lone(self, key: bytes) -> None:
        self._run(self._producer.send_and_wait(self._load.topic, self._load.value, key=key))

    def finish(self) -> None:
        self._run(self._gather())

    def close(self) -> None:
        self._run(self._producer.stop())
        self._loop.close()

    async def _start(self) -> Any:
        load = self._load
        producer = AIOKafkaProducer(
            bootstrap_servers=load.bootstrap,
            acks="all",
            enable_idempotence=True,
            linger_ms=int(load.linger_ms),
            max_batch_size=load.batch_bytes,
            compression_type=None if load.codec == "none" else load.codec,
        )
        await producer.start()
        return producer

    async def _send(self, count: int) -> None:
        send, topic, value = self._producer.send, self._load.topic, self._load.value
        for key in islice(cycle(self._load.keys), count):
            self._kept.append(await send(topic, value, key=key))
            if len(self._kept) >= WINDOW:
                await self._gather()

    async def _gather(self) -> None:
        kept, self._kept = self._kept, []
        self.acked += len(await asyncio.gather(*kept))

    def _run(self, what: Any) -> Any:
        return self._loop.run_until_complete(asyncio.wait_for(what, TIMEOUT_S))


class KafkaPython:
    """The synchronous producer. It keeps the futures, and asks each one for its metadata."""

    def __init__(self, load: Load) -> None:
        self.acked = 0
        self._load = load
        self._kept: list[Any] = []
        self._producer = KafkaProducer(
            bootstrap_servers=load.bootstrap,
            acks="all",
            enable_idempotence=True,
            linger_ms=int(load.linger_ms),
            batch_size=load.batch_bytes,
            compression_type=None if load.codec == "none" else load.codec,
        )

    def send(self, count: int) -> None:
        send, topic, value, keep = self._producer.send, self._load.topic, self._load.value, self._kept.append
        for key in islice(cycle(self._load.keys), count):
            keep(send(topic, value, key=key))

    def lone(self, key: bytes) -> None:
        self._producer.send(self._load.topic, self._load.value, key=key).get(TIMEOUT_S)

    def finish(self) -> None:
        self._producer.flush(TIMEOUT_S)
        kept, self._kept = self._kept, []
        for future in kept:
            future.get(TIMEOUT_S)
        self.acked += len(kept)

    def close(self) -> None:
        self._producer.close(TIMEOUT_S)
