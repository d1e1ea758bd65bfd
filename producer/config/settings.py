"""Every setting of a producer as one struct: name, unit and default. `config.reader` reads and checks user input."""

from __future__ import annotations

import enum
import ssl
from collections.abc import Callable
from typing import Any

from msgspec import Struct

from fencepost.producer.config.secret import Secret
from fencepost.producer.wire.codecs.codec import Codec


class Partitioner(enum.Enum):
    """How records without an explicit partition are placed."""

    DEFAULT = "default"
    """murmur2 of the key, as in Java; the sticky partition for a record without a key."""
    ROUND_ROBIN = "round_robin"
    """Each partition in turn; the key does not matter."""
    CRC32 = "crc32"
    FNV1A = "fnv1a"


class SecurityProtocol(enum.Enum):
    """What a listener requires of its clients."""

    PLAINTEXT = "PLAINTEXT"
    SSL = "SSL"
    SASL_PLAINTEXT = "SASL_PLAINTEXT"
    SASL_SSL = "SASL_SSL"

    @property
    def tls(self) -> bool:
        """Whether connections are encrypted."""
        return self in (SecurityProtocol.SSL, SecurityProtocol.SASL_SSL)

    @property
    def sasl(self) -> bool:
        """Whether clients log in."""
        return self in (SecurityProtocol.SASL_PLAINTEXT, SecurityProtocol.SASL_SSL)


class SaslMechanism(enum.Enum):
    """How a client authenticates."""

    PLAIN = "PLAIN"
    SCRAM_SHA_256 = "SCRAM-SHA-256"
    SCRAM_SHA_512 = "SCRAM-SHA-512"
    OAUTHBEARER = "OAUTHBEARER"


class MetadataRecovery(enum.Enum):
    """What to do when none of the known brokers can be reached (KIP-899, KIP-1102)."""

    NONE = "none"
    """Keep trying the known brokers."""
    REBOOTSTRAP = "rebootstrap"
    """Go back to `bootstrap_servers`."""


class Settings(Struct, frozen=True, kw_only=True):
    """What `Producer(...)` makes of its keyword arguments and checks; a program does not construct it. Times are milliseconds, sizes bytes.
    `fencepost.producer.config.names` has the dotted Kafka name of each. docs/configuration.md is generated from this class."""

    bootstrap_servers: tuple[str, ...]
    """The first brokers to connect to: host:port or [IPv6]:port, several with commas or as a list. `SSL://host:port` and the like are
    accepted if the protocol is `security_protocol`."""
    client_dns_lookup: str = "use_all_dns_ips"
    """Each connection tries every address of a name, IPv6 and IPv4. No other value is supported."""
    client_id: str = "fencepost"
    """The name under which brokers log and throttle this producer. Threads and statistics have it, too."""
    acks: int = -1
    """Which acknowledgement the producer waits for: of all in-sync replicas (all, -1), of the leader (1), or none (0). 0 and 1 switch
    idempotence off."""
    enable_idempotence: bool = True
    """Whether a record is in the log once and in order, no matter how often it is sent. Needs acks=all, `max_in_flight` of at most 5 and
    `retries` above 0."""
    linger_ms: float = 5.0
    """How long a batch that is not full waits for more records. `flush`, `close`, and waiting for a future or for room end the wait."""
    batch_size: int = 256 * 1024
    """How large a batch grows before it is closed. The size is uncompressed, with any codec. Java estimates the compression of the next
    batch and lets the batch grow beyond this size. This producer does not: a batch costs the same either way, memory is counted
    uncompressed, and after a wrong estimate the batch must be split. For a codec that compresses well, set a larger number."""
    buffer_memory: int = 32 * 1024 * 1024
    """How many bytes records without an outcome may take: queued and in flight, uncompressed. A record with a delivery callback counts 80
    bytes more, for future and callback. A row of `send_many` or `send_arrow` counts 8 more. While the buffer is full, `send` waits."""
    max_request_size: int = 1_048_576
    """The largest record, and the largest total of the batches in one request. If it is not set, it is at most `buffer_memory`."""
    max_block_ms: float = 60_000.0
    """How long `send` waits for the metadata of a new topic, and for room in the buffer."""
    compression_type: Codec = Codec.NONE
    """The codec of batches."""
    compression_level: int | None = None
    """The level of the chosen codec; None is its default. The three settings below do the same for one codec."""
    compression_gzip_level: int | None = None
    """`compression_level` if the codec is gzip."""
    compression_lz4_level: int | None = None
    """`compression_level` if the codec is lz4."""
    compression_zstd_level: int | None = None
    """`compression_level` if the codec is zstd."""
    partitioner: Partitioner | Callable[..., int | None] = Partitioner.DEFAULT
    """How records without an explicit partition are placed: a name, or a function, which is called as
    `fencepost.producer.accumulator.named_partitioners` says."""
    key_serializer: Any = None
    """What converts keys to bytes: a name, a function or another library's serializer (`fencepost.producer.serializers`). With None, keys
    are bytes."""
    value_serializer: Any = None
    """The same for values."""
    interceptors: tuple[Any, ...] = ()
    """Functions and objects that see every record, in this order: `fencepost.producer.interceptors`."""
    telemetry: bool = False
    """Make OpenTelemetry's spans and metrics of sends and transactions, and pass the trace on in the records' headers. It needs the extra
    `telemetry`."""
    max_in_flight: int = 5
    """The limit of Produce requests without an answer on each connection, and of unresolved batches of each partition."""
    retries: int = 2_147_483_647
    """How often a batch is sent again. 0 switches idempotence off; otherwise `delivery_timeout_ms` is the better limit."""
    retry_backoff_ms: float = 100.0
    """The wait before the first retry. It doubles for each further retry, and varies by 20 %."""
    retry_backoff_max_ms: float = 1_000.0
    """The longest wait before a retry."""
    request_timeout_ms: float = 30_000.0
    """How long a request may take. After that the producer closes the connection and sends the request again."""
    delivery_timeout_ms: float = 120_000.0
    """How long a record may take from `send` to its outcome. If it is not set, it is at least linger_ms + request_timeout_ms."""
    metadata_max_age_ms: float = 300_000.0
    """How old metadata may become before the producer asks for it again."""
    metadata_max_idle_ms: float = 300_000.0
    """How long the producer still asks for the metadata of a topic after the last record for it."""
    metadata_recovery_strategy: MetadataRecovery = MetadataRecovery.REBOOTSTRAP
    """Whether to go back to `bootstrap_servers` when none of the known brokers can be reached, when there is no metadata for the time
    below, or when a broker asks for it (KIP-899, KIP-1102)."""
    metadata_recovery_rebootstrap_trigger_ms: float = 300_000.0
    """How long the producer may be without a metadata response before it closes all connections and goes back to
    `bootstrap_servers`."""
    reconnect_backoff_ms: float = 50.0
    """The wait before a broker is connected to again. It doubles for each failure, and varies by 20 %."""
    reconnect_backoff_max_ms: float = 1_000.0
    """The longest wait before a broker is connected to again."""
    socket_connection_setup_timeout_ms: float = 10_000.0
    """How long a connection may take, with TLS and SASL, for each address of a name."""
    connections_max_idle_ms: float = 540_000.0
    """How long a connection may be without a request before it is closed."""
    allow_auto_create_topics: bool = True
    """Whether sending to a topic that does not exist creates it, if the cluster allows it."""
    resolve_grace_ms: float = 1_000.0
    """How long after the delivery deadline the producer still asks brokers whether a sent record is in the log."""
    exit_flush_ms: float = 5_000.0
    """How long a process that exits without `close`, or a `with` block that Ctrl-C ends, waits for deliveries."""
    statistics_interval_ms: float = 0.0
    """How often `on_statistics` is called; 0 is never."""
    on_statistics: Callable[..., object] | None = None
    """Called with a `ProducerStats`: `fencepost.producer.observe.statistics_callback`."""
    security_protocol: SecurityProtocol = SecurityProtocol.PLAINTEXT
    """The protocol of the listener."""
    ssl_cafile: str | None = None
    """The CA certificates that may sign a broker's certificate: a PEM file, or a directory in OpenSSL's form. None is the system's."""
    ssl_certfile: str | None = None
    """The client's own certificate chain, PEM. It contains the key unless `ssl_keyfile` names another file."""
    ssl_keyfile: str | None = None
    """The client's private key, PEM, if it is not in `ssl_certfile`."""
    ssl_password: Secret[str] | None = None
    """The password of the private key."""
    ssl_check_hostname: bool = True
    """Whether the broker's certificate must be for the host name of the connection."""
    ssl_context: ssl.SSLContext | None = None
    """A context instead of the `ssl_*` settings above. After the settings are read, it is set whenever the protocol has TLS."""
    sasl_mechanism: SaslMechanism | None = None
    """How the client authenticates."""
    sasl_username: str | None = None
    """For PLAIN and SCRAM."""
    sasl_password: Secret[str] | None = None
    """For PLAIN and SCRAM. It is never printed, logged or pickled."""
    sasl_oauth_token_provider: Secret[Callable[..., object]] | None = None
    """Returns a token; `fencepost.producer.network.oauth_tokens` says how it is called."""
    sasl_oauthbearer_config: Secret[str] | None = None
    """A text for the token provider."""
