"""The keyword arguments of a producer, for type checkers. Made by `docs/make_keywords.py` from `Settings`: do not edit."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Sequence
from typing import Any, Literal, TypedDict

from fencepost.producer.config.secret import Secret
from fencepost.producer.config.settings import MetadataRecovery, Partitioner, SaslMechanism, SecurityProtocol
from fencepost.producer.wire.codecs.codec import Codec


class ProducerOptions(TypedDict, total=False):
    """Every setting but the servers, with Kafka's own names where they differ."""

    client_dns_lookup: str
    client_id: str
    acks: int | Literal["all", "-1", "0", "1"]
    enable_idempotence: bool
    linger_ms: float
    batch_size: int
    buffer_memory: int
    max_request_size: int
    max_block_ms: float
    compression_type: Codec | str | None
    compression_level: int | None
    compression_gzip_level: int | None
    compression_lz4_level: int | None
    compression_zstd_level: int | None
    partitioner: Partitioner | str | Callable[..., int | None]
    key_serializer: Any
    value_serializer: Any
    interceptors: Any
    max_in_flight: int
    retries: int
    retry_backoff_ms: float
    retry_backoff_max_ms: float
    request_timeout_ms: float
    delivery_timeout_ms: float
    metadata_max_age_ms: float
    metadata_max_idle_ms: float
    metadata_recovery_strategy: MetadataRecovery | str
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
    security_protocol: SecurityProtocol | str
    ssl_cafile: str | None
    ssl_certfile: str | None
    ssl_keyfile: str | None
    ssl_password: Secret[str] | str | None
    ssl_check_hostname: bool
    ssl_context: ssl.SSLContext | None
    sasl_mechanism: SaslMechanism | str | None
    sasl_username: str | None
    sasl_password: Secret[str] | str | None
    sasl_oauth_token_provider: Any
    sasl_oauthbearer_config: Secret[str] | str | None
    compression_codec: Codec | str | None
    interceptor_classes: Any
    max_in_flight_requests_per_connection: int
    ssl_ca_location: str | None
    ssl_truststore_location: str | None
    ssl_certificate_location: str | None
    ssl_keystore_location: str | None
    ssl_key_location: str | None
    ssl_key_password: Secret[str] | str | None
    ssl_endpoint_identification_algorithm: str | None
    sasl_mechanisms: SaslMechanism | str | None
    sasl_plain_username: str | None
    sasl_plain_password: Secret[str] | str | None
    oauth_cb: Any


class ProducerKeywords(ProducerOptions, total=False):
    """Every setting."""

    bootstrap_servers: str | Sequence[str]
