"""The settings of a pipeline with their defaults, checked when a pipeline is made. `consumer_settings` makes a consumer's of them."""

from __future__ import annotations

import re
import secrets
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct

from fencepost.producer.base_producer import check_topic
from fencepost.producer.errors import ConfigError, FencepostError
from fencepost.txn.loop.checks import INT32_MAX, check_producer, check_text, check_within, unknown
from fencepost.txn.loop.functions import is_async
from fencepost.txn.loop.transaction_settings import PAUSE_MAX_MS, check_transaction_timeout, longest_pause, transaction_settings
from fencepost.txn.pipeline.stats import PipelineStats

RANGES: Final = {
    "batch_size": (1, 1_000_000),
    "batch_ms": (1, INT32_MAX),
    "attempts": (1, 1_000_000),
    "retry_backoff_ms": (1, INT32_MAX),
    "retry_backoff_max_ms": (1, INT32_MAX),
    "concurrency": (1, 100_000),
    "transaction_timeout_ms": (1, INT32_MAX),
    "call_timeout_ms": (1, INT32_MAX),
    "stop_timeout_ms": (0, INT32_MAX),
    "aborts_max": (0, INT32_MAX),
    "progress_ms": (0, INT32_MAX),
}
"""Whole numbers, from and to."""
PATTERN: Final = "^"
"""A source that begins with it is a regular expression."""
REQUIRED: Final = {
    "source": "the topic to read, or a list of topics",
    "group": "the name of the consumer group",
    "bootstrap_servers": "host:port of a broker",
}
OTHERS: Final = "settings of the consumer go into consumer={...}, of the producer into producer={...}"


class PipelineSettings(Struct, frozen=True, kw_only=True):
    """Times in milliseconds. docs/pipelines.md has these in a table."""

    bootstrap_servers: str | Sequence[str]
    """Where brokers listen, for the consumer and the producer."""
    source: str | Sequence[str]
    """The topics to read. A name that begins with ^ is a regular expression."""
    group: str
    """The consumer group. Its committed offsets say what has been processed."""
    sink: str | None = None
    """The topic of records that name none."""
    transform: Callable[[Any], object] | None = None
    """What makes records of one message: returns None, bytes, a (key, value) pair, an `OutputRecord`, or a list of these."""
    transform_many: Callable[[list[Any]], object] | None = None
    """What makes records of a list of messages: returns a list of rows as `send_many` takes them, or of `OutputRecord`s."""
    batch_size: int = 10_000
    """How many messages one transaction takes at most."""
    batch_ms: int = 100
    """How long a transaction collects messages before it is committed."""
    attempts: int = 3
    """How often the transform is tried for a message."""
    dead_letters: str | None = None
    """The topic for messages that cannot be processed. None: the pipeline commits everything before such a message, and stops."""
    retry_backoff_ms: int = 100
    """The first pause before something is tried again; it grows exponentially, with jitter."""
    retry_backoff_max_ms: int = PAUSE_MAX_MS
    """The longest pause. If it is left out, half of a `transaction_timeout_ms` that is less than 20,000."""
    concurrency: int = 100
    """How many calls of an async transform run at once."""
    instance: str | None = None
    """A name of this process among the group's, the same after a restart: the group.instance.id, and part of the transactional id."""
    transactional_id: str | None = None
    """None: the group and the instance, or the group and a random text."""
    transaction_timeout_ms: int = 30_000
    """The coordinator aborts a transaction that is open for longer."""
    call_timeout_ms: int = 30_000
    """How long one call to the brokers waits before it is logged and made again."""
    stop_timeout_ms: int = 30_000
    """How long the pipeline may take to commit the open batch after `stop`."""
    aborts_max: int = 10
    """How many transactions in a row may be aborted before the pipeline gives up."""
    progress_ms: int = 10_000
    """How often the progress line is logged; 0 for never."""
    on_progress: Callable[[PipelineStats], object] | None = None
    """Called with the statistics at each progress line."""
    connection: Mapping[str, Any] = {}
    """Security settings for the consumer and the producer, in Kafka's dotted names."""
    consumer: Mapping[str, Any] = {}
    """More settings of the consumer, in librdkafka's names."""
    producer: Mapping[str, Any] = {}
    """More settings of the producer."""

    @property
    def topics(self) -> list[str]:
        """The topics to read."""
        return [self.source] if isinstance(self.source, str) else list(self.source)

    @property
    def servers(self) -> str:
        """The brokers as librdkafka takes them."""
        return self.bootstrap_servers if isinstance(self.bootstrap_servers, str) else ",".join(self.bootstrap_servers)

    @property
    def call_s(self) -> float:
        return self.call_timeout_ms / 1000.0


def read_pipeline_settings(given: Mapping[str, Any], *, on_loop: bool) -> PipelineSettings:
    """The settings, checked. `on_loop`: an async transform is possible. Raises ConfigError."""
    for name in given:
        if name not in PipelineSettings.__struct_fields__:
            raise unknown(name, PipelineSettings.__struct_fields__, OTHERS)
    for name, what in REQUIRED.items():
        if not given.get(name):
            raise ConfigError(f"{name} is missing: {what}")
    settings = PipelineSettings(**longest_pause(given), **given)
    for name, (least, most) in RANGES.items():
        check_within(name, getattr(settings, name), least, most)
    for name in ("group", "instance", "transactional_id"):
        check_text(name, getattr(settings, name), optional=name != "group")
    for name in ("connection", "consumer", "producer"):
        if not isinstance(getattr(settings, name), Mapping):
            raise ConfigError(f"{name}={getattr(settings, name)!r:.300}: a mapping of settings")
    _check_topics(settings)
    _check_transform(settings, on_loop=on_loop)
    check_producer(settings.producer, "pipeline")
    check_transaction_timeout(settings)
    return settings


def producer_settings(settings: PipelineSettings) -> dict[str, Any]:
    """The settings of the transactional producer."""
    transactional_id = settings.transactional_id or f"{settings.group}.{settings.instance or secrets.token_hex(8)}"
    return transaction_settings(settings, transactional_id, {**settings.connection, **settings.producer})


def _check_topics(settings: PipelineSettings) -> None:
    """Each topic has a legal name and one purpose."""
    source: Any = settings.source
    if not isinstance(source, str | Sequence) or isinstance(source, bytes) or not all(isinstance(each, str) and each for each in source):
        raise ConfigError(f"source={source!r:.300}: the name of a topic, or a list of names")
    named = {f"source={name!r}": name for name in settings.topics if not name.startswith(PATTERN)}
    named |= {f"{name}={topic!r}": topic for name in ("sink", "dead_letters") if (topic := getattr(settings, name)) is not None}
    for what, topic in named.items():
        try:
            check_topic(topic)
        except (FencepostError, ValueError, TypeError) as error:
            raise ConfigError(f"{what}: {error}") from None
    for name in ("sink", "dead_letters"):
        if getattr(settings, name) in settings.topics:
            raise ConfigError(
                f"{name}={getattr(settings, name)!r}: the pipeline reads this topic, so it would process its own output forever"
            )
    for name in ("sink", "dead_letters"):
        for pattern in settings.topics:
            if pattern.startswith(PATTERN) and matches(pattern, getattr(settings, name) or "", whole=_is_matched_by_brokers(settings)):
                raise ConfigError(
                    f"{name}={getattr(settings, name)!r}: the source {pattern!r} matches it, so the pipeline would process its own output"
                    " forever. Give the topic a name that the pattern does not match"
                )
    if settings.dead_letters is not None and settings.dead_letters == settings.sink:
        raise ConfigError(f"dead_letters={settings.dead_letters!r}: a topic of its own, not the sink")


def matches(pattern: str, topic: str, *, whole: bool) -> bool:
    """Whether a pattern of the source matches the topic, as far as Python can tell. `whole`: it must match the whole name."""
    try:
        with warnings.catch_warnings(action="ignore"):  # about classes such as [[:alpha:]], which Python reads in its own way
            found = re.compile(pattern)
    except re.error:
        return False  # librdkafka and the brokers have expressions of their own. `Source` looks again at what is assigned
    return bool(topic) and (found.fullmatch(topic) if whole else found.match(topic)) is not None


def _is_matched_by_brokers(settings: PipelineSettings) -> bool:
    """With the consumer protocol (KIP-848) brokers match patterns, and with whole names only."""
    return str(settings.consumer.get("group.protocol", "")).lower() == "consumer"


def _check_transform(settings: PipelineSettings, *, on_loop: bool) -> None:
    given = {name: function for name in ("transform", "transform_many") if (function := getattr(settings, name)) is not None}
    if len(given) != 1:
        raise ConfigError("give one of transform (of one message) and transform_many (of a list of messages)")
    for name, function in given.items():
        if not callable(function):
            raise ConfigError(f"{name}={function!r:.300}: it must be a function")
        if is_async(function) and not on_loop:
            raise ConfigError(f"{name}={function!r:.300} is an async function: use AsyncPipeline")
    if settings.on_progress is not None and not callable(settings.on_progress):
        raise ConfigError(f"on_progress={settings.on_progress!r:.300}: it must be a function")
