"""What other threads may see in the middle of a call if Python has no GIL: between any two steps, and without the lock."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from fencepost.broker_stub import BrokerStub
from fencepost.producer import DeliveryError, FencepostError, Persisted, RecordRefused
from fencepost.producer.accumulator.accumulator import Accumulator, TopicQueues
from fencepost.producer.accumulator.batch import Batch, Shared
from fencepost.producer.bulk.append import Target
from fencepost.producer.bulk.bulk import BulkFuture
from fencepost.producer.core.events import Announce, Change, Heard
from fencepost.producer.errors import NoUsableBroker
from fencepost.producer.telemetry.spans import Telemetry
from fencepost.producer.topics import Topics
from fencepost.producer.wire import ErrorCode
from fencepost.txn.coordinator.state_machine import Event
from fencepost.txn.coordinator.transaction_spans import TransactionSpans
from tests.interleaved import at_each_step, at_every_step, needs_steps
from tests.producer.stub_helpers import quick

pytestmark = needs_steps


def place() -> tuple[Shared, Accumulator, TopicQueues]:
    """An accumulator with a topic of one partition."""
    shared = Shared(patience_s=1.0)
    accumulator = Accumulator(batch_size=1 << 14, buffer_memory=1 << 20, clock=lambda: 0.0, shared=shared)
    queues = TopicQueues("t", draw=lambda: 0, round_robin=False)
    queues.grow(1)
    queues.partitions = 1
    return shared, accumulator, queues


def failure() -> DeliveryError:
    return RecordRefused("because", topic="t", partition=0, persisted=Persisted.NO, code=87)


@pytest.mark.parametrize("failed", [False, True])
def test_a_future_that_is_done_has_its_outcome(failed: bool) -> None:
    """From the moment at which `done` is true, `result` and `exception` say what the broker said."""
    batch = Batch("t", 0, 0.0, Shared(patience_s=1.0))
    future = batch.append(1, None, b"v", None, None)
    seen: list[object] = []

    def look() -> None:
        if future.done():
            error = future.exception(0)
            seen.append(type(error) if error is not None else future.result(0).offset)

    at_every_step(partial(batch.settle, -1 if failed else 7, -1, failure() if failed else None), look)
    assert set(seen) == {RecordRefused if failed else 7}


def test_a_bulk_whose_batch_is_split_is_not_done() -> None:
    """`done` stays false while a batch is replaced by its pieces."""
    shared, accumulator, queues = place()
    bulk = BulkFuture(shared)
    assert Target(accumulator, queues, bulk, -1).append_rows([b"a", b"b"], 0, 2, 0, 1) == 2
    bulk._whole = True
    batch = accumulator.take(queues.queues[0])
    pieces = [Batch("t", 0, 0.0, shared) for _ in range(2)]
    for piece, value in zip(pieces, (b"a", b"b"), strict=True):
        piece.refill(1, None, value, None)
    done: list[bool] = []
    steps = at_every_step(lambda: accumulator.replace(batch, pieces), lambda: done.append(bulk.done()))
    assert done == [False] * steps
    for offset, piece in enumerate(pieces):
        piece.settle(offset, -1, None)
    assert bulk.result(0).acknowledged == 2


NEWS: dict[str, Announce] = {
    "refused": Announce(Heard("t", Change.REFUSED, 0, ErrorCode.TOPIC_AUTHORIZATION_FAILED)),
    "unheard": Announce(Heard("t", Change.UNHEARD, 0), failure=NoUsableBroker("no broker can be used")),
    "missing": Announce(Heard("t", Change.MISSING, 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)),
}


@pytest.mark.parametrize("news", NEWS)
def test_news_of_a_topic_that_a_caller_looks_for(news: str) -> None:
    """A caller that looks while the topic appears gets the topic, or what was known before it. Nothing else is raised."""

    def attempt() -> tuple[Callable[[], object], Callable[[], object]]:
        _, accumulator, queues = place()
        topics = Topics(accumulator, lambda name: queues, 1_000.0)
        topics.announce(NEWS[news])

        def look() -> None:
            with suppress(FencepostError):
                topics.look("t", -1)
            topics.unavailable("t", -1, 1.0, "no answer")

        return look, lambda: topics.announce(Announce(Heard("t", Change.SEEN, 1)))

    assert at_each_step(attempt) > 20


def test_a_close_lets_no_record_in() -> None:
    """Once `close` has begun to refuse records, each step of it refuses them."""
    with BrokerStub() as stub, quick(stub) as producer:
        refused: list[bool] = []
        at_every_step(producer._refuse_records, lambda: refused.append(producer._accumulator.refusal is not None))
        assert refused == sorted(refused)
        assert producer._accumulator.refusal is not None


def test_a_send_whose_transaction_ends() -> None:
    """The span of a send links to the transaction or to nothing, also if the transaction ends meanwhile."""
    pytest.importorskip("opentelemetry")
    linked: set[bool] = set()

    def attempt() -> tuple[Callable[[], object], Callable[[], object]]:
        telemetry = Telemetry("client")
        spans = TransactionSpans(telemetry, "tx")
        spans.open.sending = spans.begin()
        tracer = telemetry._tracer

        def start_span(*named: object, links: list[Any], **more: Any) -> object:
            linked.update(link.context is not None for link in links)
            return tracer.start_span(*named, **more)

        telemetry._tracer = SimpleNamespace(start_span=start_span)
        return partial(telemetry.send, "t", {}), partial(spans.ended, Event.COMMIT)

    assert at_each_step(attempt) > 20
    assert linked == {True}
