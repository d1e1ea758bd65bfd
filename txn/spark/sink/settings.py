"""The settings of the Spark writer with their defaults, checked when they are set. `txn.spark.connection.options` reads the
connection's."""

from __future__ import annotations

from typing import Any, Final

from msgspec import Struct

from fencepost.producer.errors import ConfigError
from fencepost.txn.ledger.batch_decision import POLICIES
from fencepost.txn.ledger.entry import NAME_CHARS_MAX, ledger_key
from fencepost.txn.protocol.own_topics import check_own_topic
from fencepost.txn.spark.guards.selection import ADVICE, GUARDS

INT32_MAX: Final = 2_147_483_647
TEXT_CHARS_MAX: Final = 4_000
RANGES: Final = {
    "bad_row_limit": (1, INT32_MAX),
    "max_reruns": (0, INT32_MAX),
    "transaction_timeout_ms": (1, INT32_MAX),
    "timeout_ms": (1, INT32_MAX),
    "collect_bytes_max": (1, 1 << 60),
    "tasks": (1, INT32_MAX),
}
"""Whole numbers, from and to."""
STAGES: Final = ("auto", "always", "never")
NO_TOPIC_FOR_BAD_ROWS: Final = frozenset({"ignore", "skip", "drop", "raise", "permissive", "dropmalformed", "failfast"})
"""Policies of other systems. As a topic's name each is a mistake."""
LEDGER_TOPIC: Final = "__fencepost_ledger"
CLAIMS_TOPIC: Final = "__fencepost_claims"


class WriterSettings(Struct, frozen=True, kw_only=True):
    """Times in milliseconds. docs/spark.md has these in a table."""

    sink_id: str
    """Names the sink: its transactional id and its entry in the ledger. It stays the same after a restart, and differs for each query and
    sink."""
    topic: str | None = None
    """The topic of all rows; None if a column `topic` names it."""
    topics: tuple[str, ...] | None = None
    """With a column `topic`: the possible topics. Without this setting the writer looks for them first, which reads each batch once
    more."""
    guard: str = "auto"
    """The guard, which makes sure that exactly one attempt of each task wrote: `txn.spark.guards.guards`."""
    on_bad_row: str = "fail"
    """What happens to rows that can never be written: "fail", or the name of a topic for them in the same transaction."""
    bad_row_limit: int = 1000
    """With more bad rows in one write the batch fails, because the query rather than its rows is bad."""
    on_new_checkpoint: str = "error"
    """What happens to a batch of another query than the ledger's: "error", or "reset" to write it nevertheless."""
    on_missing_ledger: str = "error"
    """What happens to a later batch without a ledger entry of the sink: "error", or "start"."""
    on_gap: str = "error"
    """What happens to a batch if the ledger lacks those before it, and the checkpoint shows that they have read something: "error", or
    "write"."""
    stage: str = "auto"
    """Whether rows are prepared and kept before the first write: "always", "never", or "auto" after a transaction that took too long, for
    the rest of the query's run."""
    max_reruns: int = 2
    """How often a batch is written again in one call before the query fails."""
    transaction_timeout_ms: int = 300_000
    """How long a batch's transaction may be open; at most the brokers' transaction.max.timeout.ms (15 minutes by default)."""
    timeout_ms: int = 120_000
    """How long one call to the brokers may take."""
    tasks: int | None = None
    """How many Spark tasks write. None: with the guard turns as many as the DataFrame has, otherwise at most one for each Kafka
    partition."""
    collect_bytes_max: int = 16 * 1024 * 1024
    """How many bytes of rows the driver may collect to write them itself. With guard="auto" tasks write a larger batch."""
    checkpoint: str | None = None
    """The query's checkpointLocation, if Spark does not tell it (Spark Connect)."""
    query: str | None = None
    """A name for the query, if Spark does not tell it and the checkpoint's metadata must not be read."""
    ledger_topic: str = LEDGER_TOPIC
    """The topic of the ledger."""
    claims_topic: str = CLAIMS_TOPIC
    """The topic of the guard kafka-claims."""
    transactional_id_prefix: str = "fencepost."
    """The transactional id is this and the sink id."""

    def __post_init__(self) -> None:
        _text("sink_id", self.sink_id, NAME_CHARS_MAX)
        ledger_key(self.sink_id)
        _one_of("guard", self.guard, GUARDS, f"; {ADVICE}")
        _one_of("stage", self.stage, STAGES)
        for name, values in POLICIES.items():
            _one_of(name, getattr(self, name), values)
        for name, (least, most) in RANGES.items():
            _within(name, getattr(self, name), least, most)
        _names("topics", self.topics)
        if self.topic is not None:
            check_own_topic("topic", self.topic)
        for each in self.topics or ():
            check_own_topic("topics", each)
        if str(self.on_bad_row).lower() in NO_TOPIC_FOR_BAD_ROWS:
            raise ConfigError(f'on_bad_row={self.on_bad_row!r}: "fail", or the name of a topic for bad rows; no setting drops them')
        if self.on_bad_row != "fail":
            check_own_topic("on_bad_row", self.on_bad_row)
        if self.on_bad_row in (self.topic, *(self.topics or ())):
            raise ConfigError(f"on_bad_row={self.on_bad_row!r}: a topic of its own, none of the sink's")
        for name in ("checkpoint", "query"):
            if getattr(self, name) is not None:
                _text(name, getattr(self, name))
        if self.transactional_id_prefix != "":
            _text("transactional_id_prefix", self.transactional_id_prefix)
        self._check_own_topics()

    def _check_own_topics(self) -> None:
        """Each topic has one purpose."""
        rows = dict.fromkeys((*(self.topics or ()), *((self.topic,) if self.topic else ())), "rows go to")
        taken = {**rows, **({self.dead_letters: "bad rows go to (on_bad_row)"} if self.dead_letters else {})}
        for setting in ("ledger_topic", "claims_topic"):
            name = getattr(self, setting)
            check_own_topic(setting, name)
            if name in taken:
                raise ConfigError(f"{setting}={name!r}: a topic of its own, not the one that {taken[name]}")
            taken[name] = f"{setting} names"

    @property
    def own_topics(self) -> dict[str, str]:
        """Topics that no row may name, and their purpose: a row in the ledger would be read as an entry, and dead letters have another
        writer than the tasks."""
        own = {self.ledger_topic: "ledger_topic names", self.claims_topic: "claims_topic names"}
        return own if self.dead_letters is None else own | {self.dead_letters: "bad rows go to"}

    @property
    def timeout_s(self) -> float:
        return self.timeout_ms / 1000.0

    @property
    def dead_letters(self) -> str | None:
        """The topic of dead letters."""
        return None if self.on_bad_row == "fail" else self.on_bad_row

    @property
    def bad_rows_taken(self) -> int:
        """The largest number of bad rows in a write."""
        return 0 if self.dead_letters is None else self.bad_row_limit


NAMES: Final = frozenset(WriterSettings.__struct_fields__)


def _one_of(name: str, value: Any, values: tuple[str, ...], advice: str = "") -> None:
    if value not in values:
        raise ConfigError(f"{name}={value!r}: one of {', '.join(map(repr, values))}{advice}")


def _within(name: str, value: Any, least: int, most: int) -> None:
    if value is None and name == "tasks":
        return
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise ConfigError(f"{name}={value!r}: a whole number from {least} to {most}")


def _text(name: str, value: Any, most: int = TEXT_CHARS_MAX) -> None:
    if not isinstance(value, str) or not value.strip() or len(value) > most or "\0" in value:
        shown = f"{value!r:.300}"
        raise ConfigError(f"{name}={shown}: a text that is not empty, of at most {most} characters and without a NUL")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ConfigError(f"{name}={value!r:.300}: a text that UTF-8 can hold") from None


def _names(name: str, value: Any) -> None:
    if value is None or (isinstance(value, tuple) and value and all(isinstance(each, str) and each.strip() for each in value)):
        return
    raise ConfigError(f"{name}={value!r}: a list of topics' names, at least one")
