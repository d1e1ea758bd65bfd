"""Checks replicas that a request assigns to brokers itself, with Kafka's error texts.

CreateTopics and CreatePartitions use it, and AlterPartitionReassignments, which also accepts replicas none of which is up.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fencepost.broker_stub.cluster.context import Context


def misplaced(context: Context, partition: int, replicas: Sequence[int], *, factor: int | None) -> str | None:
    """Why a new partition cannot have these replicas; None if it can. The brokers must be known and distinct, and one of them up
    and not fenced. There must be `factor` of them, as in the other partitions; None for the first partition."""
    wrong = unassignable(context, replicas)
    if wrong is not None:
        return wrong
    if factor is not None and len(replicas) != factor:
        return (
            f"The manual partition assignment includes a partition with {len(replicas)} replica(s), but this is not consistent with "
            f"previous partitions, which have {factor} replica(s)."
        )
    if not any(node in context.live for node in replicas):
        return f"All brokers specified in the manual partition assignment for partition {partition} are fenced or in controlled shutdown."
    return None


def unplaceable(context: Context, factor: int) -> str | None:
    """Why the cluster finds no brokers for so many replicas; None if it does."""
    free = len(context.brokers) - len(context.cordoned)
    if not free:
        return "All brokers are currently fenced, or have all their log directories cordoned."
    if factor > free:
        cordoned = " or some brokers have all their log directories cordoned" if context.release.differs.directories_are_cordoned else ""
        return f"The target replication factor of {factor} cannot be reached because only {free} broker(s) are registered{cordoned}."
    return None


def unassignable(context: Context, replicas: Sequence[int]) -> str | None:
    """Why no partition can have these replicas; None if one can. There must be one, and they must be known and distinct. As in
    Kafka 4.3, an administrator may name brokers whose log directories are all cordoned."""
    nodes = sorted(replicas)
    if not nodes:
        return "The manual partition assignment includes an empty replica list."
    for before, node in zip([None, *nodes], nodes, strict=False):
        if node not in context.brokers:
            return f"The manual partition assignment includes broker {node}, but no such broker is registered."
        if node == before:
            return f"The manual partition assignment includes the broker {node} more than once."
    return None
