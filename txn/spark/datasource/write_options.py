"""The options of `format("fencepost")` for writing: `kafka.*`, `topic` or `topics`, and the writer's settings in Spark's spelling.

An option that needs the DataFrame (to run it again, to route it, to choose a guard) is refused with the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from msgspec import Struct

from fencepost.producer.errors import ConfigError, Misuse
from fencepost.txn.spark.connection.options import read_options
from fencepost.txn.spark.connection.secrets import KafkaSettings
from fencepost.txn.spark.sink.settings import WriterSettings

CHECKPOINT: Final = "checkpointlocation"
SINK: Final = "sinkId"
TOPICS: Final = "topics"

FOREACH: Final = "ExactlyOnceKafkaWriter with foreachBatch can"
REFUSED: Final = {
    "guard": 'the guard here is always "kafka-claims"',
    "tasks": "a data source gets its rows in the tasks of the DataFrame: repartition or coalesce that",
    "stage": f"a data source cannot prepare rows before they are written; {FOREACH}",
    "maxReruns": f"a data source is not asked twice: a batch that fails fails its query; {FOREACH} write it again",
}


class SinkOptions(Struct, frozen=True, kw_only=True):
    """The options that were given. `topic`: the topic of all rows, None if a column names it. `topics`: the possible topics, or none if
    they were not given. `job`, `version`: those of a batch write. `checkpoint`: that of a query."""

    settings: WriterSettings
    kafka: KafkaSettings
    topic: str | None
    topics: tuple[str, ...]
    job: str | None = None
    version: int | None = None
    checkpoint: str | None = None


def _number(name: str, text: str) -> int:
    if not text.strip().isdecimal():
        raise ConfigError(f"option {name}={text!r}: a whole number from 0 on")
    return int(text)


def _text(name: str, text: str) -> str:
    return text


def _names(name: str, text: str) -> tuple[str, ...]:
    names = tuple(sorted({each.strip() for each in text.split(",") if each.strip()}))
    if not names:
        raise ConfigError(f"option {name}={text!r}: topics with commas between them")
    return names


OWN: Final[dict[str, tuple[str, Callable[[str, str], Any]]]] = {
    SINK: ("sink_id", _text),
    TOPICS: ("topics", _names),
    "onBadRow": ("on_bad_row", _text),
    "badRowLimit": ("bad_row_limit", _number),
    "onNewCheckpoint": ("on_new_checkpoint", _text),
    "onMissingLedger": ("on_missing_ledger", _text),
    "onGap": ("on_gap", _text),
    "transactionTimeoutMs": ("transaction_timeout_ms", _number),
    "timeoutMs": ("timeout_ms", _number),
    "ledgerTopic": ("ledger_topic", _text),
    "claimsTopic": ("claims_topic", _text),
    "transactionalIdPrefix": ("transactional_id_prefix", _text),
}
"""The settings that are options, their names in Python, and how their text is read."""
STREAM_ONLY: Final = ("onNewCheckpoint", "onMissingLedger", "onGap")
JOB: Final = "jobId"
VERSION: Final = "version"


def read_sink_options(given: Mapping[str, str], *, streaming: bool) -> SinkOptions:
    """Raises ConfigError, or Misuse for a combination that is not possible."""
    options = {key.lower(): value for key, value in given.items()}
    for name, reason in REFUSED.items():
        if name.lower() in options:
            raise ConfigError(f"option {name}={options[name.lower()]!r}: {reason}")
    found = read_options(given, own=(*OWN, JOB, VERSION))
    own = found.own
    for name in (JOB, VERSION) if streaming else STREAM_ONLY:
        if name in own:
            raise ConfigError(f"option {name}={own[name]!r}: it is for {'batch' if streaming else 'streaming'} writes only")
    if SINK not in own:
        raise ConfigError(f"the option {SINK} is missing: a name for this sink, the same after a restart, another for each query and sink")
    if found.topic is not None and TOPICS in own:
        raise ConfigError(
            f"options topic={found.topic!r} and topics={own[TOPICS]!r}: give topic if all rows go to one (it overrides a"
            " column), or topics if a column topic names it"
        )
    checkpoint = options.get(CHECKPOINT)
    if streaming and checkpoint is None:
        raise Misuse(
            "the option checkpointLocation is missing: set it to the query's checkpoint. The sink reads the batch's number and fingerprint"
            " there. Spark does not pass the default of spark.sql.streaming.checkpointLocation to data sources"
        )
    settings = {field: read(name, str(own[name])) for name, (field, read) in OWN.items() if name in own}
    dead_letter_topic = settings.get("on_bad_row")
    if dead_letter_topic is not None and dead_letter_topic in (found.topic, *settings.get("topics", ())):
        raise ConfigError(f"option onBadRow={dead_letter_topic!r}: a topic of its own, none of the sink's")
    read_settings = WriterSettings(topic=found.topic, guard="kafka-claims", **settings)
    topics = (found.topic,) if found.topic is not None else read_settings.topics or ()
    return SinkOptions(
        settings=read_settings,
        kafka=found.kafka,
        topic=found.topic,
        topics=topics,
        job=own.get(JOB),
        version=_number(VERSION, str(own[VERSION])) if VERSION in own else None,
        checkpoint=checkpoint if streaming else None,
    )
