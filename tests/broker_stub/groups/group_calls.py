"""Requests of group members to a cluster without sockets, under a virtual clock. Replies may come later."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fencepost.broker_stub.cluster.coordinator_partition import partition_for
from fencepost.broker_stub.cluster.topics import OFFSETS_TOPIC
from fencepost.broker_stub.groups.state.classic_group import Group
from fencepost.broker_stub.requests.call import Reply
from fencepost.producer import wire
from fencepost.producer.wire.messages.group_offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from fencepost.producer.wire.messages.groups import (
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    LeaveGroupRequest,
    MemberIdentity,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
)
from tests.broker_stub.stub_calls import Inside, Pending

SESSION_MS, REBALANCE_MS = 10_000, 60_000


class Groups(Inside):
    """A cluster with group coordinators."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.answered: list[Pending] = []  # in the order of their answers
        self.cluster.internal_topic(OFFSETS_TOPIC)

    def coordinator(self, group: str = "g") -> int:
        topic = self.cluster.topics.named(OFFSETS_TOPIC)
        assert topic is not None
        return topic.partitions[partition_for(group, len(topic.partitions))].leader

    def move_coordinator(self, group: str = "g") -> None:
        topic = self.cluster.topics.named(OFFSETS_TOPIC)
        assert topic is not None
        self.cluster.move_leader(topic.partitions[partition_for(group, len(topic.partitions))])

    def group(self, name: str = "g") -> Group:
        """The group as its coordinator knows it."""
        return self.services.groups.shard_for(name, self.coordinator(name)).groups.groups[name]

    def start(self, request: wire.Message, version: int, *, node: int | None = None, client_id: str = "c") -> Pending:
        """Send a request to the coordinator. Its response may come later."""
        pending = Pending(tick=self.cluster.tick)

        def answered(reply: Reply) -> None:
            pending.replies.append(reply)
            self.answered.append(pending)

        header = wire.RequestHeader(api_key=request.api, api_version=version, correlation_id=1, client_id=client_id)
        self.dispatcher.handle(self.coordinator() if node is None else node, 1, header, request, answered)
        return pending

    def join_all(self, *members: Member, **how: Any) -> None:
        """Let all members join. Then each takes its id and generation from the response."""
        joined = [member.join(**how) for member in members]
        for member, pending in zip(members, joined, strict=True):
            member.heard(pending.answer)

    def now(self) -> None:
        """Run everything that is due at the current time."""
        self.cluster.tick()

    def member(self, name: str, *, instance: str | None = None, group: str = "g", version: int = 9) -> Member:
        return Member(self, name, instance=instance, group=group, version=version)

    def stable(self, *names: str, static: bool = False, **options: Any) -> list[Member]:
        """Members of these names with their assignments; the first one leads."""
        members: list[Member] = []
        for name in names:
            member = self.member(name, instance=name if static else None)
            waiting = [member.join(**options), *(each.join(**options) for each in members)]
            self.now()
            assert [pending.answer.error_code for pending in waiting] == [0] * len(waiting)
            members.append(member)
        for member, pending in zip([members[-1], *members[:-1]], waiting, strict=True):
            member.heard(pending.answer)
        self.share_out(*members)
        return members

    def share_out(self, *members: Member) -> None:
        """The leader assigns to each member its own name."""
        synced = [each.sync({each.id: each.name.encode() for each in members} if each is members[0] else {}) for each in members]
        assert [pending.answer.assignment for pending in synced] == [each.name.encode() for each in members]

    def commit(self, topic: str, offset: int, *, member: Member | None = None, group: str = "g", version: int = 9) -> int:
        """Commit the offset of the first partition; return the response's error code."""
        request = OffsetCommitRequest(
            group_id=group,
            generation_id_or_member_epoch=member.generation if member is not None else -1,
            member_id=member.id if member is not None else "",
            topics=[OffsetCommitRequestTopic(name=topic, partitions=[OffsetCommitRequestPartition(committed_offset=offset)])],
        )
        return int(self.start(request, version, node=self.coordinator(group)).answer.topics[0].partitions[0].error_code)

    def committed(self, topic: str, *, group: str = "g") -> int:
        asked = OffsetFetchRequestGroup(group_id=group, topics=[OffsetFetchRequestTopics(name=topic, partition_indexes=[0])])
        answer = self.start(OffsetFetchRequest(groups=[asked]), 9, node=self.coordinator(group)).answer
        return int(answer.groups[0].topics[0].partitions[0].committed_offset)


class Member:
    """A member of a group. `heard` takes its id and generation from a response."""

    def __init__(self, world: Groups, name: str, *, instance: str | None, group: str, version: int) -> None:
        self.world = world
        self.name = name
        self.instance = instance
        self.group = group
        self.version = version
        self.id = ""
        self.generation = -1

    def join(
        self,
        *,
        protocols: Mapping[str, bytes] | Sequence[tuple[str, bytes]] = (),
        session_ms: int = SESSION_MS,
        rebalance_ms: int = REBALANCE_MS,
        protocol_type: str = "consumer",
    ) -> Pending:
        """Join. If the coordinator first assigns an id, join again."""
        request = JoinGroupRequest(
            group_id=self.group,
            session_timeout_ms=session_ms,
            rebalance_timeout_ms=rebalance_ms,
            member_id=self.id,
            group_instance_id=self.instance,
            protocol_type=protocol_type,
            protocols=[
                JoinGroupRequestProtocol(name=name, metadata=data)
                for name, data in (protocols.items() if isinstance(protocols, Mapping) else protocols or [("range", self.name.encode())])
            ],
        )
        pending = self.world.start(request, self.version, client_id=self.name)
        if not pending.waits and pending.answer.error_code == wire.ErrorCode.MEMBER_ID_REQUIRED:
            self.id = pending.answer.member_id
            return self.join(protocols=protocols, session_ms=session_ms, rebalance_ms=rebalance_ms, protocol_type=protocol_type)
        return pending

    def heard(self, answer: Any) -> Any:
        self.id, self.generation = answer.member_id, answer.generation_id
        return answer

    def sync(self, assigned: dict[str, bytes] | None = None) -> Pending:
        request = SyncGroupRequest(
            group_id=self.group,
            generation_id=self.generation,
            member_id=self.id,
            group_instance_id=self.instance,
            protocol_type="consumer",
            protocol_name="range",
            assignments=[SyncGroupRequestAssignment(member_id=each, assignment=data) for each, data in (assigned or {}).items()],
        )
        return self.world.start(request, 5)

    def heartbeat(self) -> wire.ErrorCode:
        request = HeartbeatRequest(group_id=self.group, generation_id=self.generation, member_id=self.id, group_instance_id=self.instance)
        return wire.ErrorCode(self.world.start(request, 4).answer.error_code)

    def leave(self) -> wire.ErrorCode:
        request = LeaveGroupRequest(group_id=self.group, members=[MemberIdentity(member_id=self.id, group_instance_id=self.instance)])
        return wire.ErrorCode(self.world.start(request, 5).answer.members[0].error_code)
