"""Which metrics a broker asks each client for, and which pushes it takes (KIP-714, Kafka's `ClientMetricsManager`).

A client has an instance id, which the broker gives it or it has from another broker. Its subscription is that of all subscriptions that
match it. It may ask again, or push again, after the push interval, and at once when the subscriptions have changed. A broker forgets a
client whose connection ends, or that is silent for three intervals, at least a minute. Errors are codes, as in the responses. It does no
I/O and reads no clock.
"""

from __future__ import annotations

from base64 import urlsafe_b64encode
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple
from uuid import UUID

from fastcrc.crc32 import iscsi as crc32c

from fencepost.broker_stub.configs.client_metrics_configs import INTERVAL, INTERVAL_MS_DEFAULT, METRICS, patterns
from fencepost.broker_stub.configs.values import split
from fencepost.producer.wire import ErrorCode
from fencepost.producer.wire.codecs.codec import Codec, CorruptBatch, TooMuch, decompress

ALL_METRICS: Final = "*"
FORGOTTEN_AFTER_MS: Final = 60_000
FORGOTTEN_AFTER_INTERVALS: Final = 3
CLIENTS_MAX: Final = 16_384
RESERVED: Final = (UUID(int=0), UUID(int=1))
ACCEPTED_CODECS: Final = (Codec.ZSTD, Codec.LZ4, Codec.GZIP, Codec.SNAPPY)
"""In the order in which Kafka offers them."""

Subscriptions = Mapping[str, Mapping[str, str]]
"""The configs of each subscription, by its name."""


class ClientAttributes(NamedTuple):
    """What a subscription can match, by the names of KIP-714. `connection_id`: the connection on which the client asks."""

    connection_id: int
    client_id: str | None
    software_name: str
    software_version: str
    source_address: str
    source_port: int | None

    def of(self, instance_id: UUID) -> dict[str, str | None]:
        return {
            "client_instance_id": kafkas_form(instance_id),
            "client_id": self.client_id,
            "client_software_name": self.software_name,
            "client_software_version": self.software_version,
            "client_source_address": self.source_address,
            "client_source_port": None if self.source_port is None else str(self.source_port),
        }


class Subscription(NamedTuple):
    """What a client is asked for."""

    id: int
    metrics: tuple[str, ...]
    push_interval_ms: int


class ClientInstance:
    """A client, as one broker knows it."""

    def __init__(self, attributes: Mapping[str, str | None], connection_id: int, subscription: Subscription, version: int) -> None:
        self.attributes = attributes
        self.connection_id = connection_id
        self.subscription = subscription
        self.version = version
        self.terminating = False
        self.last_error: int = ErrorCode.NONE
        self.asked_at_ms = self.pushed_at_ms = self.seen_at_ms = 0


class ClientMetricsManager:
    """Of one broker. `subscriptions`: those of the cluster. `is_open`: whether the connection with that id is there. `bytes_max`: the
    largest push (telemetry.max.bytes). `new_id`: makes an instance id."""

    def __init__(
        self,
        *,
        subscriptions: Callable[[], Subscriptions],
        is_open: Callable[[int], bool],
        new_id: Callable[[], UUID],
        bytes_max: int,
    ) -> None:
        self._subscriptions = subscriptions
        self._is_open = is_open
        self._new_id = new_id
        self.bytes_max = bytes_max
        self._instances: OrderedDict[UUID, ClientInstance] = OrderedDict()
        self.version = 0
        """How often the subscriptions have changed."""

    def ask(self, instance_id: UUID, client: ClientAttributes, now_ms: int) -> tuple[int, UUID, Subscription]:
        """What the client is asked for: an error code, its instance id, and its subscription."""
        given = instance_id if instance_id.int else self._new_id()
        instance = self._instance(given, client, now_ms)
        last_ms = max(instance.asked_at_ms, instance.pushed_at_ms)
        if now_ms - last_ms >= instance.subscription.push_interval_ms:
            instance.asked_at_ms = now_ms
        elif instance.last_error not in (ErrorCode.UNKNOWN_SUBSCRIPTION_ID, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE):
            return ErrorCode.THROTTLING_QUOTA_EXCEEDED, given, instance.subscription
        instance.last_error = ErrorCode.NONE
        return ErrorCode.NONE, given, instance.subscription

    def push(
        self,
        instance_id: UUID,
        client: ClientAttributes,
        now_ms: int,
        *,
        subscription_id: int,
        terminating: bool,
        codec: int,
        metrics: bytes,
    ) -> tuple[int, bytes]:
        """An error code, and the metrics, decompressed."""
        if instance_id in RESERVED:
            return ErrorCode.INVALID_REQUEST, b""
        instance = self._instance(instance_id, client, now_ms)
        code = self._refusal(instance, now_ms, subscription_id=subscription_id, terminating=terminating, codec=codec, size=len(metrics))
        instance.terminating = terminating
        instance.last_error = code
        if code or not metrics:
            return code, b""
        try:
            return ErrorCode.NONE, decompress(Codec(codec), metrics, limit=self.bytes_max) if codec else bytes(metrics)
        except (CorruptBatch, TooMuch):
            instance.last_error = ErrorCode.INVALID_RECORD
            return ErrorCode.INVALID_RECORD, b""

    def _refusal(self, instance: ClientInstance, now_ms: int, *, subscription_id: int, terminating: bool, codec: int, size: int) -> int:
        if instance.terminating:
            return ErrorCode.INVALID_REQUEST
        # A client spreads its pushes, so the first one after it has asked may come early.
        in_time = instance.asked_at_ms > instance.pushed_at_ms or now_ms - instance.pushed_at_ms >= instance.subscription.push_interval_ms
        if in_time:
            instance.pushed_at_ms = now_ms
        elif not terminating:
            return ErrorCode.THROTTLING_QUOTA_EXCEEDED
        if subscription_id != instance.subscription.id:
            return ErrorCode.UNKNOWN_SUBSCRIPTION_ID
        if codec not in [*Codec]:
            return ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
        return ErrorCode.TELEMETRY_TOO_LARGE if size > self.bytes_max else ErrorCode.NONE

    def _instance(self, instance_id: UUID, client: ClientAttributes, now_ms: int) -> ClientInstance:
        """The client, known or new. One whose subscriptions have changed begins anew."""
        known = self._instances.get(instance_id)
        if known is not None and self._is_forgotten(known, now_ms):
            known = None
        if known is None:
            attributes = client.of(instance_id)
        elif known.version < self.version:
            attributes = dict(known.attributes)
        else:
            known.seen_at_ms = now_ms
            self._instances.move_to_end(instance_id)
            return known
        subscription = self._subscription(instance_id, attributes)
        new = self._instances[instance_id] = ClientInstance(attributes, client.connection_id, subscription, self.version)
        new.seen_at_ms = now_ms
        self._instances.move_to_end(instance_id)
        if len(self._instances) > CLIENTS_MAX:
            self._instances.popitem(last=False)
        return new

    def _is_forgotten(self, instance: ClientInstance, now_ms: int) -> bool:
        silent_ms = max(FORGOTTEN_AFTER_MS, FORGOTTEN_AFTER_INTERVALS * instance.subscription.push_interval_ms)
        return not self._is_open(instance.connection_id) or now_ms - instance.seen_at_ms >= silent_ms

    def _subscription(self, instance_id: UUID, attributes: Mapping[str, str | None]) -> Subscription:
        """That of all subscriptions that match: their metrics, at the shortest of their intervals."""
        interval_ms, metrics = INTERVAL_MS_DEFAULT, set[str]()
        for configs in self._subscriptions().values():
            if all(
                (value := attributes[selector]) is not None and pattern.fullmatch(value) for selector, pattern in patterns(configs).items()
            ):
                metrics |= {*split(configs.get(METRICS, ""))}
                interval_ms = min(interval_ms, int(configs.get(INTERVAL, INTERVAL_MS_DEFAULT)))
        names = (ALL_METRICS,) if ALL_METRICS in metrics else tuple(sorted(metrics))
        return Subscription(_subscription_id(names, interval_ms, instance_id), names, interval_ms)


def kafkas_form(instance_id: UUID) -> str:
    """A UUID as Kafka writes it: in base64 for URLs, without padding."""
    return urlsafe_b64encode(instance_id.bytes).decode().rstrip("=")


def _subscription_id(metrics: tuple[str, ...], interval_ms: int, instance_id: UUID) -> int:
    """A checksum of the subscription and the client, as a signed number of 32 bits."""
    checksum = crc32c(f"[{', '.join(metrics)}]{interval_ms}".encode())
    half = (instance_id.int >> 64) ^ (instance_id.int & (1 << 64) - 1)
    found = checksum ^ (half >> 32) ^ (half & (1 << 32) - 1)
    return found - (1 << 32) if found >= 1 << 31 else found
