"""10: a trace through Kafka. With `telemetry=True` each send has a span of OpenTelemetry, and the record carries its context in a
`traceparent` header (W3C). A consumer continues the same trace. The transaction has a span of its own, to which the sends link. So has each
batch, which links to its sends.

It needs opentelemetry-sdk. A service sets up its tracer once, with an exporter that sends the spans to its collector.
"""

from opentelemetry import propagate, trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind

from fencepost import BrokerStub, TransactionalProducer

exporter = InMemorySpanExporter()
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(exporter))
trace.set_tracer_provider(provider)
tracer = trace.get_tracer("shop")

with BrokerStub() as broker:
    with (
        TransactionalProducer(bootstrap_servers=broker.bootstrap, transactional_id="shop-1", telemetry=True) as producer,
        tracer.start_as_current_span("order 1 is paid") as paying,
        producer.transaction() as tx,
    ):
        tx.send("payments", b"25 EUR", key=b"order-1", partition=0)

    (record,) = broker.records("payments", 0)
    arrived = {name: (value or b"").decode() for name, value in record.headers}
    print(f"traceparent: {arrived['traceparent']}")

    # The consumer's part: its span belongs to the same trace.
    with tracer.start_as_current_span("receive payments", context=propagate.extract(arrived), kind=SpanKind.CONSUMER) as receiving:
        assert receiving.get_span_context().trace_id == paying.get_span_context().trace_id

for span in exporter.get_finished_spans():
    print(f"{span.name:20} {dict(span.attributes or {})}")
names = ["produce payments", "send payments", "transaction shop-1", "order 1 is paid", "receive payments"]
assert [span.name for span in exporter.get_finished_spans()] == names
