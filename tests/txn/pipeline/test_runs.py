"""A pipeline and a job have one run at a time, in the process that opened them."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Callable

import pytest
from confluent_kafka import Message

from fencepost.broker_stub import BrokerStub
from fencepost.producer.errors import ProducerForked
from fencepost.txn import AsyncPipeline, IllegalCall, IteratorSource, Job, Pipeline
from tests.txn.pipeline.helpers import LIMIT_S, SINK, bill, invoices, order, results, settings_for, stub

__all__ = ["stub"]

pytestmark = pytest.mark.timeout(120)

N = 60


class Gate:
    """A transform that waits at its first message until the test lets it go on."""

    def __init__(self) -> None:
        self.reached = threading.Event()
        self.opened = threading.Event()

    def __call__(self, message: Message) -> bytes:
        self.reached.set()
        assert self.opened.wait(LIMIT_S)
        return bill(message)


@pytest.mark.parametrize("call", [lambda pipeline: pipeline.run(), lambda pipeline: pipeline.close()], ids=["run", "close"])
def test_a_call_while_it_is_running(stub: BrokerStub, call: Callable[[Pipeline], object]) -> None:
    """It is refused, and the run that is under way writes each result once."""
    gate = Gate()
    pipeline = Pipeline(**settings_for(stub.bootstrap, transform=gate))
    order(stub.bootstrap, range(N))
    running = threading.Thread(target=lambda: pipeline.run_until_idle(timeout=LIMIT_S))
    running.start()
    assert gate.reached.wait(LIMIT_S)
    with pytest.raises(IllegalCall, match=r"(run|close): this Pipeline is running. Call stop\(\) and wait until `run` has returned"):
        call(pipeline)
    gate.opened.set()
    running.join(LIMIT_S)
    assert results(stub.bootstrap) == invoices(range(N))
    pipeline.close()


def test_two_tasks_of_one_pipeline(stub: BrokerStub) -> None:
    """The second task is refused. Both in one transaction would commit results twice."""

    async def waiting(message: Message) -> bytes:
        await asyncio.sleep(0.001)
        return bill(message)

    async def story() -> list[object]:
        pipeline = AsyncPipeline(**settings_for(stub.bootstrap, transform=waiting))
        runs = [pipeline.run_until_idle(timeout=LIMIT_S) for _ in range(2)]
        return list(await asyncio.gather(*runs, return_exceptions=True))

    order(stub.bootstrap, range(N))
    first, second = asyncio.run(story())
    assert not isinstance(first, BaseException)
    assert isinstance(second, IllegalCall)
    assert results(stub.bootstrap) == invoices(range(N))


def test_two_runs_of_one_job(stub: BrokerStub) -> None:
    """The second run is refused, and the first one writes each record once."""
    gate = Gate()
    source = IteratorSource(lambda position: ((b"%d" % number, number + 1) for number in range(position or 0, N)))

    def waiting(record: bytes) -> bytes:
        gate.reached.set()
        assert gate.opened.wait(LIMIT_S)
        return record

    job = Job("job", source, bootstrap_servers=stub.bootstrap, topic=SINK, transform=waiting)
    running = threading.Thread(target=job.run)
    running.start()
    assert gate.reached.wait(LIMIT_S)
    with pytest.raises(IllegalCall, match="run: this Job is running"):
        job.run()
    gate.opened.set()
    running.join(LIMIT_S)
    assert results(stub.bootstrap) == sorted(b"%d" % number for number in range(N))


def test_a_block_that_ends_before_the_run(stub: BrokerStub) -> None:
    """The run stops, and closes the connections. The error says what the program forgot."""
    gate = Gate()
    order(stub.bootstrap, range(N))
    before = set(threading.enumerate())
    with pytest.raises(IllegalCall, match="block of this Pipeline ended while it was running"):  # noqa: SIM117
        with Pipeline(**settings_for(stub.bootstrap, transform=gate)) as pipeline:
            running = threading.Thread(target=pipeline.run)
            running.start()
            assert gate.reached.wait(LIMIT_S)
    gate.opened.set()
    running.join(LIMIT_S)
    assert not running.is_alive()
    assert set(threading.enumerate()) <= before


def test_a_forked_child(stub: BrokerStub) -> None:
    """The child has no threads and uses no connections of the parent: its calls say so at once, and the parent goes on."""
    order(stub.bootstrap, range(N))
    with Pipeline(**settings_for(stub.bootstrap, transform=bill, batch_size=10)) as pipeline:
        pipeline.run(timeout=LIMIT_S, max_batches=1)
        child = os.fork()
        if child == 0:
            refused = 0
            for call in (pipeline.run, pipeline.run, pipeline.close):
                try:
                    call()
                except ProducerForked:
                    refused += 1
            pipeline.__exit__(None, None, None)
            os._exit(refused)
        ends = time.monotonic() + LIMIT_S
        ended = (0, 0)
        while ended[0] == 0 and time.monotonic() < ends:
            ended = os.waitpid(child, os.WNOHANG)
            time.sleep(0.01)
        if ended[0] == 0:
            os.kill(child, 9)
            os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(ended[1]) == 3
        pipeline.run_until_idle(timeout=LIMIT_S)
    assert results(stub.bootstrap) == invoices(range(N))
