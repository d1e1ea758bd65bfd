"""The keyword arguments of a producer, for type checkers. Made by `docs/make_keywords.py`: do not edit."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Sequence
from os import PathLike
from typing import Any, Literal, Protocol, TypeAlias, TypedDict

from fencepost.producer.config.secret import Secret
from fencepost.producer.config.settings import MetadataRecovery, Partitioner, SaslMechanism, SecurityProtocol
from fencepost.producer.wire.codecs.codec import Codec

CompressionName: TypeAlias = Literal["none", "NONE", "gzip", "GZIP", "snappy", "SNAPPY", "lz4", "LZ4", "zstd", "ZSTD"]
PartitionerName: TypeAlias = Literal[
    "default", "round_robin", "crc32", "fnv1a", "murmur2", "murmur2_random", "consistent_random", "fnv1a_random"
]
SerializerName: TypeAlias = Literal["bytes", "json", "msgpack", "string"]
SecurityProtocolName: TypeAlias = Literal[
    "PLAINTEXT", "plaintext", "SSL", "ssl", "SASL_PLAINTEXT", "sasl_plaintext", "SASL_SSL", "sasl_ssl"
]
SaslMechanismName: TypeAlias = Literal[
    "PLAIN", "plain", "SCRAM-SHA-256", "scram-sha-256", "SCRAM-SHA-512", "scram-sha-512", "OAUTHBEARER", "oauthbearer"
]


class HasSerialize(Protocol):
    """A serializer of kafka-python or aiokafka."""

    def serialize(self, topic: Any, value: Any, /) -> object: ...


class HasOnSend(Protocol):
    """An interceptor that sees records before they are accepted."""

    @property
    def on_send(self) -> Callable[..., object]: ...


class HasOnAcknowledgement(Protocol):
    """An interceptor that sees the outcomes of records."""

    @property
    def on_acknowledgement(self) -> Callable[..., object]: ...


class HasToken(Protocol):
    """A token provider of kafka-python or aiokafka."""

    @property
    def token(self) -> Callable[..., object]: ...


Interceptor: TypeAlias = Callable[..., object] | HasOnSend | HasOnAcknowledgement


class ProducerOptions(TypedDict, total=False):
    """Every setting but the servers, with Kafka's own names where they differ."""

    client_dns_lookup: Literal["use_all_dns_ips"]
    client_id: str
    acks: Literal[-1, 0, 1, "all", "-1", "0", "1"]
    enable_idempotence: bool
    linger_ms: float
    batch_size: int
    buffer_memory: int
    max_request_size: int
    max_block_ms: float
    compression_type: Codec | CompressionName | None
    compression_level: int | None
    compression_gzip_level: int | None
    compression_lz4_level: int | None
    compression_zstd_level: int | None
    partitioner: Partitioner | PartitionerName | Callable[..., int | None]
    key_serializer: SerializerName | Callable[..., object] | HasSerialize | None
    value_serializer: SerializerName | Callable[..., object] | HasSerialize | None
    interceptors: Interceptor | Sequence[Interceptor]
    telemetry: bool
    max_in_flight: int
    retries: int
    retry_backoff_ms: float
    retry_backoff_max_ms: float
    request_timeout_ms: float
    delivery_timeout_ms: float
    metadata_max_age_ms: float
    metadata_max_idle_ms: float
    metadata_recovery_strategy: MetadataRecovery | Literal["none", "NONE", "rebootstrap", "REBOOTSTRAP"]
    metadata_recovery_rebootstrap_trigger_ms: float
    reconnect_backoff_ms: float
    reconnect_backoff_max_ms: float
    socket_connection_setup_timeout_ms: float
    connections_max_idle_ms: float
    allow_auto_create_topics: bool
    resolve_grace_ms: float
    exit_flush_ms: float
    statistics_interval_ms: float
    on_statistics: Callable[..., object] | None
    security_protocol: SecurityProtocol | SecurityProtocolName
    ssl_cafile: str | PathLike[str] | None
    ssl_certfile: str | PathLike[str] | None
    ssl_keyfile: str | PathLike[str] | None
    ssl_password: Secret[str] | str | None
    ssl_check_hostname: bool | Literal["https", "HTTPS", "none", ""]
    ssl_context: ssl.SSLContext | None
    sasl_mechanism: SaslMechanism | SaslMechanismName | None
    sasl_username: str | None
    sasl_password: Secret[str] | str | None
    sasl_oauth_token_provider: Secret[Callable[..., object]] | Callable[..., object] | HasToken | None
    sasl_oauthbearer_config: Secret[str] | str | None
    compression_codec: Codec | CompressionName | None
    interceptor_classes: Interceptor | Sequence[Interceptor]
    max_in_flight_requests_per_connection: int
    ssl_ca_location: str | PathLike[str] | None
    ssl_truststore_location: str | PathLike[str] | None
    ssl_certificate_location: str | PathLike[str] | None
    ssl_keystore_location: str | PathLike[str] | None
    ssl_key_location: str | PathLike[str] | None
    ssl_key_password: Secret[str] | str | None
    ssl_endpoint_identification_algorithm: bool | Literal["https", "HTTPS", "none", ""]
    sasl_mechanisms: SaslMechanism | SaslMechanismName | None
    sasl_plain_username: str | None
    sasl_plain_password: Secret[str] | str | None
    oauth_cb: Secret[Callable[..., object]] | Callable[..., object] | HasToken | None


class ProducerKeywords(ProducerOptions, total=False):
    """Every setting."""

    bootstrap_servers: str | Sequence[str]
