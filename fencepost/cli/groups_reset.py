"""`fencepost groups reset`: other committed offsets for a group without members. Without --execute it only shows them."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from fencepost.cli.error_lines import CommandError, warn_of
from fencepost.cli.options import ClusterOptions, Group, Json, asks_about_groups
from fencepost.cli.tables import show

if TYPE_CHECKING:
    from fencepost.broker_stub.groups.assignors.subscriptions import TopicPartition
    from fencepost.cli.groups_asking import Committed
    from fencepost.txn.protocol.cluster_client import ClusterClient


class Wish(NamedTuple):
    """The new offsets: `option` says how, and the other fields are the options' values."""

    option: str
    offset: int = 0
    at_ms: int = 0
    file: Mapping[TopicPartition, int] = {}


class NewOffsets(NamedTuple):
    """What a reset would commit. `notes`: offsets that the log does not have, and what stands for them."""

    before: dict[TopicPartition, Committed]
    offsets: dict[TopicPartition, int]
    ends: dict[TopicPartition, int]
    notes: list[str]


@asks_about_groups
def reset(
    group: Group,
    to_earliest: Annotated[bool, typer.Option("--to-earliest", help="To the first record.")] = False,
    to_latest: Annotated[bool, typer.Option("--to-latest", help="To the end.")] = False,
    to_offset: Annotated[int | None, typer.Option(min=0, metavar="N", help="To this offset.")] = None,
    to_datetime: Annotated[
        str | None, typer.Option(metavar="T", help="To the first record of that time or later: 2026-11-28T07:00:00, in UTC.")
    ] = None,
    shift_by: Annotated[int | None, typer.Option(metavar="N", help="N records on from the committed offset; -N: back.")] = None,
    by_duration: Annotated[str | None, typer.Option(metavar="D", help="To the first record of the last D: P7D, PT1H30M.")] = None,
    from_file: Annotated[
        str | None, typer.Option(metavar="FILE", help="To the offsets in a file: TOPIC,PARTITION,OFFSET, or what `offsets --json` prints.")
    ] = None,
    topic: Annotated[list[str] | None, typer.Option(metavar="NAME[:P,P]", help="In this topic, or these partitions; repeatable.")] = None,
    all_topics: Annotated[bool, typer.Option("--all-topics", help="In every partition that has a committed offset.")] = False,
    execute: Annotated[bool, typer.Option("--execute", help="Commit the offsets. Without it they are only shown.")] = False,
    json: Json = False,
    *,
    cluster: ClusterOptions,
) -> None:
    """Set a group's committed offsets. Its consumers must be stopped. Without --execute nothing changes. Exit code 2: nothing was set."""
    from fencepost.cli.groups_asking import commit_offsets
    from fencepost.cli.groups_targets import duration_ms, moment_ms, only_one, saved_offsets, topic_partitions

    option = only_one(
        {
            "--to-earliest": to_earliest,
            "--to-latest": to_latest,
            "--to-offset": to_offset,
            "--to-datetime": to_datetime,
            "--shift-by": shift_by,
            "--by-duration": by_duration,
            "--from-file": from_file,
        }
    )
    if (topic is not None) + all_topics != (from_file is None):
        raise CommandError("--from-file names the partitions itself" if from_file else "give --topic or --all-topics")
    began = time.monotonic()
    at_ms = 0
    if to_datetime is not None:
        at_ms = moment_ms(to_datetime)
    elif by_duration is not None:
        at_ms = int(time.time() * 1000) - duration_ms(by_duration)
    wish = Wish(
        option,
        offset=to_offset if to_offset is not None else shift_by or 0,
        at_ms=max(0, at_ms),  # below 0 are ListOffsets' special positions
        file=saved_offsets(from_file, group) if from_file else {},
    )
    named = topic_partitions(topic) if topic is not None else None
    new = cluster.ask(lambda client: _new_offsets(client, group, wish, named))
    warn_of(new.notes)
    if execute:
        # The offsets stay the same if the request is repeated: a shift happens once.
        left_s = max(0.0, cluster.timeout_s - (time.monotonic() - began))
        cluster._replace(timeout_s=left_s).ask(lambda client: commit_offsets(client, group, new.offsets))
    rows = [
        {
            "topic": tp.topic,
            "partition": tp.partition,
            "before": new.before[tp].offset if tp in new.before else None,
            "offset": offset,
            "lag": new.ends[tp] - offset,
        }
        for tp, offset in new.offsets.items()
    ]
    show(rows, json=json, columns=("topic", "partition", "before", "offset", "lag"))
    if not execute:
        warn_of(["nothing is changed yet: add --execute to commit these offsets"])


async def _new_offsets(client: ClusterClient, group: str, wish: Wish, named: Mapping[str, list[int] | None] | None) -> NewOffsets:
    from fencepost.cli.groups_asking import committed_offsets, find_offsets
    from fencepost.producer.wire.messages.list_offsets import EARLIEST

    await _refuse_share_or_active(client, group)
    before = await committed_offsets(client, group)
    if named is not None:
        partitions = await _named(client, named)
    else:
        partitions = sorted(wish.file or before)
    if not partitions:
        raise CommandError(f"group {group!r} has no committed offsets; name the topics with --topic")
    firsts, ends = await find_offsets(client, partitions, EARLIEST), await find_offsets(client, partitions)
    unknown = {**firsts.unknown, **ends.unknown}
    if unknown:
        raise CommandError(f"no offset was set: {'; '.join(dict.fromkeys(unknown.values()))}")
    asked = await _asked(client, wish, partitions, before, firsts.offsets, ends.offsets)
    offsets = {tp: min(max(asked[tp], firsts.offsets[tp]), ends.offsets[tp]) for tp in partitions}
    notes = [
        f"{tp.topic}-{tp.partition} has the offsets {firsts.offsets[tp]} to {ends.offsets[tp]}, not {asked[tp]}: it is set to {offsets[tp]}"
        for tp in partitions
        if offsets[tp] != asked[tp]
    ]
    return NewOffsets(before, offsets, ends.offsets, notes)


async def _refuse_share_or_active(client: ClusterClient, group: str) -> None:
    from fencepost.cli.groups_asking import INACTIVE, describe_group
    from fencepost.cli.groups_share import SHARE
    from fencepost.producer.foundations.counted import counted

    described = await describe_group(client, group)
    if described is not None and described.type == SHARE:
        raise CommandError(
            f"group {group!r} is a share group: it commits no offsets. Its start offsets, which `fencepost groups describe` shows, are set "
            "with Kafka's kafka-share-groups.sh --reset-offsets"
        )
    if described is not None and described.state not in INACTIVE:
        members = f" with {counted(len(described.members), 'member')}" if described.members else ""
        raise CommandError(
            f"group {group!r} is active: {described.state}{members}. Its members would go on from their own positions. Stop them, and if "
            "they were killed wait until their session timeout removes them; `fencepost groups describe` shows them"
        )


async def _named(client: ClusterClient, named: Mapping[str, list[int] | None]) -> list[TopicPartition]:
    from fencepost.broker_stub.groups.assignors.subscriptions import TopicPartition
    from fencepost.cli.groups_asking import partitions_of

    metadata = await partitions_of(client, named)
    every = {topic.name or "": sorted(each.partition_index for each in topic.partitions) for topic in metadata.topics}
    for name, numbers in named.items():
        if not every[name]:
            raise CommandError(f"there is no topic {name!r}")
        missing = sorted(set(numbers or ()) - set(every[name]))
        if missing:
            raise CommandError(f"topic {name!r} has no partition {missing[0]}: it has {len(every[name])}")
    return [TopicPartition(name, number) for name in sorted(named) for number in sorted(set(named[name] or every[name]))]


async def _asked(
    client: ClusterClient,
    wish: Wish,
    partitions: list[TopicPartition],
    before: Mapping[TopicPartition, Committed],
    firsts: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
) -> Mapping[TopicPartition, int]:
    """The offset for each partition that the options ask for, whether the log has it or not."""
    from fencepost.cli.groups_asking import find_offsets

    match wish.option:
        case "--to-earliest":
            return firsts
        case "--to-latest":
            return ends
        case "--to-offset":
            return dict.fromkeys(partitions, wish.offset)
        case "--from-file":
            return wish.file
        case "--shift-by":
            for tp in partitions:
                if tp not in before:
                    raise CommandError(
                        f"{tp.topic}-{tp.partition} has no committed offset that could be shifted; --all-topics is for those that have one"
                    )
            return {tp: before[tp].offset + wish.offset for tp in partitions}
        case _:
            found = await find_offsets(client, partitions, wish.at_ms)
            return {tp: offset if offset >= 0 else ends[tp] for tp, offset in found.offsets.items()}
