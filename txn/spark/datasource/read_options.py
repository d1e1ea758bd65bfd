"""The options of the read source: those of Spark's Kafka source, with their names, meanings and defaults.

An unknown option is refused with the name that was probably meant. An option that makes no sense for a reader without a group is refused
with the reason. Names count in any case, as in Spark.
"""

from __future__ import annotations

import difflib
import logging
import re
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

from msgspec import Struct

from fencepost.producer.config.reader import read_settings
from fencepost.producer.config.settings import Settings
from fencepost.producer.errors import ConfigError
from fencepost.txn.reading.limits import Isolation, Limits
from fencepost.txn.reading.positions import Place
from fencepost.txn.spark.connection.kafka_options import KAFKA, read_kafka_options
from fencepost.txn.spark.connection.secrets import KafkaSettings
from fencepost.txn.spark.datasource.offsets import EARLIEST, LATEST, Offsets, read_assignment, read_numbers

log = logging.getLogger("fencepost.spark")

T = TypeVar("T")

NAMES: Final = (
    "assign",
    "subscribe",
    "subscribePattern",
    "startingOffsets",
    "startingOffsetsByTimestamp",
    "startingTimestamp",
    "startingOffsetsByTimestampStrategy",
    "endingOffsets",
    "endingOffsetsByTimestamp",
    "endingTimestamp",
    "failOnDataLoss",
    "includeHeaders",
    "minPartitions",
    "maxRecordsPerPartition",
    "maxOffsetsPerTrigger",
    "minOffsetsPerTrigger",
    "maxTriggerDelay",
    "kafkaConsumer.pollTimeoutMs",
    "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs",
)
BATCH_ONLY: Final = ("endingOffsets", "endingOffsetsByTimestamp", "endingTimestamp")
STREAM_ONLY: Final = ("maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay")
REFUSED: Final = {
    "groupidprefix": "it reads without a consumer group",
    "kafka.group.id": "it reads without a consumer group, and commits no offsets but Spark's in the checkpoint",
    "kafka.auto.offset.reset": "startingOffsets says where reading begins",
    "kafka.enable.auto.commit": "it commits no offsets but Spark's in the checkpoint",
    "kafka.key.deserializer": "keys come as bytes: use DataFrame operations",
    "kafka.value.deserializer": "values come as bytes: use DataFrame operations",
    "kafka.interceptor.classes": "there are no interceptors in the source",
}
READING: Final = ("isolation.level", "fetch.min.bytes", "fetch.max.wait.ms", "max.partition.fetch.bytes", "fetch.max.bytes")
"""The names after `kafka.` that concern reading; all others are connection settings, as for a producer."""
TUNES_CONSUMERS: Final = frozenset(
    {
        "auto.commit.interval.ms", "check.crcs", "default.api.timeout.ms", "exclude.internal.topics", "group.instance.id", "group.protocol",
        "group.remote.assignor", "heartbeat.interval.ms", "max.poll.interval.ms", "max.poll.records", "partition.assignment.strategy",
        "session.timeout.ms",
    }
)  # fmt: skip
"""Settings of Java's consumer that a reader without a group does not need."""

FETCH_BYTES_MAX: Final = 1 << 30
DELAY: Final = re.compile(r"\s*(\d+)\s*(ms|s|m|min|h|d)?\s*", re.IGNORECASE)
DELAY_MS: Final = {"ms": 1, "s": 1_000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}


class Where(Struct, frozen=True):
    """A place in each partition: `special` (EARLIEST or LATEST) everywhere, or the time `timestamp_ms`, or a place for each partition."""

    special: int | None = None
    timestamp_ms: int | None = None
    offsets: Offsets | None = None
    timestamps_ms: Offsets | None = None
    option: str = ""


class SourceOptions(Struct, frozen=True, kw_only=True):
    """The options that were given. One of `assigned`, `topics` and `pattern` is set."""

    starting: Where
    ending: Where
    assigned: tuple[Place, ...] | None = None
    topics: tuple[str, ...] | None = None
    pattern: str | None = None
    latest_where_no_time: bool = False
    fail_on_data_loss: bool = True
    include_headers: bool = False
    partitions_min: int | None = None
    records_per_partition_max: int | None = None
    offsets_per_trigger_max: int | None = None
    offsets_per_trigger_min: int | None = None
    trigger_delay_max_ms: int = 900_000
    offset_retries: int = 3
    offset_retry_interval_ms: int = 10
    isolation: Isolation = Isolation.READ_COMMITTED
    limits: Limits = Limits()


def read_source_options(given: Mapping[str, str], *, streaming: bool) -> SourceOptions:
    """Raises ConfigError."""
    options = {key.lower(): value for key, value in given.items()}
    _check_names(options, streaming=streaming)
    take = _Taker(options)
    assigned = take("assign", read_assignment)
    topics = take("subscribe", _topics)
    pattern = take("subscribePattern", _pattern)
    if sum(each is not None for each in (assigned, topics, pattern)) != 1:
        raise ConfigError("exactly one of the options assign, subscribe and subscribePattern says what is read")
    starting = _where(take, "starting", "latest" if streaming else "earliest")
    most, least = take("maxOffsetsPerTrigger", _count), take("minOffsetsPerTrigger", _count)
    if most is not None and least is not None and least > most:
        raise ConfigError(f"options minOffsetsPerTrigger={least} and maxOffsetsPerTrigger={most}: no trigger can have both")
    if not streaming:
        _check_not_latest(starting)
    return SourceOptions(
        assigned=assigned,
        topics=topics,
        pattern=pattern,
        starting=starting,
        ending=_where(take, "ending", "latest"),
        latest_where_no_time=take.or_else("startingOffsetsByTimestampStrategy", _strategy, False),
        fail_on_data_loss=take.or_else("failOnDataLoss", _flag, True),
        include_headers=take.or_else("includeHeaders", _flag, False),
        partitions_min=take("minPartitions", _count),
        records_per_partition_max=take("maxRecordsPerPartition", _count),
        offsets_per_trigger_max=most,
        offsets_per_trigger_min=least,
        trigger_delay_max_ms=take.or_else("maxTriggerDelay", _delay_ms, 900_000),
        offset_retries=take.or_else("fetchOffset.numRetries", _number, 3),
        offset_retry_interval_ms=take.or_else("fetchOffset.retryIntervalMs", _number, 10),
        isolation=take.or_else("kafka.isolation.level", _isolation, Isolation.READ_COMMITTED),
        limits=_limits(take),
    )


def includes_headers(given: Mapping[str, str]) -> bool:
    """The one option that changes the schema."""
    return _Taker({key.lower(): value for key, value in given.items()}).or_else("includeHeaders", _flag, False)


def kafka_settings(given: Mapping[str, str]) -> KafkaSettings:
    """The connection settings: the options `kafka.*` that do not concern reading. Raises ConfigError."""
    kafka = {key.lower().removeprefix(KAFKA): value for key, value in given.items() if key.lower().startswith(KAFKA)}
    for key in TUNES_CONSUMERS & kafka.keys():
        log.info("kafka.%s has no meaning for this reader, and is ignored", key)
    connection = {key: value for key, value in kafka.items() if key not in READING and key not in TUNES_CONSUMERS}
    if "bootstrap.servers" not in connection:
        raise ConfigError("the option kafka.bootstrap.servers is missing: give at least one broker as 'host:port'")
    return KafkaSettings(read_kafka_options(connection))


def connection_settings(kafka: KafkaSettings) -> Settings:
    """The same as a producer's settings in this process: files are found and stores opened. Raises ConfigError."""
    return read_settings(kafka.resolve())


class _Taker:
    """Read options with functions of (name, value)."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._options = options

    def __call__(self, name: str, read: Callable[[str, str], T]) -> T | None:
        value = self._options.get(name.lower())
        return None if value is None else read(name, value)

    def or_else(self, name: str, read: Callable[[str, str], T], default: T) -> T:
        found = self(name, read)
        return default if found is None else found


def _check_names(options: Mapping[str, str], *, streaming: bool) -> None:
    known = {name.lower(): name for name in NAMES}
    elsewhere = {name.lower() for name in (BATCH_ONLY if streaming else STREAM_ONLY)}
    for key, value in options.items():
        if key in REFUSED:
            raise ConfigError(f"option {key}={value!r}: {REFUSED[key]}")
        if key in elsewhere:
            raise ConfigError(f"option {known[key]}: it is for {'batch' if streaming else 'streaming'} queries only")
        if key in known or key.startswith(KAFKA):
            continue
        near = difflib.get_close_matches(key, [*known, *(KAFKA + name for name in READING), "kafka.bootstrap.servers"], n=1, cutoff=0.6)
        hint = f"; did you mean {known.get(near[0], near[0])!r}?" if near else ""
        raise ConfigError(f"unknown option {key!r}{hint}")


def _where(take: _Taker, which: str, default: str) -> Where:
    """The most specific option decides, as in Spark: one time for all, then times, then offsets."""
    name = f"{which}Timestamp"
    timestamp_ms = take(name, _number)
    if timestamp_ms is not None:
        return Where(timestamp_ms=timestamp_ms, option=name)
    name = f"{which}OffsetsByTimestamp"
    timestamps_ms = take(name, lambda option, text: read_numbers(option, text, least=0))
    if timestamps_ms is not None:
        return Where(timestamps_ms=timestamps_ms, option=name)
    name = f"{which}Offsets"
    words = {"latest": LATEST} | ({"earliest": EARLIEST} if which == "starting" else {})

    def read(option: str, text: str) -> Where:
        if text.lower() in words:
            return Where(special=words[text.lower()], option=option)
        if not text.lstrip().startswith("{"):
            raise ConfigError(f"option {option}={text!r}: {' or '.join(map(repr, words))}, or offsets as JSON")
        return Where(offsets=read_numbers(option, text, least=min(words.values())), option=option)

    return take.or_else(name, read, Where(special=words[default], option=name))


def _check_not_latest(starting: Where) -> None:
    """A batch query that starts at the end would read nothing; Spark's source refuses it, too."""
    if starting.special == LATEST:
        raise ConfigError("option startingOffsets='latest': starting offset can't be latest for batch queries on Kafka")
    for (topic, partition), offset in (starting.offsets or {}).items():
        if offset == LATEST:
            raise ConfigError(f"option startingOffsets: that of {topic}-{partition} can't be latest ({LATEST}) for batch queries on Kafka")


def _limits(take: _Taker) -> Limits:
    default = Limits()
    fetch_bytes = take.or_else("kafka.max.partition.fetch.bytes", _count, default.fetch_bytes)
    return Limits(
        fetch_bytes=min(fetch_bytes, take.or_else("kafka.fetch.max.bytes", _count, fetch_bytes), FETCH_BYTES_MAX),
        fetch_min_bytes=take.or_else("kafka.fetch.min.bytes", _number, default.fetch_min_bytes),
        fetch_max_wait_ms=take.or_else("kafka.fetch.max.wait.ms", _number, default.fetch_max_wait_ms),
        timeout_ms=take.or_else("kafkaConsumer.pollTimeoutMs", _count, int(default.timeout_ms)),
    )


def _topics(name: str, text: str) -> tuple[str, ...]:
    topics = tuple(sorted({topic.strip() for topic in text.split(",") if topic.strip()}))
    if not topics:
        raise ConfigError(f"option {name}={text!r}: topics with commas between them")
    return topics


def _pattern(name: str, text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise ConfigError(f"option {name}={text!r}: no regular expression: {error}") from None
    return text


def _number(name: str, text: str) -> int:
    if not text.strip().isdecimal() or int(text) >= 1 << 63:
        raise ConfigError(f"option {name}={text!r}: a whole number from 0 on")
    return int(text)


def _count(name: str, text: str) -> int:
    if _number(name, text) == 0:
        raise ConfigError(f"option {name}={text!r}: a whole number from 1 on")
    return int(text)


def _flag(name: str, text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ConfigError(f"option {name}={text!r}: true or false")
    return text.lower() == "true"


def _one_of(name: str, text: str, allowed: Mapping[str, Any]) -> Any:
    if text.lower() not in allowed:
        raise ConfigError(f"option {name}={text!r}: {' or '.join(allowed)}")
    return allowed[text.lower()]


def _strategy(name: str, text: str) -> bool:
    return bool(_one_of(name, text, {"error": False, "latest": True}))


def _isolation(name: str, text: str) -> Isolation:
    return Isolation(_one_of(name, text, {each.value: each.value for each in Isolation}))


def _delay_ms(name: str, text: str) -> int:
    found = DELAY.fullmatch(text)
    if found is None:
        raise ConfigError(f"option {name}={text!r}: a duration such as '500ms', '30s' or '15m'")
    return int(found[1]) * DELAY_MS[(found[2] or "ms").lower()]
