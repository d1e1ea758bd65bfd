"""What the controller has decided about a partition (Kafka's `PartitionRegistration` as a record)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final
from uuid import UUID

import msgspec
from msgspec.structs import replace

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

    def after_stop(self, *, unclean: Collection[int], lost: Collection[int], has_eligible: bool, elects_unclean: bool) -> PartitionState:
        """What still counts after every broker was down. `unclean`: the brokers that did not shut down cleanly, and may have lost records.
        `lost`: those that have no log of the partition any more.

        With eligible leader replicas (KIP-966) these leave the ISR, and are not eligible. If nothing is left, one of them leads alone: the
        last leader, or one that has its log. Without that feature only those without a log leave the ISR."""
        if not has_eligible:
            return self._with([node for node in self.isr if node not in lost] or self.isr, self.eligible, self.last_leader)
        isr, eligible = ([node for node in nodes if node not in unclean and node not in lost] for nodes in (self.isr, self.eligible))
        if isr or eligible:
            return self._with(isr, eligible, NO_LEADER)
        leaders = [node for node in (self.leader, self.last_leader) if node != NO_LEADER]
        able = [*leaders, *self.isr, *self.eligible, *(self.replicas if elects_unclean else ())]
        last = next((node for node in able if node not in lost), next(iter(able), NO_LEADER))
        return self._with([], [], last)

    def _with(self, isr: list[int], eligible: list[int], last_leader: int) -> PartitionState:
        """The leader stays if it may lead."""
        leader = self.leader if self.leader in (*isr, *eligible, last_leader) else NO_LEADER
        return replace(self, leader=leader, isr=isr, eligible=eligible, last_leader=last_leader)

    @property
    def assignment(self) -> Assignment:
        return Assignment(self.replicas, self.adding, self.removing)
