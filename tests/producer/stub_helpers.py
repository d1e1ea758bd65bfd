"""For tests of a producer and a stub: settings with short pauses, the batches that the stub received, and waiting."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Coroutine
from typing import Any, NamedTuple

from fencepost.broker_stub import BrokerStub
from fencepost.broker_stub.faults.rules import Fault
from fencepost.producer import Producer
from fencepost.producer.wire import Api, ProduceRequest
from fencepost.producer.wire.records import BatchHeader, read_header
from tests.waiting import until as until

LIMIT_S = 60.0
QUICK: dict[str, Any] = {
    "linger_ms": 0,
    "retry_backoff_ms": 5,
    "retry_backoff_max_ms": 50,
    "reconnect_backoff_ms": 5,
    "reconnect_backoff_max_ms": 50,
    "max_block_ms": 20_000,
}
ONE_EACH: dict[str, Any] = {**QUICK, "batch_size": 0}
"""Every record a batch of its own."""


class Arrival(NamedTuple):
    """One batch as it reached a broker."""

    node: int
    connection: int
    header: BatchHeader
    blob: bytes

    @property
    def stamp(self) -> tuple[int, int, int]:
        """(producer id, epoch, base sequence)."""
        return self.header.producer_id, self.header.producer_epoch, self.header.base_sequence


def quick(stub: BrokerStub, **settings: Any) -> Producer:
    """A producer that retries and reconnects without long pauses."""
    return Producer(bootstrap_servers=stub.bootstrap, **{**QUICK, **settings})


def arrivals(stub: BrokerStub, partition: int = 0) -> list[Arrival]:
    """Every batch that the stub's brokers received for that partition, in order, repeats included."""
    found = []
    for exchange in stub.journal.requests(Api.PRODUCE):
        assert isinstance(exchange.request, ProduceRequest)
        for topic in exchange.request.topic_data:
            for part in topic.partition_data:
                if part.index == partition:
                    blob = bytes(part.records or b"")
                    found.append(Arrival(exchange.node, exchange.connection_id, read_header(blob), blob))
    return found


def values(stub: BrokerStub, topic: str, partition: int = 0) -> list[bytes]:
    """The record values in the partition's log."""
    return [bytes(record.value or b"") for record in stub.records(topic, partition)]


def probe(stub: BrokerStub, api: Api) -> Fault:
    """A fault that changes nothing and counts: `wait(n)` returns when the stub has answered so many requests of that type."""
    return stub.faults.on(api).reply().forever().throttle(0)


def drop(held: list[Any]) -> None:
    """Delete the list's references, which must be the only ones, and collect."""
    held.clear()
    gc.collect()


def run_story(story: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine on a new loop. Fails at a deadline, and if the coroutine leaves a task behind."""

    async def bounded() -> None:
        await asyncio.wait_for(story, LIMIT_S)
        left = asyncio.all_tasks() - {asyncio.current_task()}
        assert not left, left

    asyncio.run(bounded())
