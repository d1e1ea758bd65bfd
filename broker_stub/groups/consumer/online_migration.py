"""How a group changes its protocol while it has members (KIP-848): a classic group becomes a consumer group, and a consumer group whose
members all use the classic protocol becomes a classic one. `group.consumer.migration.policy` says which of the two is possible.

Pure functions: they make the other group, and change neither.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from enum import Enum
from typing import Final

from fencepost.broker_stub.cluster.topics import Topics
from fencepost.broker_stub.groups.consumer.heartbeat_checks import GroupRefused
from fencepost.broker_stub.groups.consumer.subscription_metadata import metadata_hash
from fencepost.broker_stub.groups.state.classic_group import CONSUMER_PROTOCOL, Group, Member, Protocols
from fencepost.broker_stub.groups.state.classic_states import State
from fencepost.broker_stub.groups.state.consumer_group import (
    ConsumerGroup,
    ConsumerMember,
    Target,
    current_assignment,
    member_metadata,
    target_assignment,
)
from fencepost.broker_stub.groups.state.consumer_group_records import (
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerRecord,
    GroupMetadata,
    TargetAssignmentMetadata,
    group_record,
    member_record,
)
from fencepost.broker_stub.groups.state.embedded_protocol import (
    Unreadable,
    read_assignment,
    read_subscription,
    read_user_data,
    read_version,
    write_assignment,
)
from fencepost.producer.wire import ErrorCode

UNEXPECTED: Final = "The server experienced an unexpected error when processing the request."


class MigrationPolicy(Enum):
    """The values are those of `group.consumer.migration.policy`, in any case."""

    DISABLED = "disabled"
    UPGRADE = "upgrade"
    DOWNGRADE = "downgrade"
    BIDIRECTIONAL = "bidirectional"

    @property
    def upgrades(self) -> bool:
        return self in (MigrationPolicy.UPGRADE, MigrationPolicy.BIDIRECTIONAL)

    @property
    def downgrades(self) -> bool:
        return self in (MigrationPolicy.DOWNGRADE, MigrationPolicy.BIDIRECTIONAL)


def check_upgrade(classic: Group, policy: MigrationPolicy, members_max: int) -> None:
    """Raises GroupRefused if the group cannot become one of the consumer protocol."""
    if not policy.upgrades:
        why = "online upgrade is disabled"
    elif classic.protocol_type != CONSUMER_PROTOCOL:
        why = "the group does not use the consumer embedded protocol"
    elif len(classic.members) > members_max:
        why = "the group size exceeds the consumer group maximum size"
    else:
        return
    raise _not_upgraded(classic, f"{why}.")


def upgraded(classic: Group, topics: Topics) -> ConsumerGroup:
    """The consumer group that takes the classic one's place: its members own what they were assigned last. Raises GroupRefused."""
    if classic.protocol is None:
        raise GroupRefused(ErrorCode.UNKNOWN_SERVER_ERROR, UNEXPECTED)  # Kafka trips over a group without a generation
    group = ConsumerGroup(classic.id)
    group.epoch = group.assignment_epoch = classic.generation
    for member in classic.members.values():
        try:
            subscription = read_subscription(member.metadata(classic.protocol))
            owned = _by_topic(read_assignment(member.assignment), topics)
            has_user_data = bool(read_user_data(member.assignment))
        except Unreadable:
            raise _not_upgraded(classic, "the embedded consumer protocol is malformed.") from None
        if has_user_data:
            raise _not_upgraded(
                classic,
                "an unsupported custom assignor is in use. Please refer to the documentation or switch to a default assignor before"
                " re-attempting the upgrade.",
            )
        group.target[member.id] = owned
        group.update(
            ConsumerMember(
                id=member.id,
                epoch=classic.generation,
                previous_epoch=classic.generation,
                instance_id=member.instance_id,
                rack_id=subscription.rack or None,
                client_id=member.client_id,
                client_host=member.client_host,
                rebalance_timeout_ms=member.rebalance_timeout_ms,
                topics=frozenset(subscription.topics),
                assigned={topic_id: dict.fromkeys(sorted(each), classic.generation) for topic_id, each in owned.items()},
                classic=classic_metadata(member.session_timeout_ms, member.protocols),
            )
        )
    group.metadata_hash = metadata_hash(group.subscribed(), topics)
    return group


def upgrade_records(group: ConsumerGroup) -> list[ConsumerRecord]:
    """What makes that group."""
    members = group.members.values()
    return [
        *(member_record(group.id, each.id, member_metadata(each)) for each in members),
        group_record(group.id, GroupMetadata(epoch=group.epoch, metadata_hash=group.metadata_hash)),
        *(member_record(group.id, each.id, target_assignment(group.target[each.id])) for each in members),
        group_record(group.id, TargetAssignmentMetadata(assignment_epoch=group.assignment_epoch)),
        *(member_record(group.id, each.id, current_assignment(each)) for each in members),
    ]


def downgraded(
    group: ConsumerGroup, leaving: Collection[str], topics: Topics, now_ms: int, *, joining: ConsumerMember | None = None
) -> Group:
    """The classic group that takes the consumer group's place, without the members that leave. `joining`: takes the place of the static
    member with its instance id. Each member is assigned its target."""
    classic = Group(group.id, now_ms, state=State.STABLE)
    classic.generation, classic.protocol_type = group.epoch, CONSUMER_PROTOCOL
    members = [each for each in group.members.values() if each.id not in leaving and not _is_replaced(each, joining)]
    for each in members if joining is None else [*members, joining]:
        assert each.classic is not None
        protocols = tuple((protocol.name, protocol.metadata) for protocol in each.classic.supported_protocols)
        classic.add(
            Member(
                each.id,
                instance_id=each.instance_id,
                client_id=each.client_id,
                client_host=each.client_host,
                session_timeout_ms=each.classic.session_timeout_ms,
                rebalance_timeout_ms=each.rebalance_timeout_ms,
                protocol_type=CONSUMER_PROTOCOL,
                protocols=protocols,
            )
        )
    classic.protocol = classic.choose_protocol()
    classic.note_subscriptions()
    for member in classic.members.values():
        target = group.target_of(member.id, member.instance_id)
        member.assignment = write_assignment(_by_name(target, topics), read_version(member.metadata(classic.protocol)))
    return classic


def assignment_of(member: ConsumerMember, topics: Topics) -> bytes:
    """What a member that uses the classic protocol owns, in the form of that protocol."""
    assert member.classic is not None
    version = read_version(member.classic.supported_protocols[0].metadata)
    owned: Target = {topic_id: frozenset(epochs) for topic_id, epochs in member.assigned.items()}
    return write_assignment(_by_name(owned, topics), version)


def classic_metadata(session_timeout_ms: int, protocols: Protocols) -> ClassicMemberMetadata:
    return ClassicMemberMetadata(
        session_timeout_ms=session_timeout_ms,
        supported_protocols=[ClassicProtocol(name=name, metadata=bytes(data)) for name, data in protocols],
    )


def _is_replaced(member: ConsumerMember, joining: ConsumerMember | None) -> bool:
    return joining is not None and joining.instance_id is not None and joining.instance_id == member.instance_id


def _by_topic(partitions: Iterable[tuple[str, int]], topics: Topics) -> Target:
    """Without topics that do not exist."""
    found: dict[str, set[int]] = {}
    for name, index in partitions:
        found.setdefault(name, set()).add(index)
    return {topic.id: frozenset(found[name]) for name in found if (topic := topics.named(name)) is not None}


def _by_name(target: Target, topics: Topics) -> dict[str, list[int]]:
    return {topic.name: sorted(indexes) for topic_id, indexes in target.items() if (topic := topics.with_id(topic_id)) is not None}


def _not_upgraded(classic: Group, why: str) -> GroupRefused:
    return GroupRefused(ErrorCode.GROUP_ID_NOT_FOUND, f"Cannot upgrade classic group {classic.id} to consumer group because {why}")
