"""The topic configurations that a log obeys, with Kafka's names and defaults.

Unknown names are ignored, because other parts of the broker obey them. An invalid value is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import IntEnum
from typing import Final

import msgspec

from fencepost.producer.wire.codecs.codec import DECOMPRESSED_BYTES_MAX, LEVELS, Codec

_INT64_MAX: Final = 2**63 - 1


class TimestampType(IntEnum):
    """The source of a record's timestamp. The numbers are those of the batch's attribute bit."""

    CREATE_TIME = 0
    LOG_APPEND_TIME = 1


class LogConfig(msgspec.Struct, frozen=True, kw_only=True):
    """One topic's settings. `compression`: None keeps the producer's codec. The levels are for batches that the log compresses itself.
    `decompressed_bytes_max` is a limit of the stub; Kafka has none.
    """

    max_message_bytes: int = 1_048_588
    segment_bytes: int = 1 << 30
    segment_ms: int = 604_800_000
    segment_jitter_ms: int = 0
    segment_index_bytes: int = 10_485_760
    index_interval_bytes: int = 4096
    compacted: bool = False
    deletes: bool = True
    retention_bytes: int = -1
    retention_ms: int = 604_800_000
    file_delete_delay_ms: int = 60_000
    flush_messages: int = _INT64_MAX
    min_cleanable_dirty_ratio: float = 0.5
    delete_retention_ms: int = 86_400_000
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = _INT64_MAX
    timestamp_type: TimestampType = TimestampType.CREATE_TIME
    timestamp_before_max_ms: int = _INT64_MAX
    timestamp_after_max_ms: int = 3_600_000
    compression: Codec | None = None
    gzip_level: int = LEVELS[Codec.GZIP].default
    lz4_level: int = LEVELS[Codec.LZ4].default
    zstd_level: int = LEVELS[Codec.ZSTD].default
    producer_id_expiration_ms: int = 86_400_000
    verifies_transactions: bool = True
    decompressed_bytes_max: int = DECOMPRESSED_BYTES_MAX

    @classmethod
    def from_properties(cls, properties: Mapping[str, str]) -> LogConfig:
        """Reads Kafka's dotted topic names. Raises ValueError for an invalid value."""
        fields: dict[str, object] = {}
        for name, field, parse in _PROPERTIES:
            if name not in properties:
                continue
            text = properties[name]
            try:
                fields[field] = parse(text)
            except (KeyError, ValueError) as error:
                raise ValueError(f"{text!r} is no value for {name}") from error
        return msgspec.convert(fields, cls)

    @property
    def segment_max_ms(self) -> int:
        """How long a segment is appended to. Compaction needs it closed within max.compaction.lag.ms."""
        return min(self.segment_ms, self.max_compaction_lag_ms) if self.compacted else self.segment_ms

    def level(self, codec: Codec) -> int | None:
        """The level for batches that the log compresses itself. None: the codec has no levels."""
        return {Codec.GZIP: self.gzip_level, Codec.LZ4: self.lz4_level, Codec.ZSTD: self.zstd_level}.get(codec)


def _policy(wanted: str) -> Callable[[str], bool]:
    def parse(text: str) -> bool:
        policies = {policy.strip() for policy in text.split(",") if policy.strip()}
        if not policies <= {"compact", "delete"}:
            raise ValueError(text)
        return wanted in policies

    return parse


def _level(codec: Codec) -> Callable[[str], int]:
    def parse(text: str) -> int:
        if int(text) not in LEVELS[codec]:
            raise ValueError(text)
        return int(text)

    return parse


_TIMESTAMP_TYPES: Final = {"CreateTime": TimestampType.CREATE_TIME, "LogAppendTime": TimestampType.LOG_APPEND_TIME}
_COMPRESSIONS: Final[dict[str, Codec | None]] = {
    "producer": None,
    "uncompressed": Codec.NONE,
    **{codec.name.lower(): codec for codec in Codec if codec is not Codec.NONE},
}
_PROPERTIES: Final[tuple[tuple[str, str, Callable[[str], object]], ...]] = (
    ("max.message.bytes", "max_message_bytes", int),
    ("segment.bytes", "segment_bytes", int),
    ("segment.ms", "segment_ms", int),
    ("segment.jitter.ms", "segment_jitter_ms", int),
    ("segment.index.bytes", "segment_index_bytes", int),
    ("index.interval.bytes", "index_interval_bytes", int),
    ("cleanup.policy", "compacted", _policy("compact")),
    ("cleanup.policy", "deletes", _policy("delete")),
    ("retention.bytes", "retention_bytes", int),
    ("retention.ms", "retention_ms", int),
    ("file.delete.delay.ms", "file_delete_delay_ms", int),
    ("flush.messages", "flush_messages", int),
    ("min.cleanable.dirty.ratio", "min_cleanable_dirty_ratio", float),
    ("delete.retention.ms", "delete_retention_ms", int),
    ("min.compaction.lag.ms", "min_compaction_lag_ms", int),
    ("max.compaction.lag.ms", "max_compaction_lag_ms", int),
    ("message.timestamp.type", "timestamp_type", _TIMESTAMP_TYPES.__getitem__),
    ("message.timestamp.before.max.ms", "timestamp_before_max_ms", int),
    ("message.timestamp.after.max.ms", "timestamp_after_max_ms", int),
    ("compression.type", "compression", _COMPRESSIONS.__getitem__),
    ("compression.gzip.level", "gzip_level", _level(Codec.GZIP)),
    ("compression.lz4.level", "lz4_level", _level(Codec.LZ4)),
    ("compression.zstd.level", "zstd_level", _level(Codec.ZSTD)),
    ("producer.id.expiration.ms", "producer_id_expiration_ms", int),
    ("transaction.partition.verification.enable", "verifies_transactions", lambda text: text.lower() == "true"),
)
OF_BROKERS: Final = ("producer.id.expiration.ms", "transaction.partition.verification.enable")
"""The configs that belong to a broker, not to a topic."""
