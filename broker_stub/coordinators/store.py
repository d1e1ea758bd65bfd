"""What a coordinator would read back after a move or a restart: of each group the last generation that was assigned, and its offsets.

It is what Kafka keeps in one partition of __consumer_offsets, for now in memory and shared by all brokers. It checks nothing.
"""

from __future__ import annotations

from typing import NamedTuple

from broker_stub.coordinators.group import Group, Member
from broker_stub.coordinators.pending_offsets import Committed, PendingOffsets
from broker_stub.coordinators.states import State


class SavedMember(NamedTuple):
    """A member as of its last assignment: of its assignors only the one that was chosen."""

    id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    metadata: bytes
    assignment: bytes


class SavedGroup(NamedTuple):
    """A group as of its last assignment, or of when it became empty."""

    generation: int
    protocol_type: str | None
    protocol: str | None
    leader: str | None
    since_ms: int
    members: tuple[SavedMember, ...]


class Store:
    """The groups and offsets of one partition."""

    def __init__(self) -> None:
        self.groups: dict[str, SavedGroup] = {}
        self.offsets: dict[str, dict[str, dict[int, Committed]]] = {}  # by group, topic and partition
        self.pending = PendingOffsets()

    def save(self, group: Group) -> None:
        """Keeps the group as it is now. Only what a coordinator would write: an assignment, or that there is nobody."""
        members = () if group.state is State.EMPTY else group.members.values()
        self.groups[group.id] = SavedGroup(
            generation=group.generation,
            protocol_type=group.protocol_type,
            protocol=group.protocol,
            leader=group.leader,
            since_ms=group.since_ms,
            members=tuple(
                SavedMember(
                    id=member.id,
                    instance_id=member.instance_id,
                    client_id=member.client_id,
                    client_host=member.client_host,
                    session_timeout_ms=member.session_timeout_ms,
                    rebalance_timeout_ms=member.rebalance_timeout_ms,
                    metadata=member.metadata(group.protocol),
                    assignment=member.assignment,
                )
                for member in members
            ),
        )

    def load(self, now_ms: int) -> list[Group]:
        """Every group: those with members are stable, the others empty. One that has offsets and nothing else is empty, too."""
        loaded = [_group(group_id, saved) for group_id, saved in self.groups.items()]
        return loaded + [Group(group_id, now_ms) for group_id in self.offsets if group_id not in self.groups]

    def delete(self, group_id: str) -> None:
        """Forgets the group and its offsets."""
        self.groups.pop(group_id, None)
        self.offsets.pop(group_id, None)
        self.pending.drop(lambda key: key[0] == group_id)

    def forget_topic(self, topic: str) -> None:
        """The offsets of a topic that is gone go with it."""
        for topics in self.offsets.values():
            topics.pop(topic, None)
        self.pending.drop(lambda key: key[1] == topic)

    def end_transaction(self, producer_id: int, *, commit: bool) -> None:
        """Offsets of that producer's transaction count from now on, or never will."""
        for (group_id, topic, partition), committed in self.pending.end(producer_id).items():
            if commit and committed is not None:
                self.offsets.setdefault(group_id, {}).setdefault(topic, {})[partition] = committed


def _group(group_id: str, saved: SavedGroup) -> Group:
    group = Group(group_id, saved.since_ms, state=State.STABLE if saved.members else State.EMPTY)
    group.generation, group.protocol_type, group.protocol = saved.generation, saved.protocol_type, saved.protocol
    for each in saved.members:
        group.add(
            Member(
                each.id,
                instance_id=each.instance_id,
                client_id=each.client_id,
                client_host=each.client_host,
                session_timeout_ms=each.session_timeout_ms,
                rebalance_timeout_ms=each.rebalance_timeout_ms,
                protocol_type=saved.protocol_type or "",
                protocols=((saved.protocol or "", each.metadata),),
                assignment=each.assignment,
            )
        )
    group.leader = saved.leader
    group.note_subscriptions()
    return group
