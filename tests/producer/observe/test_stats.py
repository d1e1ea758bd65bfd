"""Statistics: that the numbers are true, that the callback comes and is contained, and that Prometheus can read them."""

from __future__ import annotations

import asyncio
import math
import threading
from typing import Any

import msgspec
import pytest
from prometheus_client.parser import text_string_to_metric_families

from fencepost.broker_stub import BrokerStub
from fencepost.producer import AsyncProducer, ConfigError, Misuse, Producer, ProducerStats, TopicStats, prometheus_text
from fencepost.producer.core.metrics import SAMPLE_MS, Samples
from fencepost.producer.observe.prometheus import HELP, PASSED_OVER, PREFIX
from fencepost.producer.observe.stats import BrokerStats
from fencepost.producer.wire import Api, ErrorCode
from tests.producer.core.harness import TOPIC, CoreHarness
from tests.producer.stub_helpers import ONE_EACH, QUICK, quick, until


def test_every_record_is_counted() -> None:
    """Acknowledged and failed ones once each, sent ones each time; by topic, and summed up."""
    with BrokerStub() as stub, quick(stub, **ONE_EACH) as producer:
        for n in range(10):
            producer.send("a", b"x" * 100 * n).result(20)
        stub.faults.on(Api.PRODUCE).before().error(ErrorCode.NOT_ENOUGH_REPLICAS).times(3)
        producer.send("b", b"retried").result(20)
        stub.faults.on(Api.PRODUCE).before().error(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        assert producer.send("b", b"refused").exception(20) is not None
        stats = producer.stats()
    a, b = stats.topics["a"], stats.topics["b"]
    assert (a.record_send_total, a.record_retry_total, a.record_acknowledged_total, a.record_error_total) == (10, 0, 10, 0)
    assert (b.record_send_total, b.record_retry_total, b.record_acknowledged_total, b.record_error_total) == (5, 3, 1, 1)
    assert (stats.record_send_total, stats.record_retry_total) == (15, 3)
    assert (stats.record_acknowledged_total, stats.record_error_total) == (11, 1)
    assert stats.byte_total == a.byte_total + b.byte_total > 4_500
    assert stats.batch_total == 12
    assert stats.client_id == "fencepost"


def test_bulks_are_counted_like_single_records() -> None:
    """send_many counts its rows."""
    with BrokerStub() as stub, quick(stub) as producer:
        producer.send_many("t", [b"x"] * 5_000).result(20)
        assert producer.stats().topics["t"].record_acknowledged_total == 5_000


def test_sizes_times_and_requests() -> None:
    """By the harness's clock: how long a batch waited, how long its answer took, how many records and bytes a request had."""
    harness = CoreHarness(batch_size=10_000, linger_ms=30.0).introduce()
    metrics, begun = harness.core.metrics, harness.now
    metrics.queue_time = Samples()
    metrics.latency = Samples()
    harness.send(b"x", b"y", b"z")
    harness.advance(30)
    (flight,) = harness.produces()
    harness.advance(70)
    harness.ack(flight, offset=1)
    assert metrics.queue_time.maximum(harness.now) == 30
    assert metrics.latency.maximum(harness.now) == harness.now - begun - 30 == 70
    assert metrics.throttle.maximum(harness.now) == 0
    assert metrics.request_records.maximum(harness.now) == 3
    assert metrics.request_size.maximum(harness.now) == metrics.batch_size.maximum(harness.now) == len(flight.blob)
    assert metrics.topics[TOPIC].sent == 4
    assert metrics.brokers[1].answers == 2


def test_averages_are_of_the_last_minute() -> None:
    """Two samples of 30 s: what is older than the one before the present one is forgotten, and where nothing was measured there is None."""
    samples = Samples()
    assert (samples.average(5.0), samples.maximum(5.0)) == (None, None)
    samples.add(10, 0.0)
    samples.add(30, 1.0)
    assert (samples.average(1.0), samples.maximum(1.0)) == (20, 30)
    samples.add(2, SAMPLE_MS)
    assert (samples.average(SAMPLE_MS), samples.maximum(SAMPLE_MS)) == (14, 30)
    samples.add(4, 2 * SAMPLE_MS)
    assert (samples.average(2 * SAMPLE_MS), samples.maximum(2 * SAMPLE_MS)) == (3, 4)
    samples.add(6, 10 * SAMPLE_MS)
    assert samples.average(10 * SAMPLE_MS) == 6
    assert samples.average(20 * SAMPLE_MS) is None
    for value in (0, -5):
        low = Samples()
        low.add(value, 0.0)
        assert (low.average(0.0), low.maximum(0.0)) == (value, value), "measured, and not more"


def test_buffer_and_flight_while_records_wait() -> None:
    """What is on its way takes its bytes from the buffer and is in flight; afterwards everything is given back."""
    with BrokerStub() as stub, quick(stub, buffer_memory=100_000) as producer:
        producer.send("t", b"hello").result(20)
        until(lambda: producer.stats().buffer_available_bytes == 100_000, "the buffer is free")
        idle = producer.stats()
        assert (idle.buffer_total_bytes, idle.requests_in_flight) == (100_000, 0)
        held = stub.faults.on(Api.PRODUCE).before().hold()
        future = producer.send("t", b"x" * 5_000)
        held.wait(1, 20)
        busy = producer.stats()
        assert 90_000 < busy.buffer_available_bytes < 95_000
        assert busy.requests_in_flight == busy.brokers[1].requests_in_flight == 1
        held.release()
        future.result(20)
        until(lambda: producer.stats().buffer_available_bytes == 100_000, "the buffer is free")


def test_connections() -> None:
    """Made, up and lost."""
    with BrokerStub() as stub, quick(stub) as producer:
        producer.send("t", b"x").result(20)
        before = producer.stats()
        assert before.connection_count == before.connection_creation_total - before.connection_close_total > 0
        assert before.brokers[1].connected
        assert not before.brokers[1].connect_failed
        assert before.brokers[1].address == stub.bootstrap
        assert before.metadata_age is not None
        stub.cut_connections()
        producer.send("t", b"x").result(20)
        assert producer.stats().connection_close_total > before.connection_close_total
        stub.stop_broker(1)
        until(lambda: producer.stats().brokers[1].connect_failed, "a connection has been refused")
        assert not producer.stats().brokers[1].connected


def test_before_the_first_record_and_after_the_end() -> None:
    """A producer that has done nothing has zeros and Nones; a closed one its last numbers; an AsyncProducer can be asked without a loop."""
    fresh = AsyncProducer(bootstrap_servers="nowhere:1").stats()
    assert (fresh.record_send_total, fresh.batch_size_avg, fresh.topics, fresh.brokers, fresh.metadata_age) == (0, None, {}, {}, None)
    with BrokerStub() as stub:
        with quick(stub) as producer:
            producer.send("t", b"x").result(20)
        assert producer.stats().record_acknowledged_total == 1


def test_the_names_are_kafkas() -> None:
    """Where Kafka's producer has a metric of the meaning, the field has its name."""
    kafkas = {
        "record-send-total", "record-retry-total", "record-error-total", "batch-size-avg", "batch-size-max", "batch-split-total",
        "compression-rate-avg", "record-size-avg", "records-per-request-avg", "record-queue-time-avg", "record-queue-time-max",
        "request-latency-avg", "request-latency-max", "produce-throttle-time-avg", "produce-throttle-time-max", "requests-in-flight",
        "request-size-avg", "request-size-max", "request-total", "buffer-total-bytes", "buffer-available-bytes", "waiting-threads",
        "connection-count", "connection-creation-total", "connection-close-total", "metadata-age",
    }  # fmt: skip
    assert {name.replace("-", "_") for name in kafkas} <= set(ProducerStats.__struct_fields__)


def test_the_callback_comes_on_the_sender_thread() -> None:
    """The sender thread calls `on_statistics` at intervals, with numbers that grow. A call in it that would wait is a Misuse."""
    seen: list[tuple[str, ProducerStats]] = []
    complaints: list[BaseException] = []

    def take(stats: ProducerStats) -> None:
        seen.append((threading.current_thread().name, stats))
        try:
            producer.flush()
        except Misuse as error:
            complaints.append(error)

    with BrokerStub() as stub, quick(stub, statistics_interval_ms=5, on_statistics=take) as producer:
        producer.send("t", b"x").result(20)
        until(lambda: len(seen) > 3 and seen[-1][1].record_acknowledged_total == 1, "the numbers have come")
    assert {name for name, _ in seen} == {"fencepost-sender-fencepost"}
    assert complaints
    assert not producer._sender.running, "no thread is left to call it"


def test_the_callback_is_contained(caplog: pytest.LogCaptureFixture) -> None:
    """What it raises is logged, it is called again, and records are delivered."""
    calls: list[int] = []

    def broken(stats: ProducerStats) -> None:
        calls.append(1)
        raise SystemExit("no")

    with BrokerStub() as stub, quick(stub, statistics_interval_ms=5, on_statistics=broken) as producer:
        until(lambda: len(calls) > 2, "it is called again")
        assert producer.send("t", b"x").result(20).offset == 0
    assert "on_statistics raised" in caplog.text


def test_on_asyncio_it_may_be_a_coroutine() -> None:
    """On the producer's loop; one round at a time, and none is left when the producer is closed."""
    rounds: list[str] = []

    async def story(stub: BrokerStub) -> None:
        before = asyncio.all_tasks()
        gone = asyncio.Event()
        endless = asyncio.Event()

        async def take(stats: ProducerStats) -> None:
            rounds.append("begun")
            try:
                if len(rounds) < 3:
                    await asyncio.sleep(0)
                    raise RuntimeError("contained")
                gone.set()
                await endless.wait()
            finally:
                rounds.append("ended")

        settings: dict[str, Any] = {**QUICK, "statistics_interval_ms": 5, "on_statistics": take}
        async with AsyncProducer(bootstrap_servers=stub.bootstrap, **settings) as producer:
            await (await producer.send("t", b"x"))
            await gone.wait()
        assert asyncio.all_tasks() == before

    with BrokerStub() as stub:
        asyncio.run(asyncio.wait_for(story(stub), 60))
    assert rounds == ["begun", "ended"] * 2


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"on_statistics": print}, "statistics_interval_ms is 0"),
        ({"statistics.interval.ms": 5_000}, "on_statistics is missing"),
        ({"on_statistics": 5, "statistics_interval_ms": 5}, "it must be a function that takes a ProducerStats"),
        ({"on_statistics": print, "statistics_interval_ms": -1}, "must be at least 0"),
    ],
)
def test_settings_that_mean_nothing_alone(settings: dict[str, Any], words: str) -> None:
    """A callback without an interval, or an interval without a callback, is an error that names the missing setting."""
    with pytest.raises(ConfigError, match=words):
        Producer(bootstrap_servers="a:1", **settings)


def test_prometheus_reads_the_text() -> None:
    """Prometheus' own parser finds every number of the snapshot, once, with its labels, counters as counters."""
    with BrokerStub() as stub, quick(stub, client_id='odd"\\\nname') as producer, quick(stub, client_id="other") as other:
        producer.send("t", b"x").result(20)
        other.send("t", b"y").result(20)
        both = [producer.stats(), other.stats()]
        found: dict[tuple[str, tuple[tuple[str, str], ...]], float] = {}
        kinds: dict[str, str] = {}
        for family in text_string_to_metric_families(prometheus_text(*both)):
            assert family.documentation
            for sample in family.samples:
                key = (sample.name, tuple(sorted(sample.labels.items())))
                assert key not in found
                found[key] = sample.value
                kinds[sample.name] = family.type
    for stats in both:
        client = ("client_id", stats.client_id)
        for name, value in msgspec.structs.asdict(stats).items():
            if name not in PASSED_OVER:
                assert found.get((f"{PREFIX}{name}", (client,))) == value
        topic = found[f"{PREFIX}topic_record_send_total", (client, ("topic", "t"))]
        assert topic == stats.topics["t"].record_send_total
        labels = (("address", stats.brokers[1].address), client, ("node_id", "1"))
        assert found[f"{PREFIX}broker_connected", labels] == 1
    assert kinds[f"{PREFIX}record_send_total"] == "counter"
    assert kinds[f"{PREFIX}buffer_available_bytes"] == "gauge"
    assert not any(math.isnan(value) for value in found.values())


def test_every_number_has_a_help_text() -> None:
    """A field that is added without one fails here, not at the first scrape."""
    fields = {name for kind in (ProducerStats, BrokerStats, TopicStats) for name in kind.__struct_fields__}
    assert fields - set(PASSED_OVER) == set(HELP)
