"""GetTelemetrySubscriptions and PushTelemetry: clients send their metrics to a broker (KIP-714)."""

from __future__ import annotations

from uuid import UUID

from fencepost.producer.wire.codes import Api
from fencepost.producer.wire.message import Message
from fencepost.producer.wire.schema.fields import ZERO_UUID, i8, i16, i32


class GetTelemetrySubscriptionsRequest(Message):
    """A client asks which metrics the broker wants. With the zero id it also asks for an id."""

    api = Api.GET_TELEMETRY_SUBSCRIPTIONS
    versions = range(1)
    flexible = 0
    is_request = True

    client_instance_id: UUID = ZERO_UUID


class GetTelemetrySubscriptionsResponse(Message):
    """The broker answers with the client's id, the beginnings of the metrics' names (`*` for all, none for no metrics), how often to push
    them, and with which codecs (as in record batches)."""

    api = Api.GET_TELEMETRY_SUBSCRIPTIONS
    versions = range(1)
    flexible = 0
    is_request = False

    throttle_time_ms: i32 = 0
    error_code: i16 = 0
    client_instance_id: UUID = ZERO_UUID
    subscription_id: i32 = 0
    accepted_compression_types: list[i8] = []
    push_interval_ms: i32 = 0
    telemetry_max_bytes: i32 = 0
    delta_temporality: bool = False
    requested_metrics: list[str] = []


class PushTelemetryRequest(Message):
    """A client pushes metrics: OTLP's MetricsData, compressed. `terminating`: it closes, and this is its last push."""

    api = Api.PUSH_TELEMETRY
    versions = range(1)
    flexible = 0
    is_request = True

    client_instance_id: UUID = ZERO_UUID
    subscription_id: i32 = 0
    terminating: bool = False
    compression_type: i8 = 0
    metrics: bytes = b""


class PushTelemetryResponse(Message):
    """The broker answers whether it took them."""

    api = Api.PUSH_TELEMETRY
    versions = range(1)
    flexible = 0
    is_request = False

    throttle_time_ms: i32 = 0
    error_code: i16 = 0
