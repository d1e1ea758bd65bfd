"""Shared by the commands of `fencepost groups`: the group's name, requests to a cluster, partitions in words, and their lag."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from fencepost.cli.cluster_options import asking_as
from fencepost.cli.error_lines import running_command
from fencepost.cli.output import warn

if TYPE_CHECKING:
    from fencepost.broker_stub.groups.assignors.subscriptions import TopicPartition
    from fencepost.cli.groups_asking import Committed, Found

NO_GROUP: Final = 1

Group = Annotated[str, typer.Argument(metavar="GROUP", help="The group's id.")]

asks_cluster = asking_as("fencepost-groups")


def in_words(partitions: Iterable[TopicPartition]) -> str:
    """Partitions by topic, in the form that `--topic` takes: `t:0,1 u:2`."""
    numbers: defaultdict[str, list[int]] = defaultdict(list)
    for topic, partition in partitions:
        numbers[topic].append(partition)
    return " ".join(f"{topic}:{','.join(map(str, sorted(several)))}" for topic, several in sorted(numbers.items()))


def progress(tp: TopicPartition, committed: Mapping[TopicPartition, Committed], ends: Found) -> dict[str, Any]:
    """The group's offset in a partition, the partition's end, and what lies between. Kafka counts from the high watermark, too."""
    known = committed.get(tp)
    offset = known.offset if known is not None else None
    end = ends.offsets.get(tp)
    lag = max(0, end - offset) if end is not None and offset is not None else None
    return {"topic": tp.topic, "partition": tp.partition, "offset": offset, "end": end, "lag": lag}


def warn_of(reasons: Iterable[str]) -> None:
    """A line on standard error for each reason."""
    for reason in dict.fromkeys(reasons):
        warn(f"fencepost {running_command()}: {reason}")
