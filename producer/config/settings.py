"""Every setting of a producer as one struct: name, unit and default. `config.reader` reads and checks user input."""

from __future__ import annotations

import enum
import ssl
from collections.abc import Callable
from typing import Any

from msgspec import Struct

from fencepost.producer.config.secret import Secret
from fencepost.producer.wire.records.compression import Codec


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
    `fencepost.producer.config.reader`. docs/configuration.md is made from this."""

    bootstrap_servers: tuple[str, ...]
    """Where the cluster is found first: host:port or [IPv6]:port, several with commas or as a list. `SSL://host:port` and the like are
    accepted where the protocol is `security_protocol`."""
    client_dns_lookup: str = "use_all_dns_ips"
    """Every address of a name is tried, IPv6 and IPv4, whenever a connection is made. There is no other choice."""
    client_id: str = "fencepost"
    """Under this name brokers log and throttle; threads and statistics have it, too."""
    acks: int = -1
    """Whose acknowledgement counts: all in-sync replicas' (all, -1), the leader's (1), nobody's (0). Others than all switch idempotence
    off."""
    enable_idempotence: bool = True
    """Whether a record is in the log once, and in order, however often it has to be sent. Needs acks=all, `max_in_flight` of at most 5 and
    `retries`."""
    linger_ms: float = 5.0
    """How long a batch that is not full waits for more records. Waiting for a future or for room, `flush` and `close` end it."""
    batch_size: int = 256 * 1024
    """How large a batch may grow before it is closed, uncompressed, whatever the codec makes of it. Java guesses how well the next batch
    will pack and lets it grow beyond; but what a batch costs is the same either way, memory is counted uncompressed, and a guess that
    fails is a batch to split. A codec that packs well is better used by a larger number here."""
    buffer_memory: int = 32 * 1024 * 1024
    """What records without an outcome may take, uncompressed, queued and on their way; one with a delivery callback counts for 80 bytes
    more, which future and callback take, and a row of `send_many` or `send_arrow` for 8. `send` waits where it is full."""
    max_request_size: int = 1_048_576
    """The largest record, and how much of a request's batches are put together. Lowered to `buffer_memory` unless it is set."""
    max_block_ms: float = 60_000.0
    """How long `send` waits for a topic that is not known, and for room in the buffer."""
    compression_type: Codec = Codec.NONE
    """How batches are packed."""
    compression_level: int | None = None
    """Of the codec that is chosen; None is its default. The three below say it by the codec's name, and end up here."""
    compression_gzip_level: int | None = None
    """`compression_level` where the codec is gzip."""
    compression_lz4_level: int | None = None
    """`compression_level` where the codec is lz4."""
    compression_zstd_level: int | None = None
    """`compression_level` where the codec is zstd."""
    partitioner: Partitioner | Callable[..., int | None] = Partitioner.DEFAULT
    """How records that name no partition are placed: by a name, or by a function, which is called as
    `fencepost.producer.accumulator.named_partitioners` says."""
    key_serializer: Any = None
    """What makes bytes of keys: a name, a function or another library's serializer (`fencepost.producer.serializers`). None takes bytes."""
    value_serializer: Any = None
    """The same for values."""
    interceptors: tuple[Any, ...] = ()
    """Functions and objects that see every record, in this order: `fencepost.producer.interceptors`."""
    max_in_flight: int = 5
    """Produce requests on a connection that wait for their answers, and unresolved batches of a partition."""
    retries: int = 2_147_483_647
    """How often a batch is sent again. 0 switches idempotence off; otherwise `delivery_timeout_ms` is the better limit."""
    retry_backoff_ms: float = 100.0
    """How long to wait before the first retry, doubled for each further one, 20 % more or less."""
    retry_backoff_max_ms: float = 1_000.0
    """At most so long."""
    request_timeout_ms: float = 30_000.0
    """How long a request may take before its connection is given up and it is sent again."""
    delivery_timeout_ms: float = 120_000.0
    """How long a record may take from `send` to its outcome. Raised to linger_ms + request_timeout_ms unless it is set."""
    metadata_max_age_ms: float = 300_000.0
    """How often metadata is asked for when nothing else asks for it."""
    metadata_max_idle_ms: float = 300_000.0
    """How long a topic to which nothing is sent is still asked about."""
    metadata_recovery_strategy: MetadataRecovery = MetadataRecovery.REBOOTSTRAP
    """Whether to go back to `bootstrap_servers` when none of the known brokers can be reached, when there is no metadata for the time
    below, or when a broker asks for it (KIP-899, KIP-1102)."""
    metadata_recovery_rebootstrap_trigger_ms: float = 300_000.0
    """How long metadata may be asked for in vain before every connection is given up for a new beginning."""
    reconnect_backoff_ms: float = 50.0
    """How long to wait before a broker is connected to again, doubled for each failure, 20 % more or less."""
    reconnect_backoff_max_ms: float = 1_000.0
    """At most so long."""
    socket_connection_setup_timeout_ms: float = 10_000.0
    """How long a connection may take, with TLS and SASL, for each address of a name."""
    connections_max_idle_ms: float = 540_000.0
    """After so long without a request a connection is closed."""
    allow_auto_create_topics: bool = True
    """Whether a topic that does not exist is made when it is sent to, if the cluster allows it."""
    resolve_grace_ms: float = 1_000.0
    """How long brokers are still asked, after the delivery deadline, what became of a record that was sent."""
    exit_flush_ms: float = 5_000.0
    """How long a process that exits without `close`, or a block that is left by Ctrl-C, waits for deliveries."""
    statistics_interval_ms: float = 0.0
    """How often `on_statistics` is called; 0 is never."""
    on_statistics: Callable[..., object] | None = None
    """Called with a `ProducerStats`: `fencepost.producer.observe.statistics_callback`."""
    security_protocol: SecurityProtocol = SecurityProtocol.PLAINTEXT
    """What the listener speaks."""
    ssl_cafile: str | None = None
    """Whose signature under a broker's certificate is trusted: a PEM file, or a directory as OpenSSL has them. None is the system's."""
    ssl_certfile: str | None = None
    """The client's own certificate chain, PEM, with the key in it unless `ssl_keyfile` names another file."""
    ssl_keyfile: str | None = None
    """The client's private key, PEM, where it is not in `ssl_certfile`."""
    ssl_password: Secret[str] | None = None
    """Of the key."""
    ssl_check_hostname: bool = True
    """Whether the broker's certificate has to be for the name that was connected to."""
    ssl_context: ssl.SSLContext | None = None
    """Instead of the above. Once settings have been read it is there whenever the protocol has TLS."""
    sasl_mechanism: SaslMechanism | None = None
    """How the client shows who it is."""
    sasl_username: str | None = None
    """For PLAIN and SCRAM."""
    sasl_password: Secret[str] | None = None
    """For PLAIN and SCRAM. It is never printed, logged or pickled."""
    sasl_oauth_token_provider: Secret[Callable[..., object]] | None = None
    """What it is called with and returns is in `fencepost.producer.network.oauth_tokens`."""
    sasl_oauthbearer_config: Secret[str] | None = None
    """A text for the token provider."""
