"""Large batches on an event loop: they are packed beside it, and nothing passes them. What happens when is told by events, not by a clock:
gzip waits until the test lets it go on."""

from __future__ import annotations

import asyncio
import gzip
import os
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from fencepost.broker_stub import BrokerStub
from fencepost.producer import AsyncProducer, DeliveryFatal, FencepostError, Persisted
from fencepost.producer.config.compression import aside_bytes
from fencepost.producer.config.reader import read_settings
from fencepost.producer.wire.codecs import codec
from fencepost.producer.wire.codecs.codec import Codec
from tests.producer.stub_helpers import QUICK, quick, values

LIMIT_S = 60.0
LARGE = os.urandom(24_000).hex().encode()
"""More than gzip packs on a loop in one go."""

SETTINGS: dict[str, Any] = {**QUICK, "compression_type": "gzip"}


class Gate:
    """gzip that stops until it is let go on; which threads it ran on."""

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.let_go = threading.Event()
        self.threads: list[str] = []
        self.error: Exception | None = None

    def compress(self, data: bytes, level: int) -> bytes:
        self.threads.append(threading.current_thread().name)
        if len(data) >= 32 * 1024:
            self.begun.set()
            if not self.let_go.wait(LIMIT_S / 3):
                raise TimeoutError("nobody let it go on: the loop was held up")
        if self.error is not None:
            raise self.error
        return gzip.compress(data, 6)


@pytest.fixture
def packer(monkeypatch: pytest.MonkeyPatch) -> Iterator[Gate]:
    hooks = Gate()
    monkeypatch.setitem(codec._WRITERS, Codec.GZIP, hooks.compress)
    yield hooks
    hooks.let_go.set()


async def when(event: threading.Event) -> None:
    """Wait for another thread without holding up the loop."""
    await asyncio.wait_for(asyncio.to_thread(event.wait, LIMIT_S / 3), LIMIT_S)


def test_the_loop_goes_on_while_a_batch_is_packed(packer: Gate) -> None:
    """While gzip is at a large batch another partition's record is sent and acknowledged; the batch's own partition keeps its order, small
    batches behind the large one included."""

    async def story(stub: BrokerStub) -> None:
        async with AsyncProducer(bootstrap_servers=stub.bootstrap, **SETTINGS, batch_size=0) as producer:
            for partition in (0, 1):
                await (await producer.send("t", b"first", partition=partition))
            large = await producer.send("t", LARGE, partition=0)
            await when(packer.begun)
            behind = [await producer.send("t", b"%d" % n, partition=0) for n in range(5)]
            assert (await (await producer.send("t", b"meanwhile", partition=1))).offset == 1
            assert not large.done()
            assert not any(future.done() for future in behind)
            packer.let_go.set()
            assert [(await future).offset for future in [large, *behind]] == [1, 2, 3, 4, 5, 6]

    with BrokerStub() as stub:
        stub.create_topic("t", partitions=2)
        asyncio.run(asyncio.wait_for(story(stub), LIMIT_S))
        assert values(stub, "t") == [b"first", LARGE, b"0", b"1", b"2", b"3", b"4"]
    assert packer.threads.count("fencepost-packer") == 1, "the small ones were not worth a thread"


def test_a_batch_that_is_being_packed_takes_no_more_records(packer: Gate) -> None:
    """What is sent meanwhile begins a batch of its own, though the one being packed is not full."""

    async def story(stub: BrokerStub) -> None:
        async with AsyncProducer(bootstrap_servers=stub.bootstrap, **SETTINGS, batch_size=1_000_000) as producer:
            await (await producer.send("t", b"first"))
            large = await producer.send("t", LARGE)
            await when(packer.begun)
            late = await producer.send("t", b"late")
            packer.let_go.set()
            assert ((await large).offset, (await late).offset) == (1, 2)

    with BrokerStub() as stub:
        asyncio.run(asyncio.wait_for(story(stub), LIMIT_S))
        assert values(stub, "t") == [b"first", LARGE, b"late"]


def test_closing_while_a_batch_is_packed(packer: Gate) -> None:
    """close does not wait for longer than it is told; the record fails, and was not sent; no task is left behind."""

    async def story(stub: BrokerStub) -> None:
        before = asyncio.all_tasks()
        producer = AsyncProducer(bootstrap_servers=stub.bootstrap, **SETTINGS)
        await (await producer.send("t", b"first"))
        large = await producer.send("t", LARGE)
        await when(packer.begun)
        with pytest.raises(FencepostError):
            await producer.close(0)
        failure = large.exception(0)
        assert isinstance(failure, DeliveryFatal)
        assert failure.persisted is Persisted.NO
        assert asyncio.all_tasks() == before

    with BrokerStub() as stub:
        asyncio.run(asyncio.wait_for(story(stub), LIMIT_S))
        assert values(stub, "t") == [b"first"]


def test_a_batch_whose_deadline_passes_while_it_is_packed(packer: Gate) -> None:
    """It fails with NO at its deadline, and what follows it is sent."""

    async def story(stub: BrokerStub) -> None:
        deadlines: dict[str, Any] = {"delivery_timeout_ms": 3_000, "request_timeout_ms": 1_000}
        async with AsyncProducer(bootstrap_servers=stub.bootstrap, **SETTINGS, **deadlines) as producer:
            await (await producer.send("t", b"first"))
            large = await producer.send("t", LARGE)
            await when(packer.begun)
            with pytest.raises(TimeoutError) as late:
                await large
            assert "persisted=NO" in str(late.value)
            assert (await (await producer.send("t", b"next"))).offset == 1
            packer.let_go.set()

    with BrokerStub() as stub:
        asyncio.run(asyncio.wait_for(story(stub), LIMIT_S))
        assert values(stub, "t") == [b"first", b"next"]


def test_a_packer_that_fails_ends_the_producer(packer: Gate) -> None:
    """No caller waits for the codec, so its error goes to the future of every record and to the next `send`."""
    packer.error = RuntimeError("no memory")
    packer.let_go.set()

    async def story(stub: BrokerStub) -> None:
        producer = AsyncProducer(bootstrap_servers=stub.bootstrap, **SETTINGS)
        future = await producer.send("t", LARGE)
        with pytest.raises(DeliveryFatal, match="no memory"):
            await future
        with pytest.raises(FencepostError, match="no memory"):
            await producer.send("t", b"x")
        await producer.close()

    with BrokerStub() as stub:
        asyncio.run(asyncio.wait_for(story(stub), LIMIT_S))


def test_a_producer_with_a_thread_of_its_own_packs_on_it(packer: Gate) -> None:
    """There is no loop of the caller's to hold up."""
    packer.let_go.set()
    with BrokerStub() as stub, quick(stub, compression_type="gzip") as producer:
        producer.send("t", LARGE).result(20)
    assert packer.threads == ["fencepost-sender-fencepost"]


@pytest.mark.parametrize(
    ("settings", "size"),
    [
        ({}, None),
        ({"compression_type": "gzip"}, 32 * 1024),
        ({"compression_type": "gzip", "compression_level": 1}, 32 * 1024),
        ({"compression_type": "gzip", "compression_level": 9}, 8 * 1024),
        ({"compression_type": "snappy"}, 512 * 1024),
        ({"compression_type": "lz4"}, 512 * 1024),
        ({"compression_type": "zstd"}, 256 * 1024),
        ({"compression_type": "zstd", "compression_level": 19}, 8 * 1024),
    ],
    ids=str,
)
def test_what_is_large_depends_on_the_codec(settings: dict[str, Any], size: int | None) -> None:
    """About a millisecond's work; less where a thorough level was chosen, never where nothing is packed."""
    assert aside_bytes(read_settings({"bootstrap_servers": "a:1", **settings})) == size
