"""PushTelemetry (72), version 0.

Takes the metrics of a client: `stub.telemetry` has the newest pushes. One before the push interval is THROTTLING_QUOTA_EXCEEDED, unless it
is the client's last. A subscription id that is not the client's is UNKNOWN_SUBSCRIPTION_ID, an unknown codec UNSUPPORTED_COMPRESSION_TYPE,
more than telemetry.max.bytes TELEMETRY_TOO_LARGE, and metrics that cannot be decompressed INVALID_RECORD. A reserved instance id and a push
after the last one are INVALID_REQUEST.

Leaves out: a check that the metrics are OTLP, which in Kafka is the plugin's.
"""

from __future__ import annotations

from fencepost.broker_stub.handlers.telemetry_client import attributes_of
from fencepost.broker_stub.requests.call import Call
from fencepost.broker_stub.requests.router import handles
from fencepost.broker_stub.telemetry.pushes import TelemetryPush
from fencepost.producer.wire.messages.telemetry import PushTelemetryRequest, PushTelemetryResponse


@handles(PushTelemetryRequest, range(1))
def push_telemetry(call: Call, request: PushTelemetryRequest) -> PushTelemetryResponse:
    if call.error:
        return PushTelemetryResponse(error_code=call.error)
    now_ms = call.cluster.now_ms()
    code, metrics = call.telemetry.manager(call.broker.node_id).push(
        request.client_instance_id,
        attributes_of(call),
        now_ms,
        subscription_id=request.subscription_id,
        terminating=request.terminating,
        codec=request.compression_type,
        metrics=request.metrics,
    )
    if not code:
        push = TelemetryPush(
            call.broker.node_id,
            now_ms,
            request.client_instance_id,
            call.client_id,
            request.subscription_id,
            request.terminating,
            metrics,
        )
        call.telemetry.pushes.add(push)
    return PushTelemetryResponse(error_code=code)
