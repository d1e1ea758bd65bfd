"""Kafka's client-side assignors as pure functions: which member of a consumer group reads which partition.

Members and partitions go in, an assignment comes out. Nothing here reads a request or changes a group.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from fencepost.broker_stub.groups.assignors.range_assignor import assign_ranges
from fencepost.broker_stub.groups.assignors.round_robin_assignor import assign_round_robin
from fencepost.broker_stub.groups.assignors.sticky_assignor import assign_cooperatively, assign_sticky
from fencepost.broker_stub.groups.assignors.subscriptions import Assignment, Member, Racks

Assignor = Callable[[Sequence[Member], Mapping[str, int], Racks], Assignment]
"""From the members, the number of partitions of each topic, and the racks of the partitions' replicas."""

ASSIGNORS: Final[dict[str, Assignor]] = {
    "range": assign_ranges,
    "roundrobin": assign_round_robin,
    "sticky": assign_sticky,
    "cooperative-sticky": assign_cooperatively,
}
"""By the names that `partition.assignment.strategy` has for them."""

COOPERATIVE: Final = "cooperative-sticky"
"""The assignor whose members keep their partitions during a rebalance (KIP-429)."""
