"""`fencepost groups`: consumer groups as their coordinators know them. `groups_reset` sets offsets, `groups_plan` computes assignments.

No command joins a group. Only `reset --execute` changes anything.
"""

from __future__ import annotations

from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from fencepost.cli.error_lines import NO, CommandError, warn_of
from fencepost.cli.groups_plan import plan
from fencepost.cli.groups_reset import reset
from fencepost.cli.options import ClusterOptions, Group, Json, asks_about_groups, one_of
from fencepost.cli.output import say, say_json, warn
from fencepost.cli.tables import show

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fencepost.broker_stub.groups.assignors.subscriptions import TopicPartition
    from fencepost.cli.groups_asking import Committed, Described, Found
    from fencepost.txn.protocol.cluster_client import ClusterClient

groups = typer.Typer(help="Show consumer groups, set their offsets, and see what a rebalance would do.", no_args_is_help=True)

STATES: Final = ("Empty", "PreparingRebalance", "CompletingRebalance", "Stable", "Dead", "Assigning", "Reconciling", "NotReady")
"""Kafka's states of a group (`GroupState`)."""
TYPES: Final = ("classic", "consumer", "share", "streams")


@groups.command("list")
@asks_about_groups
def list_all(
    state: Annotated[
        list[str] | None, typer.Option(help=f"Only with this state, in any case; repeatable. One of {', '.join(STATES)}.")
    ] = None,
    type_: Annotated[
        list[str] | None, typer.Option("--type", help=f"Only of this type, in any case; repeatable. One of {', '.join(TYPES)}.")
    ] = None,
    json: Json = False,
    *,
    cluster: ClusterOptions,
) -> None:
    """List the groups, with state, type, protocol and coordinator."""
    from fencepost.cli.groups_asking import list_groups

    states, types = one_of(STATES, "--state", state), one_of(TYPES, "--type", type_)
    found = cluster.ask(list_groups)
    rows = [
        {
            "group": each.group,
            "state": each.state,
            "type": each.type,
            "protocol": each.protocol or None,
            "coordinator": each.coordinator,
        }
        for each in found
        if (not states or each.state in states) and (not types or each.type in types)
    ]
    show(rows, json=json, columns=("group", "state", "type", "protocol", "coordinator"))


@groups.command()
@asks_about_groups
def describe(
    group: Group,
    json: Json = False,
    *,
    cluster: ClusterOptions,
) -> None:
    """Show a group's members: client, host, partitions, and how far behind each is. Exit code 1 if there is no such group."""
    from fencepost.cli.groups_asking import CLASSIC, committed_offsets, describe_group, find_offsets
    from fencepost.cli.groups_consumer import CONSUMER, with_members
    from fencepost.cli.groups_share import SHARE, describe_share_group, show_share_group

    async def look(client: ClusterClient) -> tuple[Described | None, dict[Any, Committed], Found, dict[str, Any] | None]:
        described = await describe_group(client, group)
        if described is not None and described.type == SHARE:
            return described, {}, await find_offsets(client, ()), await describe_share_group(client, group)
        if described is not None and described.type == CONSUMER:
            described = await with_members(client, described)
        partitions = [tp for each in described.members for tp in each.partitions] if described is not None else []
        return described, await committed_offsets(client, group), await find_offsets(client, partitions), None

    described, committed, ends, shared = cluster.ask(look)
    if shared is not None:
        show_share_group(shared, json=json)
        return
    if described is None:
        raise CommandError(_no_group(group), code=NO)
    if described.type not in (CLASSIC, CONSUMER):
        raise CommandError(
            f"group {group!r} is of type {described.type}, and this command shows the members of classic, consumer and share groups "
            "only; `fencepost groups offsets` shows its offsets"
        )
    warn_of([*(f"member {each.id}: {each.trouble}" for each in described.members if each.trouble), *ends.unknown.values()])
    members: list[dict[str, Any]] = [
        {
            "member": each.id,
            "instance_id": each.instance_id,
            "client_id": each.client_id,
            "host": each.host,
            "subscribed": sorted(each.subscription.topics) if each.subscription is not None else None,
            **({"pattern": each.pattern} if described.type == CONSUMER else {}),
            "partitions": [_progress(tp, committed, ends) for tp in sorted(each.partitions)],
        }
        for each in described.members
    ]
    about = {
        "group": group,
        "state": described.state,
        "type": described.type,
        "protocol": described.protocol or None,
        "assignor": described.assignor or None,
        "coordinator": described.coordinator,
    }
    if json:
        say_json({**about, "members": members})
        return
    say(", ".join(f"{name} {value}" for name, value in about.items() if value is not None))
    idle: dict[str, Any] = dict.fromkeys(("topic", "partition", "offset", "end", "lag"))
    rows = [{**each, **place} for each in members for place in each["partitions"] or [idle]]
    if not rows and committed:
        warn(f"no members: `fencepost groups offsets {quote(group)}` shows the offsets and the lag")
        return
    show(rows, json=False, columns=("member", "instance_id", "client_id", "host", "topic", "partition", "offset", "end", "lag"))


@groups.command()
@asks_about_groups
def offsets(
    group: Group,
    json: Json = False,
    *,
    cluster: ClusterOptions,
) -> None:
    """Show a group's committed offsets, the ends of the partitions, and the lag. Exit code 1 if there is no such group."""
    from fencepost.cli.groups_asking import committed_offsets, describe_group, find_offsets
    from fencepost.cli.groups_share import SHARE

    async def look(client: ClusterClient) -> tuple[Described | None, dict[Any, Committed], Found]:
        committed = await committed_offsets(client, group)
        described = None if committed else await describe_group(client, group)
        return described, committed, await find_offsets(client, committed)

    described, committed, ends = cluster.ask(look)
    if described is not None and described.type == SHARE:
        raise CommandError(f"group {group!r} is a share group: it commits no offsets. `fencepost groups describe` shows its start offsets")
    if not committed and described is None:
        raise CommandError(_no_group(group), code=NO)
    warn_of(ends.unknown.values())
    rows = [{**_progress(tp, committed, ends), "metadata": committed[tp].metadata or None} for tp in sorted(committed)]
    show(rows, json=json, columns=("topic", "partition", "offset", "end", "lag", "metadata"))


def _progress(tp: TopicPartition, committed: Mapping[TopicPartition, Committed], ends: Found) -> dict[str, Any]:
    """The group's offset in a partition, the partition's end, and what lies between. Kafka counts from the high watermark, too."""
    known = committed.get(tp)
    offset = known.offset if known is not None else None
    end = ends.offsets.get(tp)
    lag = max(0, end - offset) if end is not None and offset is not None else None
    return {"topic": tp.topic, "partition": tp.partition, "offset": offset, "end": end, "lag": lag}


def _no_group(group: str) -> str:
    return f"no coordinator knows group {group!r}; `fencepost groups list` shows those that exist"


groups.command()(reset)
groups.command()(plan)
