"""A group of the consumer protocol: its members, its epochs, and what each member owns and will own (KIP-848).

The group is what its records say: `replay` makes every change, while a coordinator runs and when one loads the log. It waits for nothing,
sets no timer and answers no request.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from enum import Enum, IntEnum
from typing import Final
from uuid import UUID

from msgspec import Struct
from msgspec.structs import replace

from fencepost.broker_stub.groups.state.classic_group import CONSUMER_PROTOCOL
from fencepost.broker_stub.groups.state.consumer_group_records import (
    ClassicMemberMetadata,
    ConsumerRecord,
    CurrentAssignment,
    CurrentPartitions,
    GroupMetadata,
    MemberKey,
    MemberMetadata,
    PartitionMetadata,
    RegularExpression,
    RegularExpressionKey,
    TargetAssignment,
    TargetAssignmentMetadata,
    TargetPartitions,
)

JOIN_EPOCH: Final = 0
LEAVE_EPOCH: Final = -1
STATIC_LEAVE_EPOCH: Final = -2
FIRST_EPOCH: Final = 1
NOT_OWNED: Final = -1

Owned = Mapping[UUID, Mapping[int, int]]
"""By topic id and partition: the epoch since which a member owns it."""

Target = Mapping[UUID, frozenset[int]]
"""Partitions by topic id."""


class GroupState(Enum):
    """The values are the names in ConsumerGroupDescribe and ListGroups."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"


class MemberState(IntEnum):
    """The values are the numbers in the record of the current assignment."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    UNRELEASED_PARTITIONS = 2
    UNKNOWN = 127


class ConsumerMember(Struct, frozen=True, kw_only=True):
    """One member. `pending_revocation`: what it has to give up before it gets more. `classic`: it uses the classic protocol."""

    id: str
    epoch: int = JOIN_EPOCH
    previous_epoch: int = -1
    state: MemberState = MemberState.STABLE
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = -1
    topics: frozenset[str] = frozenset()
    regex: str = ""
    assignor: str | None = None
    assigned: Owned = {}
    pending_revocation: Owned = {}
    classic: ClassicMemberMetadata | None = None

    def is_reconciled_to(self, assignment_epoch: int) -> bool:
        return self.state is MemberState.STABLE and self.epoch == assignment_epoch

    def owned_since(self, topic_id: UUID, partition: int) -> int | None:
        """The epoch since which it owns the partition. None: it does not."""
        found = self.assigned.get(topic_id, {}).get(partition)
        return found if found is not None else self.pending_revocation.get(topic_id, {}).get(partition)


class ConsumerGroup:
    """One group, with its members in the order of their joining."""

    def __init__(self, group_id: str) -> None:
        self.id = group_id
        self.epoch = FIRST_EPOCH
        self.metadata_hash = 0
        self.assignment_epoch = FIRST_EPOCH
        self.assigned_at_ms = 0
        self.members: dict[str, ConsumerMember] = {}
        self.static: dict[str, str] = {}  # instance id -> member id
        self.target: dict[str, Target] = {}  # by member id
        self.resolved: dict[str, RegularExpression] = {}  # by regular expression
        self.resolved_from: frozenset[str] | None = None  # the topics that there were at the last resolution; None: unknown
        self.has_old_metadata = False  # there is a record of Kafka 4.0 to be deleted

    # What it is

    @property
    def state(self) -> GroupState:
        if not self.members:
            return GroupState.EMPTY
        if self.epoch > self.assignment_epoch:
            return GroupState.ASSIGNING
        reconciled = all(member.is_reconciled_to(self.assignment_epoch) for member in self.members.values())
        return GroupState.STABLE if reconciled else GroupState.RECONCILING

    def static_member(self, instance_id: str | None) -> ConsumerMember | None:
        member_id = self.static.get(instance_id) if instance_id is not None else None
        return self.members.get(member_id) if member_id is not None else None

    def target_of(self, member_id: str, instance_id: str | None) -> Target:
        """What the member will own. A static member under a new id takes the place of the one before it."""
        return self.target.get(member_id if instance_id is None else self.static.get(instance_id, member_id), {})

    def owner_epoch(self, topic_id: UUID, partition: int) -> int:
        """The epoch of the member that owns the partition or has not given it up. NOT_OWNED: none does."""
        for member in self.members.values():
            if member.owned_since(topic_id, partition) is not None:
                return member.epoch
        return NOT_OWNED

    def targeted(self) -> set[tuple[UUID, int]]:
        """Every partition that some member owns or will own by the last target assignment."""
        return {(topic_id, index) for target in self.target.values() for topic_id, indexes in target.items() for index in indexes}

    def supports(self, protocol_type: str, protocols: Iterable[str]) -> bool:
        """Whether a member of the classic protocol with these assignors fits: the others of that protocol must share at least one."""
        others = [member.classic for member in self.members.values() if member.classic is not None]
        known = Counter(each.name for classic in others for each in classic.supported_protocols)
        return protocol_type == CONSUMER_PROTOCOL and any(known[name] == len(others) for name in protocols)

    def is_classic_without(self, leaving: Iterable[ConsumerMember]) -> bool:
        """Whether the members that stay use the classic protocol, all of them."""
        gone = {member.id for member in leaving}
        return all(member.classic is not None for member in self.members.values() if member.id not in gone)

    def waits_for_others(self, member: ConsumerMember) -> bool:
        """Whether another member still owns a partition that this one will own."""
        return any(
            index not in member.assigned.get(topic_id, {}) and self.owner_epoch(topic_id, index) != NOT_OWNED
            for topic_id, indexes in self.target.get(member.id, {}).items()
            for index in indexes
        )

    def regexes(self, *without: ConsumerMember | None, more: ConsumerMember | None = None) -> Counter[str]:
        """How many members have each regular expression, without some members and with one more."""
        return Counter(member.regex for member in self._others(without, more) if member.regex)

    def subscribed(self, *without: ConsumerMember | None, more: ConsumerMember | None = None) -> set[str]:
        """Every topic to which a member subscribes, by name or by a regular expression that is resolved."""
        others = self._others(without, more)
        found = {topic for member in others for topic in member.topics}
        for regex in {member.regex for member in others if member.regex}:
            if regex in self.resolved:
                found.update(self.resolved[regex].topics)
        return found

    def subscription_of(self, member: ConsumerMember) -> frozenset[str]:
        """The topics of one member. A regular expression that is not resolved matches none."""
        resolved = self.resolved.get(member.regex)
        return member.topics if resolved is None else member.topics | frozenset(resolved.topics)

    def is_subscribed(self, topic: str) -> bool:
        return topic in self.subscribed()

    def preferred_assignor(self, *without: ConsumerMember | None, more: ConsumerMember | None = None) -> str | None:
        """The assignor that most members name. None: none names one."""
        names = Counter(member.assignor for member in self._others(without, more) if member.assignor is not None)
        return names.most_common(1)[0][0] if names else None

    def _others(self, without: Iterable[ConsumerMember | None], more: ConsumerMember | None) -> list[ConsumerMember]:
        gone = {member.id for member in without if member is not None}
        if more is not None:
            gone.add(more.id)
        left = [member for member in self.members.values() if member.id not in gone]
        return left if more is None else [*left, more]

    # Changes

    def update(self, member: ConsumerMember) -> None:
        self.members[member.id] = member
        if member.instance_id is not None:
            self.static[member.instance_id] = member.id

    def remove(self, member_id: str) -> None:
        member = self.members.pop(member_id, None)
        if member is not None and member.instance_id is not None and self.static.get(member.instance_id) == member_id:
            del self.static[member.instance_id]


class ConsumerGroupStates:
    """The groups of one shard, by their ids."""

    def __init__(self) -> None:
        self.groups: dict[str, ConsumerGroup] = {}

    def replay(self, record: ConsumerRecord) -> None:
        """Makes the change that the record says. What a compacted log has lost is no error."""
        group = self.groups.get(record.key.group_id)
        if group is None:
            if record.value is None:
                return
            group = self.groups[record.key.group_id] = ConsumerGroup(record.key.group_id)
        _CHANGES[record.of](self, group, record)

    def _group_metadata(self, group: ConsumerGroup, record: ConsumerRecord) -> None:
        if record.value is None:
            del self.groups[group.id]
            return
        assert isinstance(record.value, GroupMetadata)
        group.epoch, group.metadata_hash = record.value.epoch, record.value.metadata_hash

    def _partition_metadata(self, group: ConsumerGroup, record: ConsumerRecord) -> None:
        group.has_old_metadata = record.value is not None

    def _member_metadata(self, group: ConsumerGroup, record: ConsumerRecord) -> None:
        assert isinstance(record.key, MemberKey)
        value = record.value
        if value is None:
            group.remove(record.key.member_id)
            return
        assert isinstance(value, MemberMetadata)
        group.update(
            replace(
                group.members.get(record.key.member_id) or ConsumerMember(id=record.key.member_id),
                instance_id=value.instance_id,
                rack_id=value.rack_id,
                client_id=value.client_id,
                client_host=value.client_host,
                rebalance_timeout_ms=value.rebalance_timeout_ms,
                topics=frozenset(value.subscribed_topic_names),
                regex=value.subscribed_topic_regex or "",
                assignor=value.server_assignor,
                classic=value.classic_member_metadata,
            )
        )

    def _target_metadata(self, group: ConsumerGroup, record: ConsumerRecord) -> None:
        value = record.value
        assert value is None or isinstance(value, TargetAssignmentMetadata)
        group.assignment_epoch = value.assignment_epoch if value is not None else -1
        group.assigned_at_ms = value.assignment_timestamp if value is not None else 0

    def _target(self, group: ConsumerGroup, record: ConsumerRecord) -> None:
        assert isinstance(record.key, MemberKey)
        if record.value is None:
            group.target.pop(record.key.member_id, None)
            return
        assert isinstance(record.value, TargetAssignment)
        group.target[record.key.member_id] = {each.topic_id: frozenset(each.partitions) for each in record.value.topic_partitions}

    def _current(self, group: ConsumerGroup, record: ConsumerRecord) -> None:
        assert isinstance(record.key, MemberKey)
        member = group.members.get(record.key.member_id)
        value = record.value
        if value is None:
            if member is not None:
                nothing: Owned = {}
                group.update(replace(member, epoch=LEAVE_EPOCH, previous_epoch=LEAVE_EPOCH, assigned=nothing, pending_revocation=nothing))
            return
        assert isinstance(value, CurrentAssignment)
        group.update(
            replace(
                member or ConsumerMember(id=record.key.member_id),
                epoch=value.member_epoch,
                previous_epoch=value.previous_member_epoch,
                state=MemberState(value.state) if value.state in set(MemberState) else MemberState.UNKNOWN,
                assigned=_owned(value.assigned_partitions, value.member_epoch),
                pending_revocation=_owned(value.partitions_pending_revocation, value.member_epoch),
            )
        )

    def _regex(self, group: ConsumerGroup, record: ConsumerRecord) -> None:
        assert isinstance(record.key, RegularExpressionKey)
        if record.value is None:
            group.resolved.pop(record.key.regular_expression, None)
            return
        assert isinstance(record.value, RegularExpression)
        group.resolved[record.key.regular_expression] = record.value


_CHANGES: Final[dict[type, Callable[[ConsumerGroupStates, ConsumerGroup, ConsumerRecord], None]]] = {
    GroupMetadata: ConsumerGroupStates._group_metadata,
    PartitionMetadata: ConsumerGroupStates._partition_metadata,
    MemberMetadata: ConsumerGroupStates._member_metadata,
    TargetAssignmentMetadata: ConsumerGroupStates._target_metadata,
    TargetAssignment: ConsumerGroupStates._target,
    CurrentAssignment: ConsumerGroupStates._current,
    RegularExpression: ConsumerGroupStates._regex,
}


def _owned(partitions: Iterable[CurrentPartitions], member_epoch: int) -> Owned:
    """A record of Kafka before 4.2 has no epochs: the partitions count as owned since the member's epoch."""
    owned: dict[UUID, dict[int, int]] = {}
    for each in partitions:
        epochs = each.assignment_epochs
        if epochs is None or len(epochs) != len(each.partitions):
            epochs = [max(member_epoch, 0)] * len(each.partitions)
        owned[each.topic_id] = dict(zip(each.partitions, epochs, strict=True))
    return owned


# The values of records


def member_metadata(member: ConsumerMember) -> MemberMetadata:
    return MemberMetadata(
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topics),
        subscribed_topic_regex=member.regex,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        server_assignor=member.assignor,
        classic_member_metadata=member.classic,
    )


def target_assignment(target: Target) -> TargetAssignment:
    return TargetAssignment(
        topic_partitions=[TargetPartitions(topic_id=topic_id, partitions=sorted(indexes)) for topic_id, indexes in target.items()]
    )


def current_assignment(member: ConsumerMember) -> CurrentAssignment:
    return CurrentAssignment(
        member_epoch=member.epoch,
        previous_member_epoch=member.previous_epoch,
        state=member.state,
        assigned_partitions=_with_epochs(member.assigned),
        partitions_pending_revocation=_with_epochs(member.pending_revocation),
    )


def _with_epochs(owned: Owned) -> list[CurrentPartitions]:
    return [
        CurrentPartitions(topic_id=topic_id, partitions=sorted(epochs), assignment_epochs=[epochs[index] for index in sorted(epochs)])
        for topic_id, epochs in owned.items()
    ]
