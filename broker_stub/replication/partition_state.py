"""What the controller has decided about a partition (Kafka's `PartitionRegistration` as a record)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final
from uuid import UUID

import msgspec

from fencepost.broker_stub.replication.reassignment import Assignment

NO_LEADER: Final = -1


def min_isr(topic_config: Mapping[str, str], replicas: int) -> int:
    """min.insync.replicas, capped by the number of replicas (KIP-966)."""
    return min(int(topic_config["min.insync.replicas"]), replicas)


class PartitionState(msgspec.Struct, frozen=True, tag="partition", tag_field="type"):
    """It lasts when every broker is down. `eligible`: may lead, though not in sync. `last_leader`: the leader when the last replica left
    the ISR, until there is another. `offline`: the log directories of these replicas have failed."""

    topic_id: UUID
    index: int
    replicas: tuple[int, ...]
    leader: int
    leader_epoch: int
    isr: list[int]
    eligible: list[int]
    last_leader: int
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()
    offline: tuple[int, ...] = ()

    @property
    def assignment(self) -> Assignment:
        return Assignment(self.replicas, self.adding, self.removing)
