"""`fencepost txn find-hanging`, `abort-hanging`, `commit-hanging`: open transactions in a partition that no coordinator will end.

The rule is that of Kafka's own tool. The transaction got no record for longer than any transaction may be open, and the coordinator does
not plan to write a marker to the partition. Unlike Kafka's tool, `abort-hanging` refuses a transaction that a coordinator still has or has
committed.
"""

from __future__ import annotations

import time
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Final

import typer

from fencepost.cli.error_lines import NO, USAGE, CommandError
from fencepost.cli.options import TXN_CLIENT_ID, ClusterOptions, Json, asking_as
from fencepost.cli.output import say, warn
from fencepost.cli.tables import moment, show
from fencepost.producer.foundations.counted import counted

if TYPE_CHECKING:
    from fencepost.cli.txn_asking import OpenTransaction, Owner
    from fencepost.txn.protocol.cluster_client import ClusterClient

MINUTE_MS: Final = 60_000
LONG_S: Final = 60.0


@asking_as(TXN_CLIENT_ID, timeout_s=LONG_S)
def find_hanging(
    topic: Annotated[str | None, typer.Option(help="Only in this topic.")] = None,
    partition: Annotated[int | None, typer.Option(min=0, help="Only in this partition of it.")] = None,
    broker_id: Annotated[int | None, typer.Option(min=0, help="Only in partitions that this broker leads.")] = None,
    max_transaction_timeout: Annotated[
        int,
        typer.Option(
            min=0,
            metavar="MINUTES",
            help="Only transactions without a new record for longer; at least the brokers' transaction.max.timeout.ms.",
        ),
    ] = 15,
    json: Json = False,
    *,
    cluster: ClusterOptions,
) -> None:
    """List open transactions that no coordinator will end. Exit code 1 if there are any."""
    from fencepost.cli.txn_asking import open_transactions, owners

    if partition is not None and topic is None:
        raise CommandError("--partition needs --topic")

    async def look(client: ClusterClient) -> tuple[list[tuple[OpenTransaction, Owner | None]], int, dict[str, str]]:
        found, left_out = await open_transactions(client, topic=topic, partition=partition, broker=broker_id)
        newest_ms = time.time() * 1000 - max_transaction_timeout * MINUTE_MS
        old = [each for each in found if each.last_timestamp_ms <= newest_ms]
        theirs = await owners(client, old)
        known = [(each, theirs.get(each)) for each in old]
        return [(each, owner) for each, owner in known if owner is None or not owner.has_it], len(found) - len(old), left_out

    hanging, young, left_out = cluster.ask(look)
    for reason in left_out.values():
        warn(f"fencepost txn find-hanging: not checked: {reason}")
    if topic is not None and topic in left_out and not hanging:
        raise typer.Exit(USAGE)
    rows = [
        {
            "topic": each.topic,
            "partition": each.partition,
            "start_offset": each.start_offset,
            "producer_id": each.producer_id,
            "epoch": each.producer_epoch,
            "coordinator_epoch": each.coordinator_epoch,
            "last_record": moment(each.last_timestamp_ms) if each.last_timestamp_ms >= 0 else None,
            "outcome": owner.outcome.name if owner is not None and owner.outcome is not None else None,
        }
        for each, owner in hanging
    ]
    show(rows, json=json, columns=tuple(rows[0]) if rows else ())
    if not json:
        for each, owner in hanging:
            warn(f"to end it: {_ending(each, owner)}")
        if young:
            younger = f"{counted(young, 'open transaction')} with a record in the last {counted(max_transaction_timeout, 'minute')}"
            warn(f"not looked at: {younger}; a smaller --max-transaction-timeout includes more")
    raise typer.Exit(NO if hanging else 0)


def _ending(hanging: OpenTransaction, owner: Owner | None) -> str:
    """The command that ends it as its coordinator did, as far as that is known. `abort-hanging` refuses what is committed."""
    from fencepost.txn.recovery.outcome import Outcome

    command = "commit-hanging" if owner is not None and owner.outcome is Outcome.COMMITTED else "abort-hanging"
    place = f"--topic {quote(hanging.topic)} --partition {hanging.partition} --start-offset {hanging.start_offset}"
    return f"fencepost txn {command} {place}"


Topic = Annotated[str, typer.Option(help="The topic.")]
Partition = Annotated[int, typer.Option(min=0, help="The partition.")]


@asking_as(TXN_CLIENT_ID)
def abort_hanging(
    topic: Topic,
    partition: Partition,
    start_offset: Annotated[int | None, typer.Option(min=0, help="The transaction's first offset, as find-hanging shows it.")] = None,
    producer_id: Annotated[int | None, typer.Option(min=0, help="Instead of --start-offset: the transaction's producer id,")] = None,
    producer_epoch: Annotated[int | None, typer.Option(min=0, max=32_767, help="its producer epoch,")] = None,
    coordinator_epoch: Annotated[int | None, typer.Option(min=0, help="and its coordinator epoch.")] = None,
    force: Annotated[
        bool,
        typer.Option("--force", help="Abort even if a coordinator still has the transaction, or has committed it in other partitions."),
    ] = False,
    *,
    cluster: ClusterOptions,
) -> None:
    """Write an abort marker into one partition, without the coordinator (needs ALTER on the cluster). Exit code 2: not written."""
    from msgspec.structs import replace

    from fencepost.cli.txn_asking import write_marker

    by_identity = (producer_id, producer_epoch, coordinator_epoch)
    if (start_offset is None) is (None in by_identity) or (start_offset is not None and any(each is not None for each in by_identity)):
        raise CommandError("give --start-offset, or --producer-id, --producer-epoch and --coordinator-epoch")

    async def end(client: ClusterClient) -> OpenTransaction:
        hanging = await _chosen(client, topic, partition, start_offset=start_offset, producer_id=producer_id)
        if producer_epoch is not None and coordinator_epoch is not None:
            hanging = replace(hanging, producer_epoch=producer_epoch, coordinator_epoch=coordinator_epoch)
        if not force:
            await _refuse_what_is_committed(client, hanging)
        await write_marker(client, hanging, commit=False)
        return hanging

    _said(cluster.ask(end), "aborted")


@asking_as(TXN_CLIENT_ID)
def commit_hanging(
    topic: Topic,
    partition: Partition,
    start_offset: Annotated[int, typer.Option(min=0, help="The transaction's first offset, as find-hanging shows it.")],
    *,
    cluster: ClusterOptions,
) -> None:
    """Write the missing commit marker into one partition (needs ALTER on the cluster). The coordinator must confirm that the transaction
    was committed in the other partitions. Exit code 2: not written."""
    from fencepost.cli.txn_asking import write_marker
    from fencepost.txn.recovery.outcome import Outcome

    async def end(client: ClusterClient) -> OpenTransaction:
        hanging = await _chosen(client, topic, partition, start_offset=start_offset)
        owner = await _owner(client, hanging)
        if owner is None or owner.outcome is not Outcome.COMMITTED:
            raise CommandError(f"no coordinator confirms that the transaction at {topic}-{partition}:{start_offset} was committed")
        await write_marker(client, hanging, commit=True)
        return hanging

    _said(cluster.ask(end), "committed")


async def _chosen(
    client: ClusterClient, topic: str, partition: int, *, start_offset: int | None, producer_id: int | None = None
) -> OpenTransaction:
    """The open transaction that the options name."""
    from fencepost.cli.txn_asking import open_transactions

    found, left_out = await open_transactions(client, topic=topic, partition=partition, broker=None)
    if topic in left_out:
        raise CommandError(left_out[topic])
    for each in found:
        if start_offset in (None, each.start_offset) and producer_id in (None, each.producer_id):
            return each
    which = f"begins at {start_offset}" if producer_id is None else f"of {producer_id}"
    raise CommandError(f"no transaction {which} is open in {topic}-{partition}")


async def _owner(client: ClusterClient, hanging: OpenTransaction) -> Owner | None:
    from fencepost.cli.txn_asking import owners

    return (await owners(client, [hanging])).get(hanging)


async def _refuse_what_is_committed(client: ClusterClient, hanging: OpenTransaction) -> None:
    """Refuse a transaction that its coordinator committed, or may still commit."""
    from fencepost.txn.recovery.outcome import Outcome

    owner = await _owner(client, hanging)
    place = f"{hanging.topic}-{hanging.partition}:{hanging.start_offset}"
    if owner is not None and owner.has_it:
        raise CommandError(
            f"the transaction at {place} does not hang: the coordinator of transactional id {owner.transactional_id!r} "
            "will end it. An abort marker could contradict that; --force writes it nevertheless"
        )
    if owner is not None and owner.outcome is Outcome.COMMITTED:
        raise CommandError(
            f"the coordinator of transactional id {owner.transactional_id!r} committed the transaction at {place}, and an abort marker "
            "would hide its records from readers; `fencepost txn commit-hanging` writes the missing marker, --force aborts"
        )


def _said(done: OpenTransaction, what: str) -> None:
    identity = f"producer id {done.producer_id}, epoch {done.producer_epoch}"
    say(f"{done.topic}-{done.partition}: the transaction of {identity}, from offset {done.start_offset} on, is {what}")
