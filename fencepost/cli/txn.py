"""`fencepost txn`: transactions as their coordinators know them. `txn_ends` ends prepared ones, `txn_hanging` those that hang.

No command registers a transactional id, so none fences a producer.
"""

from __future__ import annotations

import time
from functools import partial
from typing import Annotated, Final

import typer

from fencepost.cli.error_lines import NO, CommandError
from fencepost.cli.numbers import a_number
from fencepost.cli.options import TRANSACTION_STATES, ClusterOptions, Json, asks_about_transactions
from fencepost.cli.tables import moment, show, show_fields
from fencepost.cli.txn_ends import abort, commit, status
from fencepost.cli.txn_hanging import abort_hanging, commit_hanging, find_hanging

txn = typer.Typer(help="Show transactions, end prepared ones by their tokens, and find and end those that hang.", no_args_is_help=True)

HUNDRED_YEARS_S: Final = 3_155_760_000
STATES: Final = tuple(TRANSACTION_STATES.values())


@txn.command("list")
@asks_about_transactions
def list_ids(
    state: Annotated[
        list[str] | None,
        typer.Option(help=f"Only with this state, in any case; repeatable. One of {', '.join(STATES)}."),
    ] = None,
    longer_than: Annotated[
        float | None,
        typer.Option(
            min=0, max=HUNDRED_YEARS_S, metavar="SECONDS", callback=a_number, help="Only transactions that have been open for longer."
        ),
    ] = None,
    pattern: Annotated[str | None, typer.Option(metavar="REGEX", help="Only ids that match completely (Kafka 4.1 or newer).")] = None,
    json: Json = False,
    *,
    cluster: ClusterOptions,
) -> None:
    """List the transactional ids that coordinators know."""
    from fencepost.cli.txn_asking import list_transactions

    asked = partial(
        list_transactions,
        states=[TRANSACTION_STATES.get(each.lower(), each) for each in state or ()],
        longer_than_ms=-1 if longer_than is None else int(longer_than * 1000),
        pattern=pattern,
    )
    found = cluster.ask(asked)
    rows = [
        {
            "transactional_id": each.transactional_id,
            "coordinator": each.coordinator,
            "producer_id": each.producer_id,
            "state": each.state,
        }
        for each in found
    ]
    show(rows, json=json, columns=tuple(rows[0]) if rows else ())


@txn.command()
@asks_about_transactions
def describe(
    transactional_id: Annotated[str, typer.Argument(metavar="ID", help="The transactional id.")],
    json: Json = False,
    *,
    cluster: ClusterOptions,
) -> None:
    """Show what the coordinator of an id knows about it. Exit code 1 if no coordinator knows the id."""
    from fencepost.cli.txn_asking import described

    asked = partial(described, transactional_id=transactional_id)
    said, coordinator = cluster.ask(asked)
    if said is None:
        raise CommandError(f"no coordinator knows transactional id {transactional_id!r}", code=NO)
    begun_ms = said.transaction_start_time_ms
    row = {
        "transactional_id": said.transactional_id,
        "coordinator": coordinator,
        "producer_id": said.producer_id,
        "epoch": said.producer_epoch,
        "state": said.transaction_state,
        "timeout_ms": said.transaction_timeout_ms,
        "started": moment(begun_ms) if begun_ms >= 0 else None,
        "open_s": round(time.time() - begun_ms / 1000.0, 1) if begun_ms >= 0 else None,
        "partitions": [f"{topic.topic}-{index}" for topic in said.topics for index in topic.partitions],
    }
    show_fields(row, json=json)


txn.command()(commit)
txn.command()(abort)
txn.command()(status)
txn.command("find-hanging")(find_hanging)
txn.command("abort-hanging")(abort_hanging)
txn.command("commit-hanging")(commit_hanging)
