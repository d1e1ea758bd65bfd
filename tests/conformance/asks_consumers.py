"""Questions about groups of the consumer protocol. Members have fixed ids, because Kafka's assignors depend on them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Any
from uuid import UUID

from fencepost.broker_stub.cluster.topics import Topic as StubTopic
from fencepost.broker_stub.cluster.topics import Topics
from fencepost.broker_stub.groups.consumer.subscription_metadata import metadata_hash
from fencepost.broker_stub.groups.state.consumer_group_records import (
    ConsumerRecord,
    CurrentAssignment,
    CurrentPartitions,
    GroupMetadata,
    MemberKey,
    MemberMetadata,
    RegularExpression,
    RegularExpressionKey,
    TargetAssignment,
    TargetAssignmentMetadata,
    read_consumer_record,
)
from fencepost.broker_stub.replication.partition import Partition
from fencepost.producer.wire import error_name
from fencepost.producer.wire.messages import consumer_group_admin, consumer_groups, group_offsets
from tests.conformance.asks_groups import offset_fetch_group
from tests.conformance.asks_offsets import OffsetAsks
from tests.conformance.stage import READY_TIMEOUT_S, Topic
from tests.waiting import until

REBALANCE_MS = 60_000


class ConsumerAsks(OffsetAsks):
    """A part of the world of a case."""

    def consumer(self, group: str, member_id: str, *topics: Topic, **how: Any) -> ConsumerMember:
        """A member that has not joined."""
        return ConsumerMember(self, group, member_id, [topic.name for topic in topics], **how)

    def consumers(self, group: str, topic: Topic, *member_ids: str, **how: Any) -> list[ConsumerMember]:
        """Members that have joined one after the other, and share the topic. Nothing is noted."""
        members: list[ConsumerMember] = []
        for member_id in member_ids:
            members.append(self.consumer(group, member_id, topic, **how))
            members[-1].join()
            self.share_out(*members)
        return members

    def share_out(self, *members: ConsumerMember) -> None:
        """Heartbeats in turn, until all have the group's epoch and nothing changes any more."""
        for _ in range(20):
            changed = [member.live() for member in members]
            if not any(changed):
                return
        raise AssertionError("the members never agree")

    def note_shares(self, *members: ConsumerMember, label: str) -> None:
        """Note the epoch of each member, and what it owns."""
        for member in members:
            self.note(f"{label}: {member.id}", f"epoch={member.epoch} {self.show_owned(member.owned)}")

    def note_counts(self, *members: ConsumerMember, label: str) -> None:
        """Note the epoch of each member and how many partitions it owns. Of several topics, their random ids decide which."""
        for member in members:
            self.note(f"{label}: {member.id}", f"epoch={member.epoch} owns {sum(map(len, member.owned.values()))}")

    def show_owned(self, owned: dict[UUID, list[int]]) -> str:
        return " ".join(sorted(f"{self.show_topic('', topic_id)}:{','.join(map(str, sorted(each)))}" for topic_id, each in owned.items()))

    def show_made_id(self, member_id: str | None) -> str:
        """An id of the case is short."""
        return "a new id" if member_id is not None and len(member_id) > 20 else str(member_id)

    def describe_consumers(self, *names: str, label: str, version: int = 1, operations: bool = False, node: int | None = None) -> None:
        request = consumer_group_admin.ConsumerGroupDescribeRequest(group_ids=list(names), include_authorized_operations=operations)

        def show(answer: consumer_group_admin.ConsumerGroupDescribeResponse) -> str:
            return "; ".join(sorted(self._show_consumers(each) for each in answer.groups)) or "nothing"

        self.note_answer(label, request, version, consumer_group_admin.ConsumerGroupDescribeResponse, show, node=self._at(names, node))

    def fetched_by(self, group: str, topic: Topic, *, member_id: str | None, epoch: int, label: str, version: int = 9) -> None:
        """Offsets that a member fetches."""
        asked = offset_fetch_group(group, [(topic.name if version < 10 else "", topic.id, [0])])
        asked = group_offsets.OffsetFetchRequestGroup(group_id=group, member_id=member_id, member_epoch=epoch, topics=asked.topics)
        request = group_offsets.OffsetFetchRequest(groups=[asked])
        self.note_answer(label, request, version, group_offsets.OffsetFetchResponse, self._show_committed, node=self._at([group], None))

    def until_owned(self, member: ConsumerMember, partitions: int) -> None:
        """Heartbeats until the member owns so many partitions."""
        until(
            lambda: (member.live(), sum(map(len, member.owned.values())))[1],
            f"{member.id} owns {partitions} partitions",
            good=lambda found: found == partitions,
            timeout_s=READY_TIMEOUT_S,
        )

    def _show_consumers(self, group: consumer_group_admin.DescribedGroup) -> str:
        members = [
            f"{self.show_made_id(each.member_id)} instance={each.instance_id} rack={each.rack_id} epoch={each.member_epoch}"
            f" client={each.client_id!r} host={each.client_host!r} names={sorted(map(self.show_topic, each.subscribed_topic_names))}"
            f" regex={self._show_regex(each.subscribed_topic_regex)} type={each.member_type}"
            f" has [{self._show_described_parts(each.assignment)}] gets [{self._show_described_parts(each.target_assignment)}]"
            for each in group.members
        ]
        message = group.error_message.replace(f" {group.group_id} ", " it ") if group.error_message else group.error_message
        return (
            f"{self.show_group(group.group_id)} {error_name(group.error_code)} {message} state={group.group_state!r}"
            f" epoch={group.group_epoch}/{group.assignment_epoch} assignor={group.assignor_name!r} operations={group.authorized_operations}"
            f" {sorted(members)}"
        )

    def _show_described_parts(self, assignment: consumer_group_admin.Assignment) -> str:
        return " ".join(
            sorted(
                f"{self.show_topic(each.topic_name, each.topic_id)}:{','.join(map(str, sorted(each.partitions)))}"
                for each in assignment.topic_partitions
            )
        )

    def _show_regex(self, regex: str | None) -> str:
        return repr(regex.replace(self._run, "RUN")) if regex is not None else "null"

    # -- the log

    def _record(self, group: str, key: bytes, value: bytes | None) -> str:
        """One record in short form; empty for another group's record."""
        read = read_consumer_record(key, value)
        if read is None:
            return super()._record(group, key, value)
        if read.key.group_id != group:
            return ""
        return f"{self._show_key(read)}: {self._show_value(read.value)} same={read.entry() == (key, value)}"

    def _show_key(self, read: ConsumerRecord) -> str:
        name = read.of.__name__
        if isinstance(read.key, MemberKey):
            return f"{name} of {self.show_made_id(read.key.member_id)}"
        return f"{name} of {self._show_regex(read.key.regular_expression)}" if isinstance(read.key, RegularExpressionKey) else name

    def _show_value(self, value: object) -> str:
        match value:
            case None:
                return "gone"
            case GroupMetadata():
                return f"epoch={value.epoch} hash of {self._hashed(value.metadata_hash)}"
            case MemberMetadata():
                names = [self.show_topic(name) for name in value.subscribed_topic_names]
                classic = value.classic_member_metadata
                names_of = [each.name for each in classic.supported_protocols] if classic is not None else []
                return (
                    f"{value.instance_id} {value.rack_id} {value.client_id} {value.client_host} {names}"
                    f" {self._show_regex(value.subscribed_topic_regex)} {value.rebalance_timeout_ms} {value.server_assignor}"
                    + (f" classic {classic.session_timeout_ms} {names_of}" if classic is not None else "")
                )
            case TargetAssignmentMetadata():
                return f"epoch={value.assignment_epoch} at={self.show_time(value.assignment_timestamp)}"
            case TargetAssignment():
                return self.show_owned({each.topic_id: each.partitions for each in value.topic_partitions})
            case CurrentAssignment():
                return (
                    f"epoch={value.member_epoch} before={value.previous_member_epoch} state={value.state}"
                    f" [{self._show_current(value.assigned_partitions)}] [{self._show_current(value.partitions_pending_revocation)}]"
                )
            case RegularExpression():
                return f"{[self.show_topic(name) for name in value.topics]} at={self.show_time(value.timestamp)}"
        return repr(value)

    def _hashed(self, found: int) -> str:
        """The topics whose hash this is."""
        known = Topics()
        for topic in self._topics.values():
            known.add(_like(topic))
        names = list(self._topics)
        for count in range(len(names) + 1):
            for chosen in combinations(names, count):
                if metadata_hash(chosen, known) == found:
                    return ",".join(map(self.show_topic, chosen)) or "nothing"
        return "something else"

    def _show_current(self, partitions: Sequence[CurrentPartitions]) -> str:
        return " ".join(
            sorted(
                f"{self.show_topic('', each.topic_id)}:"
                + ",".join(f"{index}@{epoch}" for index, epoch in sorted(zip(each.partitions, each.assignment_epochs or (), strict=True)))
                for each in partitions
            )
        )


def _like(topic: Topic) -> StubTopic:
    """The topic in the stub's form, with as many partitions."""
    like = StubTopic(topic.name, topic.id, config={}, overrides={})
    like.partitions = [Partition.__new__(Partition)] * len(topic.leaders)
    return like


class ConsumerMember:
    """One member. It takes its epoch and its partitions from responses."""

    def __init__(
        self,
        world: ConsumerAsks,
        group: str,
        member_id: str,
        topics: list[str],
        *,
        instance: str | None = None,
        rack: str | None = None,
        regex: str | None = None,
        assignor: str | None = None,
        version: int = 1,
        node: int | None = None,
    ) -> None:
        self.group = group
        self.id = member_id
        self.epoch = 0
        self.owned: dict[UUID, list[int]] = {}
        self._world = world
        self._topics = topics
        self._instance = instance
        self._rack = rack
        self._regex = regex
        self._assignor = assignor
        self._version = version
        self._node = node

    def join(self, *, label: str | None = None, **instead: Any) -> None:
        """Join with everything that it has to say."""
        self.epoch, self.owned = 0, {}
        fields: dict[str, Any] = {
            "instance_id": self._instance,
            "rack_id": self._rack,
            "rebalance_timeout_ms": REBALANCE_MS,
            "subscribed_topic_names": self._topics if self._topics or self._regex is None else None,
            "server_assignor": self._assignor,
            "topic_partitions": [],
        }
        if self._version >= 1:
            fields["subscribed_topic_regex"] = self._regex
        self.beat(label=label, **{**fields, **instead})

    def confirm(self, *, label: str | None = None, **more: Any) -> None:
        """A heartbeat that says what it owns."""
        self.beat(label=label, topic_partitions=self.owning(), **more)

    def live(self) -> bool:
        """A heartbeat that says what it owns. Whether its epoch or its partitions changed."""
        before = self.epoch, self.owned
        self.confirm()
        return before != (self.epoch, self.owned)

    def leave(self, *, label: str | None = None, for_a_while: bool = False) -> None:
        self.beat(label=label, member_epoch=-2 if for_a_while else -1)

    def owning(self) -> list[consumer_groups.TopicPartitions]:
        return [consumer_groups.TopicPartitions(topic_id=topic_id, partitions=each) for topic_id, each in self.owned.items() if each]

    def beat(self, *, label: str | None = None, **fields: Any) -> None:
        """A heartbeat with these fields, which is noted if it has a label. Without one it must succeed."""
        world = self._world
        known: dict[str, Any] = {"group_id": self.group, "member_id": self.id, "member_epoch": self.epoch}
        if self._instance is not None:
            known["instance_id"] = self._instance
        request = consumer_groups.ConsumerGroupHeartbeatRequest(**{**known, **fields})
        node = world.coordinator_of(self.group) if self._node is None and self.group else self._node
        answer = world.ask(request, self._version, consumer_groups.ConsumerGroupHeartbeatResponse, node=node)
        if label is not None:
            world.note(label, self._show(answer))
        else:
            assert answer.error_code == 0, error_name(answer.error_code)
        if answer.error_code or answer.member_epoch < 0:
            return
        self.id, self.epoch = answer.member_id or "", answer.member_epoch
        if answer.assignment is not None:
            self.owned = {each.topic_id: each.partitions for each in answer.assignment.topic_partitions}

    def _show(self, answer: consumer_groups.ConsumerGroupHeartbeatResponse) -> str:
        world = self._world
        message = answer.error_message
        if message is not None:
            message = message.replace(self.group, "it") if self.group else message
        assignment = "null"
        if answer.assignment is not None:
            assignment = f"[{world.show_owned({each.topic_id: each.partitions for each in answer.assignment.topic_partitions})}]"
        return (
            f"{error_name(answer.error_code)} {message} member={world.show_made_id(answer.member_id)} epoch={answer.member_epoch}"
            f" interval={answer.heartbeat_interval_ms} {assignment}"
        )
