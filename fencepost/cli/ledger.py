"""`fencepost ledger`: shows the newest micro-batch of each sink in the ledger, and deletes a sink's entry.

`list` and `show` register no transactional id and create nothing. They show the entries that are committed at this moment.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from fencepost.cli.error_lines import NO, CommandError
from fencepost.cli.options import ClusterOptions, Json, asking_as
from fencepost.cli.output import say
from fencepost.cli.tables import moment, show, show_fields
from fencepost.txn.ledger.ledger import TOPIC, Found, Ledger

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    T = TypeVar("T")

ledger = typer.Typer(help="Show the ledger of exactly-once micro-batches, and delete a sink's entry.", no_args_is_help=True)

asks_cluster = asking_as("fencepost-ledger")

Sink = Annotated[str, typer.Argument(metavar="SINK", help="The sink's id; SINK#JOB for a job of write_once.")]
Topic = Annotated[str, typer.Option(metavar="NAME", help="The ledger's topic.")]

COLUMNS: Final = ("sink", "query", "batch", "rows", "written", "partition", "offset", "open", "trouble")


@ledger.command("list")
@asks_cluster
def list_sinks(json: Json = False, topic: Topic = TOPIC, *, cluster: ClusterOptions) -> None:
    """List the newest committed entry of every sink."""
    kept = _ledger(cluster, topic)
    found = _ask(cluster, topic, lambda: kept.look(cluster.timeout_s))
    rows = [row for key, each in found.items() if (row := _row(kept, key, each)) is not None]
    show(rows, json=json, columns=COLUMNS)


@ledger.command("show")
@asks_cluster
def show_sink(
    sink: Sink,
    json: Json = False,
    topic: Topic = TOPIC,
    *,
    cluster: ClusterOptions,
) -> None:
    """Show the newest committed entry of a sink. Exit code 1 if there is none."""
    row = _row_of(_ledger(cluster, topic), sink, cluster, topic)
    partitions = [f"{name}-{index}: {count} from {first}" for name, index, count, first in row["partitions"]]
    show_fields(row if json else {**row, "partitions": partitions}, json=json)


@ledger.command("reset")
@asks_cluster
def reset_sink(
    sink: Sink,
    yes: Annotated[bool, typer.Option("--yes", help="Confirm: afterwards the query may write batches again that the sink has.")] = False,
    json: Json = False,
    topic: Topic = TOPIC,
    transactional_id: Annotated[
        str | None, typer.Option(metavar="ID", help="The sink's transactional id, if its entry does not name it. [fencepost.SINK]")
    ] = None,
    *,
    cluster: ClusterOptions,
) -> None:
    """Delete a sink's entry in the ledger. Stop the sink's query first. Exit code 1 if there is no entry."""
    kept = _ledger(cluster, topic)
    row = _row_of(kept, sink, cluster, topic)
    has = f"batch {row['batch']}, written {row['written']}" if row["trouble"] is None else "an entry that cannot be read"
    if not yes:
        raise CommandError(f"sink {sink!r} has {has}; without the entry the query may write batches again: add --yes to delete it")
    _ask(cluster, topic, lambda: kept.reset(sink, cluster.timeout_s, transactional_id=transactional_id))
    if json:
        show([row], json=True, columns=())
    else:
        say(f"{sink}: entry deleted; it had {has}")


def _row_of(ledger: Ledger, sink: str, cluster: ClusterOptions, topic: str) -> dict[str, Any]:
    """The sink's entry. The command ends if there is none."""
    found = _ask(cluster, topic, lambda: ledger.look(cluster.timeout_s)).get(sink)
    row = _row(ledger, sink, found) if found is not None else None
    if row is None:
        raise CommandError(f"the ledger has no entry of sink {sink!r}", code=NO)
    return row


def _row(ledger: Ledger, key: str, found: Found) -> dict[str, Any] | None:
    """An entry with its partition and offset. For an unreadable entry it has the readable fields. None if no entry is committed."""
    from fencepost.txn.keyed_topic.errors import LedgerDamaged

    stored = found.stored
    if stored is None or (stored.value is None and not stored.plain):
        return None
    place = {"partition": stored.partition, "offset": stored.offset, "open": found.is_open}
    try:
        entry = ledger.entry_of(key, stored)
    except LedgerDamaged as error:
        blank = dict.fromkeys(("query", "batch", "fingerprint", "rows", "job", "transactional_id", "library"))
        return {"sink": key, **blank, "written": None, "partitions": [], **place, "trouble": str(error)}
    assert entry is not None
    return {
        "sink": key,
        "query": entry.query,
        "batch": entry.batch,
        "fingerprint": entry.fingerprint,
        "rows": entry.rows,
        "job": entry.job,
        "transactional_id": entry.transactional_id,
        "library": entry.library,
        "written": moment(entry.at_ms),
        "partitions": [[each.topic, each.partition, each.records, each.first_offset] for each in entry.partitions],
        **place,
        "trouble": None,
    }


def _ledger(cluster: ClusterOptions, topic: str) -> Ledger:
    return Ledger(cluster.settings(), topic)


def _ask(cluster: ClusterOptions, topic: str, ask: Callable[[], T]) -> T:
    with cluster.wait(f"the ledger {topic!r}"):
        return ask()
