"""10: a trace through Kafka. An interceptor begins a span for each record and writes its context into a `traceparent` header (W3C). A
consumer continues the same trace. The acknowledgement ends the span.

It needs opentelemetry-sdk. A service sets up its tracer once, with an exporter that sends the spans to its collector.
"""

from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import Span, SpanKind, Status, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from fencepost import BrokerStub, Producer, ProducerRecord, RecordMetadata

exporter = InMemorySpanExporter()
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(exporter))
tracer = provider.get_tracer("shop")
propagator = TraceContextTextMapPropagator()


class Tracing:
    """A span from `send` to the acknowledgement. `on_acknowledgement` finds the span by its header."""

    def __init__(self) -> None:
        self._open: dict[bytes, Span] = {}

    def on_send(self, record: ProducerRecord) -> None:
        attributes = {"messaging.system": "kafka", "messaging.operation.type": "send", "messaging.destination.name": record.topic}
        span = tracer.start_span(f"send {record.topic}", kind=SpanKind.PRODUCER, attributes=attributes)
        carrier: dict[str, str] = {}
        propagator.inject(carrier, trace.set_span_in_context(span))
        written = [(name, text.encode()) for name, text in carrier.items()]
        record.headers += written
        self._open[dict(written)["traceparent"]] = span

    def on_acknowledgement(self, metadata: RecordMetadata, error: Exception | None, headers: list[tuple[str, bytes | None]]) -> None:
        span = self._open.pop(dict(headers)["traceparent"] or b"")
        if error is not None:
            span.set_status(Status(StatusCode.ERROR, str(error)))
        else:
            span.set_attributes({"messaging.destination.partition.id": str(metadata.partition), "messaging.kafka.offset": metadata.offset})
        span.end()


with BrokerStub() as broker, Producer(bootstrap_servers=broker.bootstrap, interceptors=[Tracing()]) as producer:
    with tracer.start_as_current_span("order 1 is paid") as paying:
        producer.send("payments", b"25 EUR", key=b"order-1")
    producer.flush(timeout=30)

    (record,) = broker.records("payments", 0)
    arrived = {name: (value or b"").decode() for name, value in record.headers}
    print(f"traceparent: {arrived['traceparent']}")

    # The consumer's part: its span belongs to the same trace.
    with tracer.start_as_current_span("receive payments", context=propagator.extract(arrived), kind=SpanKind.CONSUMER) as receiving:
        assert receiving.get_span_context().trace_id == paying.get_span_context().trace_id

for span in exporter.get_finished_spans():
    print(f"{span.name:20} {dict(span.attributes or {})}")
assert [span.name for span in exporter.get_finished_spans()] == ["order 1 is paid", "send payments", "receive payments"]
