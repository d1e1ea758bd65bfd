"""Every setting of a producer as one struct: name, unit and default. Reading and checking user input is `producer.config`'s work."""

from __future__ import annotations

import enum
import ssl
from collections.abc import Callable
from typing import Any

from msgspec import Struct

from producer.core.secret import Secret
from producer.wire.compression import Codec


class Partitioner(enum.Enum):
    """How records without an explicit partition are placed."""

    DEFAULT = "default"
    """murmur2 of the key as Java has it, sticky without one."""
    ROUND_ROBIN = "round_robin"
    """One after the other, keys or not."""
    CRC32 = "crc32"
    FNV1A = "fnv1a"


class SecurityProtocol(enum.Enum):
    """What a listener wants of its clients."""

    PLAINTEXT = "PLAINTEXT"
    SSL = "SSL"
    SASL_PLAINTEXT = "SASL_PLAINTEXT"
    SASL_SSL = "SASL_SSL"

    @property
    def tls(self) -> bool:
        return self in (SecurityProtocol.SSL, SecurityProtocol.SASL_SSL)

    @property
    def sasl(self) -> bool:
        return self in (SecurityProtocol.SASL_PLAINTEXT, SecurityProtocol.SASL_SSL)


class SaslMechanism(enum.Enum):
    """How a client shows who it is."""

    PLAIN = "PLAIN"
    SCRAM_SHA_256 = "SCRAM-SHA-256"
    SCRAM_SHA_512 = "SCRAM-SHA-512"
    OAUTHBEARER = "OAUTHBEARER"


class MetadataRecovery(enum.Enum):
    """What to do when none of the known brokers can be reached (KIP-899, KIP-1102)."""

    NONE = "none"
    """Go on trying them."""
    REBOOTSTRAP = "rebootstrap"
    """Go back to `bootstrap_servers`."""


class Settings(Struct, frozen=True, kw_only=True):
    """Values are checked before they get here. Times are milliseconds, sizes bytes; the dotted Kafka name of each is in
    `producer.config`."""

    bootstrap_servers: tuple[str, ...]
    client_dns_lookup: str = "use_all_dns_ips"
    """Every address of a name is tried, IPv6 and IPv4, whenever a connection is made. There is no other choice."""
    client_id: str = "fencepost"
    acks: int = -1
    enable_idempotence: bool = True
    linger_ms: float = 5.0
    batch_size: int = 256 * 1024
    """How large a batch may grow before it is closed, uncompressed, whatever the codec makes of it. Java guesses how well the next batch
    will pack and lets it grow beyond; but what a batch costs is the same either way, memory is counted uncompressed, and a guess that
    fails is a batch to split. A codec that packs well is better used by a larger number here."""
    buffer_memory: int = 32 * 1024 * 1024
    max_request_size: int = 1_048_576
    max_block_ms: float = 60_000.0
    compression_type: Codec = Codec.NONE
    compression_level: int | None = None
    """Of the codec that is chosen; None is its default. The three below say it by the codec's name, and end up here."""
    compression_gzip_level: int | None = None
    compression_lz4_level: int | None = None
    compression_zstd_level: int | None = None
    partitioner: Partitioner | Callable[..., int | None] = Partitioner.DEFAULT
    """Or a function; how it is called is in `producer.placing`."""
    key_serializer: Any = None
    """A name, a function or a serializer of another library: `producer.serializers`. None takes bytes."""
    value_serializer: Any = None
    interceptors: tuple[Any, ...] = ()
    """Functions and objects that see every record, in this order: `producer.interceptors`."""
    max_in_flight: int = 5
    retries: int = 2_147_483_647
    retry_backoff_ms: float = 100.0
    retry_backoff_max_ms: float = 1_000.0
    request_timeout_ms: float = 30_000.0
    delivery_timeout_ms: float = 120_000.0
    metadata_max_age_ms: float = 300_000.0
    metadata_recovery_strategy: MetadataRecovery = MetadataRecovery.REBOOTSTRAP
    metadata_recovery_rebootstrap_trigger_ms: float = 300_000.0
    reconnect_backoff_ms: float = 50.0
    reconnect_backoff_max_ms: float = 1_000.0
    socket_connection_setup_timeout_ms: float = 10_000.0
    connections_max_idle_ms: float = 540_000.0
    allow_auto_create_topics: bool = True
    resolve_grace_ms: float = 1_000.0
    exit_flush_ms: float = 5_000.0
    statistics_interval_ms: float = 0.0
    """How often `on_statistics` is called; 0 is never."""
    on_statistics: Callable[..., object] | None = None
    """Called with a `ProducerStats`: `producer.reporter`."""
    security_protocol: SecurityProtocol = SecurityProtocol.PLAINTEXT
    ssl_cafile: str | None = None
    """Whose signature under a broker's certificate is trusted: a PEM file, or a directory as OpenSSL has them. None is the system's."""
    ssl_certfile: str | None = None
    """The client's own certificate chain, PEM, with the key in it unless `ssl_keyfile` names another file."""
    ssl_keyfile: str | None = None
    ssl_password: Secret[str] | None = None
    """Of the key."""
    ssl_check_hostname: bool = True
    ssl_context: ssl.SSLContext | None = None
    """Instead of the above. Once settings have been read it is there whenever the protocol has TLS."""
    sasl_mechanism: SaslMechanism | None = None
    sasl_username: str | None = None
    sasl_password: Secret[str] | None = None
    sasl_oauth_token_provider: Secret[Callable[..., object]] | None = None
    """What it is called with and returns is in `producer.tokens`."""
    sasl_oauthbearer_config: Secret[str] | None = None
    """A text for the token provider."""
