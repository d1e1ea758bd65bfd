"""The text of `explain`: how a writer would write a DataFrame. It runs no job, takes no sink over, and writes and creates nothing.

It asks the cluster for the topics' partitions and the ledger's newest entry. It shows the settings without their secrets.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pyspark.sql import DataFrame

from fencepost.producer.config.reader import read_settings
from fencepost.producer.config.settings import Settings
from fencepost.producer.foundations.counted import counted
from fencepost.producer.wire.codes import Api, ErrorCode
from fencepost.txn.errors import TransactionTimeout
from fencepost.txn.ledger.batch_decision import describe
from fencepost.txn.ledger.ledger import Ledger
from fencepost.txn.protocol.ask_now import ask_patiently
from fencepost.txn.protocol.cluster_client import ClusterClient, Unanswered, refuse
from fencepost.txn.spark.errors import GuardUnavailable
from fencepost.txn.spark.rows.columns import KEY, PARTITION, SinkColumns, read_columns
from fencepost.txn.spark.rows.routing import Routes, shortened
from fencepost.txn.spark.sink.metrics import BatchMetrics
from fencepost.txn.spark.sink.write_execution import WriteExecution

WIDTH: Final = 13
AS_THEY_ARE: Final = "as many as Spark makes of the DataFrame"
WITH_EACH_BATCH: Final = "settled with each batch"
COLLECTED: Final = "the driver collects the rows without a shuffle"
STAY: Final = "rows are not shuffled"
MOVED: Final = {
    True: "one shuffle brings the rows of each partition into one task",
    False: "one shuffle spreads the rows over all partitions, so that more tasks write",
}
"""What a shuffle is for, by whether a column says where a row belongs."""
STAGING: Final = {
    "auto": "after a transaction that took too long, rows are prepared before anything of them is written",
    "always": "rows are prepared before anything of them is written",
    "never": "none",
}


def explain(execution: WriteExecution, df: DataFrame, topic: str | None = None) -> str:
    """The lines. Raises BadColumns if the DataFrame does not fit Kafka, TransactionTimeout if no broker answers."""
    settings = execution.settings
    columns = read_columns(df.schema, topic if topic is not None else settings.topic)
    resolved, timeout_ms = execution.kafka.resolve_owner(settings.transaction_timeout_ms)
    producer = read_settings(resolved)
    counts = _partitions(producer, _topics(columns, settings.topics), settings.timeout_s)
    lines = {
        "columns": _columns(df, columns),
        "topics": _named(counts) if counts else "those of the column topic, looked for in each batch, which reads it once more",
        **_execution(execution, df, columns, counts),
        "staging": f"{settings.stage}: {STAGING[settings.stage]}",
        "transaction": f"id {settings.transactional_id_prefix + settings.sink_id!r}, open for at most {timeout_ms} ms",
        "bad rows": "fail the batch" if settings.dead_letters is None else f"go to topic {settings.dead_letters!r} in the same transaction",
        "ledger": f"{settings.ledger_topic}: {_ledger(producer, settings.ledger_topic, settings.sink_id, settings.timeout_s)}",
        "settings": ", ".join(f"{name}={value}" for name, value in sorted(execution.kafka.shown().items())),
    }
    return "\n".join([f"sink {settings.sink_id!r}", *(f"  {name:<{WIDTH}}{text}" for name, text in lines.items())])


def _topics(columns: SinkColumns, topics: Sequence[str] | None) -> Sequence[str]:
    return (columns.topic,) if columns.topic is not None else topics or ()


def _columns(df: DataFrame, columns: SinkColumns) -> str:
    found = ", ".join(f"{name} {df.schema.fields[place].dataType.simpleString()}" for name, place in columns.by_place)
    ignored = [name for place, name in enumerate(df.columns) if place not in columns.places]
    return found + (f"; ignored: {shortened(ignored)}" if ignored else "")


def _named(counts: dict[str, int | None]) -> str:
    return ", ".join(
        f"{topic} ({counted(count, 'partition')})" if count is not None else f"{topic} (not there; the brokers may create it)"
        for topic, count in counts.items()
    )


def _routing(columns: SinkColumns, shuffle: str) -> str:
    by = " and ".join(each for each in (PARTITION, KEY) if each in columns.names)
    return f"by {by}{' (murmur2)' if KEY in columns.names else ''}: {shuffle}" if by else f"no column key or partition: {shuffle}"


def _execution(execution: WriteExecution, df: DataFrame, columns: SinkColumns, counts: dict[str, int | None]) -> dict[str, str]:
    known = {topic: count for topic, count in counts.items() if count is not None}
    if not known:
        return {
            "routing": _routing(columns, f"a shuffle is {WITH_EACH_BATCH}"),
            "tasks": WITH_EACH_BATCH,
            "guard": f"{execution.settings.guard}: {WITH_EACH_BATCH}",
        }
    routes = Routes.of(known)
    try:
        name, why = execution.choose_guard(df, BatchMetrics(sink=execution.settings.sink_id, query=None, batch=0))
        guard = f"{name}: {why}"
    except GuardUnavailable as error:
        name, guard = execution.settings.guard, f"unavailable: {error}"
    if name == "driver":
        shuffle = COLLECTED
    else:
        shuffle = MOVED[columns.placed] if execution.moves(df, routes, columns, name) else STAY
    return {
        "routing": _routing(columns, shuffle),
        "tasks": str(execution.tasks_for(df, routes, columns, name) or AS_THEY_ARE),
        "guard": guard,
    }


def _ledger(settings: Settings, topic: str, sink: str, timeout_s: float) -> str:
    ledger = Ledger(settings, topic)
    found = ledger.look(timeout_s).get(sink)
    return describe(ledger.entry_of(sink, found.stored) if found is not None else None)


def _partitions(settings: Settings, topics: Sequence[str], timeout_s: float) -> dict[str, int | None]:
    """The number of each topic's partitions, None for a missing topic."""

    async def ask(client: ClusterClient) -> dict[str, int | None]:
        counts: dict[str, int | None] = dict.fromkeys(topics)
        for each in (await client.metadata(topics)).topics:
            if each.name is not None and each.error_code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                refuse(Api.METADATA, each.error_code, f"topic {each.name!r}")
                counts[each.name] = len(each.partitions)
        return counts

    try:
        return ask_patiently(settings, ask, timeout_s) if topics else {}
    except Unanswered as error:
        raise TransactionTimeout(f"explain: no answer within {timeout_s:g} s: {error}") from None
