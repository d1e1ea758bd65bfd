"""GetTelemetrySubscriptions (71), version 0.

The metrics that the broker wants of the client, by the subscriptions that match it (KIP-714), and an instance id for a client that has
none. A client that asks again within the push interval is THROTTLING_QUOTA_EXCEEDED, unless a subscription has changed, or its last push
had an unknown subscription or codec.

ApiVersions names it with `BrokerStub(telemetry=True)`, as Kafka's brokers do if a plugin receives metrics. Then clients that support
KIP-714 ask by themselves. Other requests are answered all the same, as by Kafka.
"""

from __future__ import annotations

from fencepost.broker_stub.handlers.telemetry_client import attributes_of
from fencepost.broker_stub.requests.call import Call
from fencepost.broker_stub.requests.router import handles
from fencepost.broker_stub.telemetry.client_metrics_manager import ACCEPTED_CODECS
from fencepost.producer.wire.messages.telemetry import GetTelemetrySubscriptionsRequest, GetTelemetrySubscriptionsResponse


@handles(GetTelemetrySubscriptionsRequest, range(1))
def get_telemetry_subscriptions(call: Call, request: GetTelemetrySubscriptionsRequest) -> GetTelemetrySubscriptionsResponse:
    if call.error:
        return GetTelemetrySubscriptionsResponse(error_code=call.error)
    manager = call.telemetry.manager(call.broker.node_id)
    code, instance_id, subscription = manager.ask(request.client_instance_id, attributes_of(call), call.cluster.now_ms())
    if code:
        return GetTelemetrySubscriptionsResponse(error_code=code)
    return GetTelemetrySubscriptionsResponse(
        client_instance_id=instance_id,
        subscription_id=subscription.id,
        accepted_compression_types=[*ACCEPTED_CODECS],
        push_interval_ms=subscription.push_interval_ms,
        telemetry_max_bytes=manager.bytes_max,
        delta_temporality=True,
        requested_metrics=[*subscription.metrics],
    )
