"""Questions about groups and their offsets. Member ids are shown as m1, m2 and so on, in the order of their assignment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any
from uuid import UUID

from fencepost.producer import wire
from fencepost.producer.wire import ErrorCode, error_name
from fencepost.producer.wire.messages import group_admin, group_offsets
from tests.conformance.asks_admin import AdminAsks
from tests.conformance.group_member import Member
from tests.conformance.stage import READY_TIMEOUT_S, Topic
from tests.waiting import until

LATER = (ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR)


class GroupAsks(AdminAsks):
    """A part of the world of a case."""

    @cached_property
    def _members(self) -> dict[str, str]:
        return {}

    @cached_property
    def _groups(self) -> list[str]:
        return []

    def group(self) -> str:
        """An unused group with a coordinator that is ready."""
        name = f"group-{self._run}-{len(self._groups)}"
        self._groups.append(name)
        self.coordinator_of(name)
        return name

    def coordinator_of(self, group: str) -> int:
        def find() -> wire.Coordinator:
            request = wire.FindCoordinatorRequest(coordinator_keys=[group])
            return self.ask(request, 4, wire.FindCoordinatorResponse).coordinators[0]

        def is_ready() -> bool:
            found = find()
            if found.error_code:
                return False
            described = group_admin.DescribeGroupsRequest(groups=[group])
            answer = self.ask(described, 5, group_admin.DescribeGroupsResponse, node=found.node_id)
            return answer.groups[0].error_code not in LATER

        until(is_ready, "a coordinator", timeout_s=READY_TIMEOUT_S)
        return find().node_id

    def another_broker(self, group: str) -> int:
        """A broker that does not coordinate the group."""
        coordinator = self.coordinator_of(group)
        return next(node for node in self.nodes if node != coordinator)

    def member(self, group: str, *, instance: str | None = None, version: int = 5, node: int | None = None) -> Member:
        """A possible member. Its connection is closed at the end of the case."""
        coordinator = self.coordinator_of(group) if group else self.nodes[0]
        connection = self.open(coordinator if node is None else node)
        self.keep(connection)
        return Member(self, group, connection, instance=instance, version=version)

    def stable(self, group: str, count: int = 1, **options: Any) -> list[Member]:
        """So many members that have joined and have their assignments; nothing is noted. The first one leads."""
        members: list[Member] = []
        for _ in range(count):
            newcomer = self.member(group, **options)
            newcomer.invite()
            newcomer.send_join()
            if members:
                self.until_state(group, "PreparingRebalance")
            for member in members:
                member.send_join()
            members.append(newcomer)
            for member in members:
                assert member.receive_join().error_code == 0
        assigned = {member.id: b"for %d" % number for number, member in enumerate(members, start=1)}
        for number, member in enumerate(members):
            assert member.sync(assigned if number == 0 else {}).error_code == 0
        return members

    def show_member(self, member_id: str) -> str:
        if not member_id:
            return "nobody"
        return self._members.setdefault(member_id, f"m{len(self._members) + 1}")

    def show_data(self, data: bytes) -> str:
        """What a member sent to its assignor, without the names of topics."""
        for name in self._topics:
            data = data.replace(name.encode(), self.show_topic(name).encode())
        return repr(data)

    def show_group(self, group: str) -> str:
        return f"g{self._groups.index(group) + 1}" if group in self._groups else repr(group)

    # -- administration ----------------------------------------------------------------------------------------------------

    def describe_groups(self, *names: str, label: str, version: int = 6, operations: bool = False, node: int | None = None) -> None:
        request = group_admin.DescribeGroupsRequest(groups=list(names), include_authorized_operations=operations)

        def show(answer: group_admin.DescribeGroupsResponse) -> str:
            return "; ".join(sorted(self._show_described(each) for each in answer.groups)) or "nothing"

        self.note_answer(label, request, version, group_admin.DescribeGroupsResponse, show, node=self._at(names, node))

    def until_state(self, group: str, state: str) -> None:
        request = group_admin.DescribeGroupsRequest(groups=[group])
        node = self.coordinator_of(group)
        until(
            lambda: self.ask(request, 5, group_admin.DescribeGroupsResponse, node=node).groups[0].group_state,
            f"the group is {state}",
            good=lambda found: found == state,
            timeout_s=READY_TIMEOUT_S,
        )

    def list_groups(self, *, label: str, version: int = 5, states: Sequence[str] = (), types: Sequence[str] = ()) -> None:
        """Note this case's groups among those that the first broker lists."""
        request = group_admin.ListGroupsRequest(states_filter=list(states), types_filter=list(types))

        def show(answer: group_admin.ListGroupsResponse) -> str:
            shown = [
                f"{self.show_group(each.group_id)} protocol={each.protocol_type!r} state={each.group_state!r} type={each.group_type!r}"
                for each in answer.groups
                if each.group_id in self._groups
            ]
            return f"{error_name(answer.error_code)} [{'; '.join(sorted(shown))}]"

        self.note_answer(label, request, version, group_admin.ListGroupsResponse, show)

    def delete_groups(self, *names: str, label: str, version: int = 2, node: int | None = None) -> None:
        request = group_admin.DeleteGroupsRequest(groups_names=list(names))

        def show(answer: group_admin.DeleteGroupsResponse) -> str:
            return "; ".join(sorted(f"{self.show_group(each.group_id)} {error_name(each.error_code)}" for each in answer.results))

        self.note_answer(label, request, version, group_admin.DeleteGroupsResponse, show, node=self._at(names, node))

    def _show_described(self, group: group_admin.DescribedGroup) -> str:
        members = [
            f"{self.show_member(each.member_id)} instance={each.group_instance_id} client={each.client_id!r} host={each.client_host!r}"
            f" metadata={self.show_data(each.member_metadata)} assignment={self.show_data(each.member_assignment)}"
            for each in group.members
        ]
        message = group.error_message.replace(f" {group.group_id} ", " it ") if group.error_message else group.error_message
        return (
            f"{self.show_group(group.group_id)} {error_name(group.error_code)} {message} state={group.group_state!r}"
            f" protocol={group.protocol_type!r}/{group.protocol_data!r} operations={group.authorized_operations} {sorted(members)}"
        )

    # -- offsets -----------------------------------------------------------------------------------------------------------

    def commit(
        self,
        group: str,
        offsets: Mapping[Topic, Mapping[int, int]],
        *,
        label: str,
        version: int = 9,
        member: Member | None = None,
        generation: int | None = None,
        member_id: str | None = None,
        metadata: str | None = "",
        retention_ms: int = -1,
        node: int | None = None,
    ) -> None:
        """Commit without a member, or as a member, with the member's generation unless another one is given."""
        request = group_offsets.OffsetCommitRequest(
            group_id=group,
            generation_id_or_member_epoch=(member.generation if member else -1) if generation is None else generation,
            member_id=(member.id if member else "") if member_id is None else member_id,
            group_instance_id=member.instance if member else None,
            retention_time_ms=retention_ms,
            topics=[
                group_offsets.OffsetCommitRequestTopic(
                    name=topic.name if version < 10 else "",
                    topic_id=topic.id,
                    partitions=[
                        group_offsets.OffsetCommitRequestPartition(
                            partition_index=index, committed_offset=offset, committed_leader_epoch=0, committed_metadata=metadata
                        )
                        for index, offset in parts.items()
                    ],
                )
                for topic, parts in offsets.items()
            ],
        )

        def show(answer: group_offsets.OffsetCommitResponse) -> str:
            return "; ".join(
                sorted(
                    f"{self.show_topic(topic.name, topic.topic_id)} p{each.partition_index} {error_name(each.error_code)}"
                    for topic in answer.topics
                    for each in topic.partitions
                )
            )

        self.note_answer(label, request, version, group_offsets.OffsetCommitResponse, show, node=self._at([group], node))

    def committed(
        self,
        group: str,
        topics: Mapping[Topic, Sequence[int]] | None,
        *,
        label: str,
        version: int = 9,
        stable: bool = False,
        node: int | None = None,
    ) -> None:
        """Note the group's committed offsets, of some partitions or of all."""
        named = None
        if topics is not None:
            named = [(topic.name if version < 10 else "", topic.id, list(parts)) for topic, parts in topics.items()]
        if version < 8:
            older = None
            if named is not None:
                older = [group_offsets.OffsetFetchRequestTopic(name=name, partition_indexes=parts) for name, _, parts in named]
            request = group_offsets.OffsetFetchRequest(group_id=group, topics=older, require_stable=stable)
        else:
            request = group_offsets.OffsetFetchRequest(groups=[offset_fetch_group(group, named)], require_stable=stable)
        self.note_answer(label, request, version, group_offsets.OffsetFetchResponse, self._show_committed, node=self._at([group], node))

    def committed_by(self, *names: str, topic: Topic, label: str, version: int = 9) -> None:
        """Ask for several groups in one request."""
        asked = [offset_fetch_group(name, [(topic.name if version < 10 else "", topic.id, [0])]) for name in names]
        request = group_offsets.OffsetFetchRequest(groups=asked)
        self.note_answer(label, request, version, group_offsets.OffsetFetchResponse, self._show_committed, node=self._at(names, None))

    def until_uncommitted(self, group: str, topic: Topic) -> None:
        """Wait until the coordinator knows that the topic is deleted."""
        asked = group_offsets.OffsetFetchRequest(groups=[offset_fetch_group(group, [(topic.name, topic.id, [0])])])
        node = self.coordinator_of(group)
        until(
            lambda: self.ask(asked, 9, group_offsets.OffsetFetchResponse, node=node).groups[0].topics[0].partitions[0].committed_offset,
            "no offset",
            good=lambda offset: offset == -1,
            timeout_s=READY_TIMEOUT_S,
        )

    def delete_offsets(self, group: str, topics: Mapping[Topic, Sequence[int]], *, label: str, node: int | None = None) -> None:
        request = group_offsets.OffsetDeleteRequest(
            group_id=group,
            topics=[
                group_offsets.OffsetDeleteRequestTopic(
                    name=topic.name, partitions=[group_offsets.OffsetDeleteRequestPartition(partition_index=each) for each in parts]
                )
                for topic, parts in topics.items()
            ],
        )

        def show(answer: group_offsets.OffsetDeleteResponse) -> str:
            shown = sorted(
                f"{self.show_topic(topic.name)} p{each.partition_index} {error_name(each.error_code)}"
                for topic in answer.topics
                for each in topic.partitions
            )
            return f"{error_name(answer.error_code)} [{'; '.join(shown)}]"

        self.note_answer(label, request, 0, group_offsets.OffsetDeleteResponse, show, node=self._at([group], node))

    def _show_committed(self, answer: group_offsets.OffsetFetchResponse) -> str:
        found: list[tuple[str, int, Any]] = [(self.show_group(group.group_id), group.error_code, group.topics) for group in answer.groups]
        shown = []
        for name, code, topics in found or [("the group", answer.error_code, answer.topics)]:
            parts = sorted(
                f"{self.show_topic(topic.name, getattr(topic, 'topic_id', wire.ZERO_UUID))} p{each.partition_index}"
                f" {error_name(each.error_code)} offset={each.committed_offset} epoch={each.committed_leader_epoch} {each.metadata!r}"
                for topic in topics
                for each in topic.partitions
            )
            shown.append(f"{name} {error_name(code)} [{'; '.join(parts)}]")
        return "; ".join(shown)

    def _at(self, names: Sequence[str], node: int | None) -> int:
        known = [name for name in names if name in self._groups]
        return node if node is not None else self.coordinator_of(known[0]) if known else self.nodes[0]


def offset_fetch_group(group: str, topics: Sequence[tuple[str, UUID, list[int]]] | None) -> group_offsets.OffsetFetchRequestGroup:
    named = None
    if topics is not None:
        named = [
            group_offsets.OffsetFetchRequestTopics(name=name, topic_id=topic_id, partition_indexes=parts)
            for name, topic_id, parts in topics
        ]
    return group_offsets.OffsetFetchRequestGroup(group_id=group, topics=named)
