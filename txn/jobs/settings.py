"""The settings of a job with their defaults, checked when the job is made."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct

from fencepost.producer.base_producer import check_topic
from fencepost.producer.errors import ConfigError, FencepostError
from fencepost.txn.jobs.positions import ID_PREFIX, TOPIC
from fencepost.txn.jobs.stats import JobStats
from fencepost.txn.loop.checks import INT32_MAX, check_producer, check_text, check_within, unknown
from fencepost.txn.loop.functions import is_async
from fencepost.txn.loop.transaction_settings import PAUSE_MAX_MS, check_transaction_timeout, longest_pause, transaction_settings
from fencepost.txn.protocol.own_topics import check_own_topic

RANGES: Final = {
    "batch_size": (1, 1_000_000),
    "batch_ms": (1, INT32_MAX),
    "attempts": (1, 1_000_000),
    "retry_backoff_ms": (1, INT32_MAX),
    "retry_backoff_max_ms": (1, INT32_MAX),
    "transaction_timeout_ms": (1, INT32_MAX),
    "call_timeout_ms": (1, INT32_MAX),
    "stop_timeout_ms": (0, INT32_MAX),
    "aborts_max": (0, INT32_MAX),
    "progress_ms": (0, INT32_MAX),
}
"""Whole numbers, from and to."""
REQUIRED: Final = {"topic": "where to write", "bootstrap_servers": "host:port of a broker"}
OTHERS: Final = "settings of the producer go into producer={...}"


class JobSettings(Struct, frozen=True, kw_only=True):
    """Times in milliseconds. docs/jobs.md has these in a table."""

    bootstrap_servers: str | Sequence[str]
    """Where brokers listen."""
    topic: str
    """The topic of records that name none."""
    transform: Callable[[Any], object] | None = None
    """What makes records of one record of the source: returns None, bytes, a (key, value) pair, an `OutputRecord`, or a list of these."""
    batch_size: int = 10_000
    """How many records of the source one transaction takes at most."""
    batch_ms: int = 1_000
    """How long a transaction collects records before it is committed."""
    attempts: int = 3
    """How often the transform is tried for a record."""
    dead_letters: str | None = None
    """The topic for records that cannot be written. None: the job commits everything before such a record, and stops."""
    retry_backoff_ms: int = 100
    """The first pause before something is tried again; it grows exponentially, with jitter."""
    retry_backoff_max_ms: int = PAUSE_MAX_MS
    """The longest pause. If it is left out, half of a `transaction_timeout_ms` that is less than 20,000."""
    transactional_id: str | None = None
    """None: `fencepost-job.` and the job's name. The same for every run of the job."""
    transaction_timeout_ms: int = 30_000
    """The coordinator aborts a transaction that is open for longer."""
    call_timeout_ms: int = 30_000
    """How long one call to the brokers waits before it is logged and made again."""
    stop_timeout_ms: int = 30_000
    """How long the job may take to commit the open batch after `stop`."""
    aborts_max: int = 10
    """How many transactions in a row may be aborted before the job gives up."""
    progress_ms: int = 10_000
    """How often the progress line is logged; 0 for never."""
    on_progress: Callable[[JobStats], object] | None = None
    """Called with the statistics at each progress line."""
    positions_topic: str = TOPIC
    """The topic of positions."""
    producer: Mapping[str, Any] = {}
    """More settings of the producer."""

    @property
    def call_s(self) -> float:
        return self.call_timeout_ms / 1000.0


def read_job_settings(given: Mapping[str, Any], *, on_loop: bool) -> JobSettings:
    """The settings, checked. `on_loop`: an async transform is possible. Raises ConfigError."""
    for name in given:
        if name not in JobSettings.__struct_fields__:
            raise unknown(name, JobSettings.__struct_fields__, OTHERS)
    for name, what in REQUIRED.items():
        if not given.get(name):
            raise ConfigError(f"{name} is missing: {what}")
    settings = JobSettings(**longest_pause(given), **given)
    for name, (least, most) in RANGES.items():
        check_within(name, getattr(settings, name), least, most)
    check_text("transactional_id", settings.transactional_id, optional=True)
    if not isinstance(settings.producer, Mapping):
        raise ConfigError(f"producer={settings.producer!r:.300}: a mapping of settings")
    check_own_topic("positions_topic", settings.positions_topic)
    _check_topics(settings)
    _check_functions(settings, on_loop=on_loop)
    check_producer(settings.producer, "job")
    check_transaction_timeout(settings)
    return settings


def producer_settings(settings: JobSettings, job: str) -> dict[str, Any]:
    """The settings of the transactional producer."""
    transactional_id = settings.transactional_id or f"{ID_PREFIX}{job}"
    return transaction_settings(settings, transactional_id, settings.producer, existing_topics=[settings.positions_topic])


def _check_topics(settings: JobSettings) -> None:
    """Each topic has a legal name and one purpose."""
    for name in ("topic", "dead_letters"):
        topic = getattr(settings, name)
        if topic is None:
            continue
        try:
            check_topic(topic)
        except (FencepostError, ValueError, TypeError) as error:
            raise ConfigError(f"{name}={topic!r:.300}: {error}") from None
        if topic == settings.positions_topic:
            raise ConfigError(f"{name}={topic!r}: this is the topic of positions")
    if settings.dead_letters == settings.topic:
        raise ConfigError(f"dead_letters={settings.dead_letters!r}: a topic of its own, not the job's topic")


def _check_functions(settings: JobSettings, *, on_loop: bool) -> None:
    for name in ("transform", "on_progress"):
        function = getattr(settings, name)
        if function is not None and not callable(function):
            raise ConfigError(f"{name}={function!r:.300}: it must be a function")
    if is_async(settings.transform) and not on_loop:
        raise ConfigError(f"transform={settings.transform!r:.300} is an async function: use AsyncJob")
