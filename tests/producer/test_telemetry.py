"""telemetry=True: spans, headers and metrics of OpenTelemetry, as an SDK gets them."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any, Final

import pytest
from opentelemetry import metrics, propagate, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from fencepost.broker_stub import BrokerStub
from fencepost.producer import AsyncProducer, Producer, ProducerRecord, RecordTooLarge
from fencepost.producer.wire import Api, ErrorCode
from fencepost.txn import AsyncTransactionalProducer, IllegalCall, TransactionalProducer

LIMIT_S: Final = 60


class Seen:
    """What an SDK got since the test began."""

    def __init__(self) -> None:
        self.exporter = InMemorySpanExporter()
        self.reader = InMemoryMetricReader()
        self.tracers = TracerProvider()
        self.tracers.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.meters = MeterProvider([self.reader])

    @property
    def spans(self) -> list[ReadableSpan]:
        return [span for span in self.exporter.get_finished_spans() if not span.name.startswith("produce ")]

    @property
    def batches(self) -> list[ReadableSpan]:
        return [span for span in self.exporter.get_finished_spans() if span.name.startswith("produce ")]

    def points(self, name: str) -> list[Any]:
        found: Any = self.reader.get_metrics_data()
        return [
            point
            for resource in found.resource_metrics
            for scope in resource.scope_metrics
            for metric in scope.metrics
            if metric.name == name
            for point in metric.data.data_points
        ]


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> Iterator[Seen]:
    """The global providers can be set once in a process, so their getters are replaced."""
    found = Seen()
    monkeypatch.setattr(trace, "get_tracer", found.tracers.get_tracer)
    monkeypatch.setattr(metrics, "get_meter", found.meters.get_meter)
    yield found
    found.meters.shutdown()
    found.tracers.shutdown()


@pytest.fixture
def stub() -> Iterator[BrokerStub]:
    with BrokerStub(default_partitions=1) as found:
        yield found


def context_of(span: ReadableSpan) -> bytes:
    context = span.get_span_context()
    assert context is not None
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}".encode()


def test_a_send(seen: Seen, stub: BrokerStub) -> None:
    """A child of the caller's span, with the attributes of the conventions. The record has its context instead of an older one."""
    asking = seen.tracers.get_tracer("test").start_as_current_span("request")
    with asking, Producer(bootstrap_servers=stub.bootstrap, telemetry=True, client_id="shop") as producer:
        producer.send("orders", b"v", key=b"k", headers=[("a", b"1"), ("traceparent", b"old")]).result(20)
    (sent, request) = seen.spans
    assert (sent.name, sent.kind, sent.status.status_code) == ("send orders", SpanKind.PRODUCER, StatusCode.UNSET)
    assert sent.parent is not None
    assert sent.parent.span_id == (request.get_span_context() or sent.parent).span_id
    assert sent.attributes == {
        "messaging.system": "kafka",
        "messaging.client.id": "shop",
        "messaging.operation.name": "send",
        "messaging.operation.type": "send",
        "messaging.destination.name": "orders",
        "messaging.destination.partition.id": "0",
        "messaging.kafka.message.key": "k",
        "messaging.kafka.offset": 0,
    }
    (record,) = stub.records("orders", 0)
    assert list(record.headers) == [("a", b"1"), ("traceparent", context_of(sent))]
    (count,) = seen.points("messaging.client.sent.messages")
    assert (count.value, count.attributes["messaging.destination.name"]) == (1, "orders")
    (duration,) = seen.points("messaging.client.operation.duration")
    assert duration.count == 1


def test_a_send_that_fails(seen: Seen, stub: BrokerStub) -> None:
    """The span and the metrics have the error's class, whether the record was refused by the call or by a broker."""
    stub.faults.on(Api.PRODUCE).before().times(1).error(ErrorCode.INVALID_RECORD)
    with Producer(bootstrap_servers=stub.bootstrap, telemetry=True, max_request_size=1024) as producer:
        with pytest.raises(RecordTooLarge):
            producer.send("orders", bytes(2000))
        assert producer.send("orders", b"v").exception(20) is not None
    assert [(span.name, span.status.status_code, (span.attributes or {})["error.type"]) for span in seen.spans] == [
        ("send orders", StatusCode.ERROR, "RecordTooLarge"),
        ("send orders", StatusCode.ERROR, "RecordRefused"),
    ]
    assert {point.attributes["error.type"] for point in seen.points("messaging.client.sent.messages")} == {
        "RecordTooLarge",
        "RecordRefused",
    }


def test_many_at_once(seen: Seen, stub: BrokerStub) -> None:
    """One span for the call. Each row has its context, and the counter has each row."""
    with Producer(bootstrap_servers=stub.bootstrap, telemetry=True) as producer:
        assert producer.send_many("orders", [b"1", (b"k", b"2"), (b"k", b"3", [("a", b"x")])]).result(20).acknowledged == 3
        with pytest.raises(TypeError, match="row 1"):
            producer.send_many("orders", iter([b"4", 5]))
    good, bad = sorted(seen.spans, key=lambda span: "error.type" in (span.attributes or {}))  # a span ends a moment after its future
    assert (good.attributes or {})["messaging.batch.message_count"] == 3
    assert ((bad.attributes or {})["error.type"], (bad.attributes or {})["messaging.batch.message_count"]) == ("TypeError", 0)
    records = stub.records("orders", 0)
    assert [dict(record.headers)["traceparent"] for record in records] == [context_of(good)] * 3
    assert dict(records[2].headers)["a"] == b"x"
    assert sum(point.value for point in seen.points("messaging.client.sent.messages")) == 3


def test_many_of_which_some_fail(seen: Seen, stub: BrokerStub) -> None:
    """The counter tells acknowledged rows from failed ones; the span has the first failure."""
    stub.create_topic("orders", partitions=2)
    stub.faults.on(Api.PRODUCE).where(topic="orders", partition=1).before().times(1).error(ErrorCode.INVALID_RECORD)
    with Producer(bootstrap_servers=stub.bootstrap, telemetry=True) as producer:
        rows = [(None, b"%d" % n, None, None, n % 2) for n in range(3)]
        told = producer.send_many("orders", rows).result(20)
    assert (told.acknowledged, len(told.failures)) == (2, 1)
    counts = {point.attributes.get("error.type"): point.value for point in seen.points("messaging.client.sent.messages")}
    assert counts == {None: 2, "RecordRefused": 1}
    (span,) = seen.spans
    assert (span.attributes or {})["error.type"] == "RecordRefused"


def test_many_of_which_the_last_is_refused(seen: Seen, stub: BrokerStub) -> None:
    """The call raises, and the rows before it were accepted: the counter has them, as the statistics have."""

    async def story() -> None:
        async with AsyncProducer(bootstrap_servers=stub.bootstrap, telemetry=True) as producer:
            with pytest.raises(TypeError, match="row 5000"):
                await producer.send_many("orders", iter(rows))
            await producer.flush(20)

    rows: list[object] = [*([b"v"] * 5_000), 5]
    with Producer(bootstrap_servers=stub.bootstrap, telemetry=True) as producer:
        with pytest.raises(TypeError, match="row 5000"):
            producer.send_many("orders", iter(rows))
        producer.flush(20)
        assert producer.stats().record_acknowledged_total == 4_096
    asyncio.run(asyncio.wait_for(story(), LIMIT_S))
    assert sum(point.value for point in seen.points("messaging.client.sent.messages")) == 2 * 4_096
    assert [(span.attributes or {})["error.type"] for span in seen.spans] == ["TypeError"] * 2


def test_a_batch(seen: Seen, stub: BrokerStub) -> None:
    """Its span begins a trace of its own, with its first record, links to the span of each send in it, and has the outcome."""
    with Producer(bootstrap_servers=stub.bootstrap, telemetry=True, client_id="shop", linger_ms=5_000) as producer:
        producer.send("orders", b"first").result(20)
        began = time.time_ns()
        with seen.tracers.get_tracer("test").start_as_current_span("request"):
            producer.send("orders", b"second", on_delivery=lambda _: None)
        producer.send("orders", b"third")
        many = producer.send_many("orders", [b"fourth", b"fifth"])
        time.sleep(0.05)
        producer.flush(20)
        many.result(20)
        stub.faults.on(Api.PRODUCE).before().times(1).error(ErrorCode.INVALID_RECORD)
        assert producer.send("orders", b"refused").exception(20) is not None
    first, batch, refused = seen.batches
    assert (batch.name, batch.kind, batch.parent, batch.status.status_code) == ("produce orders", SpanKind.CLIENT, None, StatusCode.UNSET)
    assert batch.attributes == {
        "messaging.system": "kafka",
        "messaging.client.id": "shop",
        "messaging.operation.name": "produce",
        "messaging.operation.type": "send",
        "messaging.destination.name": "orders",
        "messaging.destination.partition.id": "0",
        "messaging.batch.message_count": 4,
        "messaging.kafka.offset": 1,
    }
    sends = [span for span in seen.spans if span.name == "send orders"]
    alone = {(span.attributes or {}).get("messaging.kafka.offset"): span.get_span_context() for span in sends}
    (together,) = [span.get_span_context() for span in sends if "messaging.batch.message_count" in (span.attributes or {})]
    assert [link.context for link in batch.links] == [alone[1], alone[2], together]
    assert began <= (batch.start_time or 0) <= (batch.end_time or 0) - 50_000_000
    assert [link.context for link in first.links] == [alone[0]]
    assert (refused.status.status_code, (refused.attributes or {})["error.type"]) == (StatusCode.ERROR, "RecordRefused")
    assert "messaging.kafka.offset" not in (refused.attributes or {})


def test_the_batches_of_asyncio(seen: Seen, stub: BrokerStub) -> None:
    """The same on a loop: no task's span becomes the parent of a batch's."""

    async def story() -> None:
        async with AsyncProducer(bootstrap_servers=stub.bootstrap, telemetry=True) as producer:
            with seen.tracers.get_tracer("test").start_as_current_span("request"):
                await (await producer.send("orders", b"v"))
                await (await producer.send_many("orders", [b"1", b"2"]))

    asyncio.run(asyncio.wait_for(story(), LIMIT_S))
    assert [(span.parent, (span.attributes or {})["messaging.batch.message_count"]) for span in seen.batches] == [(None, 1), (None, 2)]
    sends = [span for span in seen.spans if span.name == "send orders"]
    assert [[link.context for link in span.links] for span in seen.batches] == [[span.get_span_context()] for span in sends]


def test_a_batch_of_more_sends_than_a_span_has_links(seen: Seen, stub: BrokerStub) -> None:
    """It links to the first 128."""
    with Producer(bootstrap_servers=stub.bootstrap, telemetry=True, linger_ms=5_000) as producer:
        for number in range(150):
            producer.send("orders", b"%d" % number)
        producer.flush(20)
    (batch,) = seen.batches
    assert ((batch.attributes or {})["messaging.batch.message_count"], len(batch.links)) == (150, 128)


def test_a_tracer_that_fails(seen: Seen, stub: BrokerStub, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """The batch has no span, and its records their outcome."""
    with Producer(bootstrap_servers=stub.bootstrap, telemetry=True) as producer:
        monkeypatch.delattr(trace, "INVALID_SPAN")
        assert producer.send("orders", b"v").result(20).offset == 0
    assert seen.batches == []
    assert "no span for a batch of topic orders" in caplog.text


class Broken(SpanProcessor):
    """Raises at the begin or at the end of spans. What has begun before that is not touched."""

    at: str | None = None

    def on_start(self, span: object, parent_context: object = None) -> None:
        self._raise("start")

    def on_end(self, span: ReadableSpan) -> None:
        self._raise("end")

    def _raise(self, moment: str) -> None:
        if self.at == moment:
            raise RuntimeError(f"broken at the {moment}")


@pytest.mark.parametrize("at", ["start", "end"])
def test_a_processor_that_raises_changes_no_outcome(seen: Seen, stub: BrokerStub, caplog: pytest.LogCaptureFixture, at: str) -> None:
    """Records are delivered, callbacks and interceptors run, a refused record has its own error, and a committed transaction is no failure.
    The token of a prepared one is returned."""
    broken = Broken()
    seen.tracers.add_span_processor(broken)
    told: list[object] = []

    class Audit:
        def on_acknowledgement(self, metadata: object, error: Exception | None) -> None:
            told.append(type(error))

    with Producer(bootstrap_servers=stub.bootstrap, telemetry=True, interceptors=[Audit()]) as producer:
        broken.at = at
        assert producer.send("orders", b"1", on_delivery=lambda future: told.append(future.result().offset)).result(20).offset == 0
        producer.flush(20)
        assert producer.send_many("orders", [b"2", b"3"]).result(20).acknowledged == 2
        with pytest.raises(RecordTooLarge):
            producer.send("orders", bytes(2_000_000))
    assert told == [type(None), 0, RecordTooLarge]
    with TransactionalProducer(bootstrap_servers=stub.bootstrap, transactional_id="t", telemetry=True) as transactional:
        with transactional.transaction() as tx:
            tx.send("orders", b"4")
        tx = transactional.begin()
        assert tx.prepare().transactional_id == "t"
        tx.commit()
    assert [record.value for record in stub.records("orders", 0)] == [b"1", b"2", b"3", b"4"]
    assert f"broken at the {at}" in caplog.text


def test_a_propagator_that_raises(seen: Seen, stub: BrokerStub, monkeypatch: pytest.MonkeyPatch) -> None:
    """The record keeps the headers that the program gave."""

    def inject(*arguments: object) -> None:
        raise RuntimeError("no context")

    monkeypatch.setattr(propagate, "inject", inject)
    with Producer(bootstrap_servers=stub.bootstrap, telemetry=True) as producer:
        producer.send("orders", b"1", headers=[("a", b"1")]).result(20)
    assert stub.records("orders", 0)[0].headers == (("a", b"1"),)


def test_headers_that_are_none(seen: Seen, stub: BrokerStub) -> None:
    """They are refused in the same words as without spans, and a record of the program's own class keeps its fields."""

    class Own(ProducerRecord, kw_only=True):
        note: str = ""

    def change(record: ProducerRecord) -> ProducerRecord:
        return Own(topic=record.topic, value=record.value, headers=record.headers)

    with Producer(bootstrap_servers=stub.bootstrap, telemetry=True) as producer:
        for wrong in (None, (), "a", 5):
            with pytest.raises(TypeError, match=r"headers must be \(str, bytes or None\) pairs"):
                producer.send("orders", b"1", headers=[wrong])  # type: ignore[list-item]  # the point of the test
        with pytest.raises(TypeError, match="row 1"):
            producer.send_many("orders", [b"1", (None, b"2", 5)])
    with Producer(bootstrap_servers=stub.bootstrap, telemetry=True, interceptors=[change]) as producer:
        assert producer.send("orders", b"1").result(20).offset == 0


def test_beside_interceptors_and_serializers(seen: Seen, stub: BrokerStub) -> None:
    """The program's own interceptors come first, and see no header of the span."""
    shown: list[list[tuple[str, bytes | None]]] = []

    def note(record: ProducerRecord) -> None:
        shown.append(list(record.headers))
        record.topic = "elsewhere" if record.value == {"n": 1} else record.topic

    with Producer(bootstrap_servers=stub.bootstrap, telemetry=True, interceptors=[note], value_serializer="json") as producer:
        producer.send("orders", {"n": 1}).result(20)
        producer.send_many("orders", [{"n": 2}, (b"k", {"n": 3})]).result(20)
    assert shown == [[], [], []]
    assert [span.name for span in seen.spans] == ["send elsewhere", "send orders"]
    assert [record.value for record in stub.records("orders", 0)] == [b'{"n":2}', b'{"n":3}']


def test_a_transaction(seen: Seen, stub: BrokerStub) -> None:
    """One span from begin to end, with its outcome. Sends link to it."""
    with TransactionalProducer(bootstrap_servers=stub.bootstrap, transactional_id="t", telemetry=True) as producer:
        with producer.transaction() as tx:
            tx.send("orders", b"1")
        with pytest.raises(KeyError), producer.transaction() as tx:
            tx.send("orders", b"2").result(20)
            raise KeyError
        producer.begin()
        producer.prepare()
        producer.abort()
    check_transactions(seen)


def test_an_asyncio_transaction(seen: Seen, stub: BrokerStub) -> None:
    """The same."""

    async def story() -> None:
        async with AsyncTransactionalProducer(bootstrap_servers=stub.bootstrap, transactional_id="t", telemetry=True) as producer:
            async with producer.transaction() as tx:
                await tx.send("orders", b"1")
            with pytest.raises(KeyError):
                async with producer.transaction() as tx:
                    await (await tx.send("orders", b"2"))
                    raise KeyError
            await producer.begin()
            await producer.prepare()
            await producer.abort()

    asyncio.run(asyncio.wait_for(story(), LIMIT_S))
    check_transactions(seen)


def check_transactions(seen: Seen) -> None:
    transactions = [span for span in seen.spans if span.name == "transaction t"]
    sends = [span for span in seen.spans if span.name == "send orders"]
    outcomes = [(span.attributes or {})["messaging.kafka.transaction.outcome"] for span in transactions]
    assert outcomes == ["committed", "aborted", "prepared"]
    linked = [link.context.span_id for span in sends for link in span.links]
    assert linked == [span.get_span_context().span_id for span in transactions[:2]]  # type: ignore[union-attr]


def outcomes(seen: Seen) -> list[object]:
    return [(span.attributes or {})["messaging.kafka.transaction.outcome"] for span in seen.spans if span.name == "transaction t"]


def test_transactions_that_begin_at_the_same_time(seen: Seen, stub: BrokerStub) -> None:
    """One of them has the producer: its span says that it was committed, and its send links to it. The others have their error."""

    async def story() -> None:
        async with AsyncTransactionalProducer(bootstrap_servers=stub.bootstrap, transactional_id="t", telemetry=True) as producer:

            async def write() -> None:
                async with producer.transaction() as tx:
                    await tx.send("orders", b"1")

            told = await asyncio.gather(*[write() for _ in range(4)], return_exceptions=True)
            assert sum(isinstance(each, IllegalCall) for each in told) == 3

    asyncio.run(asyncio.wait_for(story(), LIMIT_S))
    assert sorted(map(str, outcomes(seen))) == ["committed", "unknown", "unknown", "unknown"]
    (send,) = [span for span in seen.spans if span.name == "send orders"]
    (whole,) = [span for span in seen.spans if (span.attributes or {}).get("messaging.kafka.transaction.outcome") == "committed"]
    assert [link.context for link in send.links] == [whole.get_span_context()]
    errors = [(span.attributes or {}).get("error.type") for span in seen.spans if span.name == "transaction t"]
    assert errors.count("IllegalCall") == 3


def test_a_producer_that_is_closed_in_a_transaction(seen: Seen, stub: BrokerStub) -> None:
    """`close` aborts it, and the span says so."""
    with TransactionalProducer(bootstrap_servers=stub.bootstrap, transactional_id="t", telemetry=True) as producer:
        producer.begin().send("orders", b"1")
    assert outcomes(seen) == ["aborted"]


def test_a_transaction_that_begins_before_the_last_commit_returns(seen: Seen, stub: BrokerStub) -> None:
    """Another task begins it as soon as the coordinator has answered. Each span has its own outcome."""

    async def story() -> None:
        async with AsyncTransactionalProducer(bootstrap_servers=stub.bootstrap, transactional_id="t", telemetry=True) as producer:
            last = await producer.begin()
            await last.send("orders", b"1")
            committing = asyncio.create_task(last.commit())
            newer = None
            while newer is None:
                try:
                    newer = await producer.begin()
                except IllegalCall:
                    await asyncio.sleep(0)
            await committing
            assert outcomes(seen) == ["committed"]
            await newer.send("orders", b"2")
            await newer.abort()

    asyncio.run(asyncio.wait_for(story(), LIMIT_S))
    assert outcomes(seen) == ["committed", "aborted"]


def test_a_commit_that_goes_on_without_its_caller(seen: Seen, stub: BrokerStub) -> None:
    """Its span ends with the commit, as committed. `close` ends one whose outcome is not heard any more."""

    async def story() -> None:
        async with AsyncTransactionalProducer(bootstrap_servers=stub.bootstrap, transactional_id="t", telemetry=True) as producer:
            tx = await producer.begin()
            await tx.send("orders", b"1")
            held = stub.faults.on(Api.END_TXN).hold()
            committing = asyncio.create_task(tx.commit())
            await asyncio.to_thread(held.wait, 1)
            committing.cancel()
            with pytest.raises(asyncio.CancelledError):
                await committing
            assert outcomes(seen) == []
            held.release()
            while not outcomes(seen):
                await asyncio.sleep(0.001)
            stub.faults.on(Api.END_TXN).forever().drop()
            tx = await producer.begin()
            await tx.send("orders", b"2")
            await producer.close(0.5)

    asyncio.run(asyncio.wait_for(story(), LIMIT_S))
    assert outcomes(seen) == ["committed", "unknown"]


def test_on_asyncio(seen: Seen, stub: BrokerStub) -> None:
    """A send, many at once, and a send that is cancelled while it waits: each span ends."""

    async def story() -> None:
        async with AsyncProducer(bootstrap_servers=stub.bootstrap, telemetry=True, allow_auto_create_topics=False) as producer:
            stub.create_topic("orders", partitions=1)
            await (await producer.send("orders", b"1"))
            await (await producer.send_many("orders", [b"2", b"3"]))
            waiting = asyncio.create_task(producer.send("missing", b"4"))
            await asyncio.sleep(0.05)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting

    asyncio.run(asyncio.wait_for(story(), LIMIT_S))
    assert [(span.name, (span.attributes or {}).get("error.type")) for span in seen.spans] == [
        ("send orders", None),
        ("send orders", None),
        ("send missing", "CancelledError"),
    ]
    one, many, _ = seen.spans
    contexts = [dict(record.headers)["traceparent"] for record in stub.records("orders", 0)]
    assert contexts == [context_of(one), context_of(many), context_of(many)]


POOL_WITHOUT: Final = """
import sys
sys.modules["opentelemetry"] = None
from fencepost import ConfigError, TransactionalPool
try:
    TransactionalPool(bootstrap_servers="localhost:1", transactional_id_prefix="p", telemetry=True)
except ConfigError as error:
    print(error)
"""
WITHOUT: Final = """
import sys
sys.modules["opentelemetry"] = None
from fencepost import ConfigError, Producer
Producer(bootstrap_servers="a:1").close()
try:
    Producer(bootstrap_servers="a:1", telemetry=True)
except ConfigError as error:
    print(error)
"""
API_ALONE: Final = """
from fencepost import BrokerStub, Producer
with BrokerStub() as stub, Producer(bootstrap_servers=stub.bootstrap, telemetry=True) as producer:
    future = producer.send("t", b"x", partition=0)
    print(future.result(20).offset, [list(record.headers) for record in stub.records("t", 0)])
"""


@pytest.mark.parametrize(
    ("program", "printed"),
    [
        (POOL_WITHOUT, "telemetry=True needs opentelemetry-api: install fencepost's extra `telemetry`\n"),
        (WITHOUT, "telemetry=True needs opentelemetry-api: install fencepost's extra `telemetry`\n"),
        (API_ALONE, "0 [[]]\n"),
    ],
    ids=["a pool without the API", "without the API", "without an SDK"],
)
def test_without_opentelemetry(program: str, printed: str) -> None:
    """Without the API the setting is refused. Without an SDK nothing is made, and no header is sent."""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout, done.returncode) == (printed, 0), done.stderr


def test_nothing_is_imported_without_the_setting() -> None:
    """OpenTelemetry is not loaded by a producer that does not want it."""
    program = "import sys; from fencepost import Producer; Producer(bootstrap_servers='a:1').close(); print('opentelemetry' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "False\n"
