"""Every setting of a producer as one struct: name, unit and default. Reading and checking user input is `producer.config`'s work."""

from __future__ import annotations

import enum

from msgspec import Struct

from producer.wire.compression import Codec


class Partitioner(enum.Enum):
    """How records without an explicit partition are placed."""

    DEFAULT = "default"
    ROUND_ROBIN = "round_robin"


class Settings(Struct, frozen=True, kw_only=True):
    """Values are checked before they get here. Times are milliseconds, sizes bytes; the dotted Kafka name of each is in
    `producer.config`."""

    bootstrap_servers: tuple[str, ...]
    client_id: str = "fencepost"
    acks: int = -1
    enable_idempotence: bool = True
    linger_ms: float = 5.0
    batch_size: int = 256 * 1024
    buffer_memory: int = 32 * 1024 * 1024
    max_request_size: int = 1_048_576
    max_block_ms: float = 60_000.0
    compression_type: Codec = Codec.NONE
    compression_level: int | None = None
    partitioner: Partitioner = Partitioner.DEFAULT
    max_in_flight: int = 5
    retries: int = 2_147_483_647
    retry_backoff_ms: float = 100.0
    retry_backoff_max_ms: float = 1_000.0
    request_timeout_ms: float = 30_000.0
    delivery_timeout_ms: float = 120_000.0
    metadata_max_age_ms: float = 300_000.0
    reconnect_backoff_ms: float = 50.0
    reconnect_backoff_max_ms: float = 1_000.0
    socket_connection_setup_timeout_ms: float = 10_000.0
    connections_max_idle_ms: float = 540_000.0
    allow_auto_create_topics: bool = True
    resolve_grace_ms: float = 1_000.0
    exit_flush_ms: float = 5_000.0
