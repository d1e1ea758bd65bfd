"""Questions about share groups (KIP-932): members, records and their acknowledgements, offsets, and what the coordinators keep of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any
from uuid import UUID

from fencepost.broker_stub.cluster.topics import SHARE_STATE_TOPIC
from fencepost.broker_stub.groups.state import share_group_records as share_records
from fencepost.broker_stub.groups.state.consumer_group_records import MemberKey
from fencepost.broker_stub.share_partitions.coordinator.coordinators import kafka_uuid
from fencepost.broker_stub.share_partitions.coordinator.records import Snapshot, read_share_record
from fencepost.producer import wire
from fencepost.producer.wire import error_name
from fencepost.producer.wire.messages import configs, incremental_configs, share_fetch, share_groups, share_offsets, share_state
from fencepost.producer.wire.messages.share_offsets import DescribeShareGroupOffsetsResponseGroup
from fencepost.producer.wire.records import iter_batches, read_records
from tests.conformance.asks_consumers import ConsumerAsks
from tests.conformance.asks_fetch import FETCH_VERSION, fetch_request
from tests.conformance.stage import READY_TIMEOUT_S, Topic
from tests.waiting import until

GROUP = 32
FINAL = -1
PATIENT_MS = 3000

Acks = Mapping[int, Sequence[tuple[int, int, Sequence[int]]]]
"""By partition: first offset, last offset, types."""


class ShareAsks(ConsumerAsks):
    """A part of the world of a case."""

    def share_group(self, *, earliest: bool = True, **more: str) -> str:
        """An unused group with these configs (_ for a dot), which begins at the earliest offset."""
        group = self.group()
        wanted = {**({"share.auto.offset.reset": "earliest"} if earliest else {}), **{key.replace("_", "."): more[key] for key in more}}
        if wanted:
            self.configure_group(group, wanted)
        return group

    def configure_group(self, group: str, wanted: Mapping[str, str]) -> None:
        """Set configs of a group, and wait until they are there."""
        changes = [incremental_configs.AlterableConfig(name=name, value=value) for name, value in wanted.items()]
        resource = incremental_configs.AlterConfigsResource(resource_type=GROUP, resource_name=group, configs=changes)
        request = incremental_configs.IncrementalAlterConfigsRequest(resources=[resource])
        answer = self.ask(request, 1, incremental_configs.IncrementalAlterConfigsResponse)
        assert answer.responses[0].error_code == 0, answer.responses[0].error_message
        asked = configs.DescribeConfigsResource(resource_type=GROUP, resource_name=group, configuration_keys=list(wanted))

        def found(node: int) -> dict[str, str | None]:
            answer = self.ask(configs.DescribeConfigsRequest(resources=[asked]), 4, configs.DescribeConfigsResponse, node=node)
            return {each.name: each.value for each in answer.results[0].configs}

        for node in self.nodes:
            until(partial(found, node), f"configs of {group}", good=lambda known: known == wanted, timeout_s=READY_TIMEOUT_S)
        time.sleep(0.1)  # Kafka tells its coordinators after that

    def sharer(self, group: str, member_id: str, *topics: Topic, **how: Any) -> ShareMember:
        """A member that has not joined."""
        return ShareMember(self, group, member_id, [topic.name for topic in topics], **how)

    def sharers(self, group: str, topic: Topic, *member_ids: str) -> list[ShareMember]:
        """Members that have joined one after the other and have their partitions. Nothing is noted."""
        members: list[ShareMember] = []
        for member_id in member_ids:
            members.append(self.sharer(group, member_id, topic))
            members[-1].join()
            self.share(*members, topic=topic)
        return members

    def share(self, *members: ShareMember, topic: Topic) -> None:
        """Heartbeats in turn, until all partitions are given out and nothing changes any more."""

        def settled() -> bool:
            changed = [member.live() for member in members]
            given = {(topic_id, index) for member in members for topic_id, indexes in member.owned.items() for index in indexes}
            return not any(changed) and {(topic.id, index) for index in topic.leaders} <= given

        until(settled, "all partitions are given out", timeout_s=READY_TIMEOUT_S)

    def note_sharers(self, *members: ShareMember, label: str) -> None:
        for member in members:
            self.note(f"{label}: {member.id}", f"epoch={member.epoch} {self.show_sizes(member.owned)}")

    def show_sizes(self, owned: Mapping[UUID, Sequence[int]]) -> str:
        """How many partitions of each topic. Which ones a member keeps depends on the topic's random id."""
        return " ".join(sorted(f"{self.show_topic('', topic_id)} x{len(each)}" for topic_id, each in owned.items()))

    def describe_sharers(self, *names: str, label: str, operations: bool = False, node: int | None = None) -> None:
        request = share_groups.ShareGroupDescribeRequest(group_ids=list(names), include_authorized_operations=operations)

        def show(answer: share_groups.ShareGroupDescribeResponse) -> str:
            return "; ".join(sorted(map(self._show_sharers, answer.groups))) or "nothing"

        self.note_answer(label, request, 1, share_groups.ShareGroupDescribeResponse, show, node=self._at(names, node))

    def _show_sharers(self, group: share_groups.DescribedGroup) -> str:
        members = [
            f"{self.show_made_id(each.member_id)} rack={each.rack_id} epoch={each.member_epoch} client={each.client_id!r}"
            f" host={each.client_host!r} names={sorted(map(self.show_topic, each.subscribed_topic_names))}"
            f" has [{self._show_had(each.assignment)}]"
            for each in group.members
        ]
        return (
            f"{self.show_group(group.group_id)} {error_name(group.error_code)} {self.told_to(group.group_id, group.error_message)}"
            f" state={group.group_state!r} epoch={group.group_epoch}/{group.assignment_epoch} assignor={group.assignor_name!r}"
            f" operations={group.authorized_operations} {sorted(members)}"
        )

    def _show_had(self, assignment: share_groups.DescribedAssignment) -> str:
        names = {each.topic_id: each.topic_name for each in assignment.topic_partitions}
        assert all(self.look_up(name).topic_id == topic_id for topic_id, name in names.items())
        return self.show_sizes({each.topic_id: each.partitions for each in assignment.topic_partitions})

    def told_to(self, group: str, message: str | None) -> str | None:
        """The message without the group's name, and without ids of topics."""
        if message is None:
            return None
        message = message.replace(group, "it") if group else message
        for topic in self._topics.values():
            message = message.replace(topic.name, self.show_topic(topic.name))
        return message

    # -- offsets

    def share_offsets(self, group: str, *topics: Topic, label: str, version: int = 1, partitions: Sequence[int] = (0,)) -> None:
        """Of all topics of the group, or of these."""
        named = [share_offsets.DescribeShareGroupOffsetsRequestTopic(topic_name=each.name, partitions=list(partitions)) for each in topics]
        asked = share_offsets.DescribeShareGroupOffsetsRequestGroup(group_id=group, topics=named or None)
        request = share_offsets.DescribeShareGroupOffsetsRequest(groups=[asked])

        def show(answer: share_offsets.DescribeShareGroupOffsetsResponse) -> str:
            return "; ".join(self._show_share_offsets(each) for each in answer.groups)

        self.note_answer(label, request, version, share_offsets.DescribeShareGroupOffsetsResponse, show, node=self._at([group], None))

    def _show_share_offsets(self, group: DescribeShareGroupOffsetsResponseGroup) -> str:
        shown = [
            f"{self.show_topic(topic.topic_name)}{'' if topic.topic_id == wire.ZERO_UUID else ' with id'}-{each.partition_index}"
            f" {error_name(each.error_code)} {self.told_to(group.group_id, each.error_message)} start={each.start_offset}"
            f" epoch={each.leader_epoch} lag={each.lag}"
            for topic in group.topics
            for each in topic.partitions
        ]
        code = f"{error_name(group.error_code)} {self.told_to(group.group_id, group.error_message)}"
        return f"{self.show_group(group.group_id)} {code} [{'; '.join(sorted(shown))}]"

    def alter_share_offsets(self, group: str, topic: Topic, offsets: Mapping[int, int], *, label: str) -> None:
        parts = [
            share_offsets.AlterShareGroupOffsetsRequestPartition(partition_index=index, start_offset=offset)
            for index, offset in offsets.items()
        ]
        altered = [share_offsets.AlterShareGroupOffsetsRequestTopic(topic_name=topic.name, partitions=parts)]
        request = share_offsets.AlterShareGroupOffsetsRequest(group_id=group, topics=altered)

        def show(answer: share_offsets.AlterShareGroupOffsetsResponse) -> str:
            shown = [
                f"{self.show_topic(each.topic_name)}{'' if each.topic_id == wire.ZERO_UUID else ' with id'}-{part.partition_index}"
                f" {error_name(part.error_code)} {self.told_to(group, part.error_message)}"
                for each in answer.responses
                for part in each.partitions
            ]
            return f"{error_name(answer.error_code)} {self.told_to(group, answer.error_message)} [{'; '.join(sorted(shown))}]"

        self.note_answer(label, request, 0, share_offsets.AlterShareGroupOffsetsResponse, show, node=self._at([group], None))

    def delete_share_offsets(self, group: str, *topics: Topic, label: str) -> None:
        named = [share_offsets.DeleteShareGroupOffsetsRequestTopic(topic_name=each.name) for each in topics]
        request = share_offsets.DeleteShareGroupOffsetsRequest(group_id=group, topics=named)

        def show(answer: share_offsets.DeleteShareGroupOffsetsResponse) -> str:
            shown = [
                f"{self.show_topic(each.topic_name)}{'' if each.topic_id == wire.ZERO_UUID else ' with id'}"
                f" {error_name(each.error_code)} {self.told_to(group, each.error_message)}"
                for each in answer.responses
            ]
            return f"{error_name(answer.error_code)} {self.told_to(group, answer.error_message)} [{'; '.join(sorted(shown))}]"

        self.note_answer(label, request, 0, share_offsets.DeleteShareGroupOffsetsResponse, show, node=self._at([group], None))

    # -- the share coordinator

    def initialize_state(self, group: str, topic: Topic, *, label: str, **fields: Any) -> None:
        part = share_state.InitializedPartition(**fields)
        named = [share_state.InitializedTopic(topic_id=topic.id, partitions=[part])]
        request = share_state.InitializeShareGroupStateRequest(group_id=group, topics=named)
        self._note_state(label, request, share_state.InitializeShareGroupStateResponse, group)

    def read_state(self, group: str, topic: Topic, *, label: str, **fields: Any) -> None:
        named = [share_state.ReadTopic(topic_id=topic.id, partitions=[share_state.ReadPartition(**fields)])]
        request = share_state.ReadShareGroupStateRequest(group_id=group, topics=named)
        self._note_state(label, request, share_state.ReadShareGroupStateResponse, group)

    def write_state(
        self, group: str, topic: Topic, *, label: str, batches: Sequence[tuple[int, int, int, int]] = (), version: int = 1, **fields: Any
    ) -> None:
        """`batches`: first and last offset, state, number of deliveries."""
        kept = [
            share_state.StateBatch(first_offset=first, last_offset=last, delivery_state=state, delivery_count=count)
            for first, last, state, count in batches
        ]
        part = share_state.WrittenPartition(state_batches=kept, **fields)
        named = [share_state.WrittenTopic(topic_id=topic.id, partitions=[part])]
        request = share_state.WriteShareGroupStateRequest(group_id=group, topics=named)
        self._note_state(label, request, share_state.WriteShareGroupStateResponse, group, version=version)

    def delete_state(self, group: str, topic: Topic, *, label: str, **fields: Any) -> None:
        named = [share_state.DeletedTopic(topic_id=topic.id, partitions=[share_state.DeletedPartition(**fields)])]
        request = share_state.DeleteShareGroupStateRequest(group_id=group, topics=named)
        self._note_state(label, request, share_state.DeleteShareGroupStateResponse, group)

    def summarize_state(self, group: str, topic: Topic, *, label: str, version: int = 1, **fields: Any) -> None:
        named = [share_state.ReadTopic(topic_id=topic.id, partitions=[share_state.ReadPartition(**fields)])]
        request = share_state.ReadShareGroupStateSummaryRequest(group_id=group, topics=named)
        self._note_state(label, request, share_state.ReadShareGroupStateSummaryResponse, group, version=version)

    def _note_state(self, label: str, request: wire.Message, kind: type[Any], group: str, *, version: int = 0) -> None:
        def show(answer: Any) -> str:
            return "; ".join(self._show_state(each, group) for topic in answer.results for each in topic.partitions) or "nothing"

        self.note_answer(label, request, version, kind, show)

    def _show_state(self, part: Any, group: str) -> str:
        """Every field of a result, also those that are empty."""
        fields = {name: getattr(part, name) for name in part.__struct_fields__ if name not in ("partition", "error_code", "error_message")}
        if "state_batches" in fields:
            batches = fields["state_batches"]
            fields["state_batches"] = [f"{b.first_offset}-{b.last_offset} {b.delivery_state} x{b.delivery_count}" for b in batches]
        shown = " ".join(f"{name}={value}" for name, value in fields.items())
        return f"{part.partition} {error_name(part.error_code)} {self.told_to(group, part.error_message)} {shown}".rstrip()

    def state_coordinator(self, group: str, topic: Topic) -> None:
        """Wait until the share coordinator of the first partition is there."""
        named = [share_state.ReadTopic(topic_id=topic.id, partitions=[share_state.ReadPartition()])]
        request = share_state.ReadShareGroupStateSummaryRequest(group_id=group, topics=named)
        key = f"{group}:{kafka_uuid(topic.id)}:0"
        find = wire.FindCoordinatorRequest(key_type=2, coordinator_keys=[key])

        def is_ready() -> bool:
            if self.ask(find, 6, wire.FindCoordinatorResponse).coordinators[0].error_code:
                return False
            answer = self.ask(request, 1, share_state.ReadShareGroupStateSummaryResponse)
            code = answer.results[0].partitions[0].error_code
            return code not in (wire.ErrorCode.NOT_COORDINATOR, wire.ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)

        until(is_ready, "a share coordinator", timeout_s=READY_TIMEOUT_S)

    def state_records_of(self, group: str, *topics: Topic, label: str) -> None:
        """Note every record about the group in `__share_group_state`, and whether the stub writes the same bytes."""
        kept = self.known_topic(SHARE_STATE_TOPIC)
        found: dict[tuple[UUID, int], list[str]] = {}
        for index, leader in sorted(kept.leaders.items()):
            answer = self.ask(fetch_request([(kept, index, 0)], FETCH_VERSION), FETCH_VERSION, wire.FetchResponse, node=leader)
            for _, batch in iter_batches(bytes(answer.responses[0].partitions[0].records or b"")):
                for record in read_records(batch):
                    read = read_share_record(record.key or b"", record.value)
                    if read is not None and read.key.group_id == group:
                        same = read.entry() == (record.key, record.value)
                        found.setdefault((read.key.topic_id, read.key.partition), []).append(f"{self._show_kept(read.value)} same={same}")
        for topic in topics:
            for index in sorted(topic.leaders):
                for number, each in enumerate(found.get((topic.id, index), ()), start=1):
                    self.note(f"{label} {self.show_topic(topic.name)}-{index} {number}", each)

    def _show_kept(self, value: Any) -> str:
        if value is None:
            return "gone"
        batches = [f"{each.first}-{each.last} {each.state} x{each.deliveries}" for each in value.batches]
        shown = f"snapshot={value.snapshot_epoch} leader={value.leader_epoch} start={value.start_offset} done={value.done_count} {batches}"
        if isinstance(value, Snapshot):
            return (
                f"Snapshot state={value.state_epoch} {shown} made={self.show_time(value.created_ms)} at={self.show_time(value.written_ms)}"
            )
        return f"Update {shown}"

    # -- the log of the group's coordinator

    def _record(self, group: str, key: bytes, value: bytes | None) -> str:
        """One record in short form; empty for another group's record."""
        read = share_records.read_share_group_record(key, value)
        if read is None:
            return super()._record(group, key, value)
        if read.key.group_id != group:
            return ""
        whose = f" of {self.show_made_id(read.key.member_id)}" if isinstance(read.key, MemberKey) else ""
        return f"share {read.of.__name__}{whose}: {self._show_share_value(read.value)} same={read.entry() == (key, value)}"

    def _show_share_value(self, value: object) -> str:
        match value:
            case None:
                return "gone"
            case share_records.GroupMetadata():
                return f"epoch={value.epoch} hash of {self._hashed(value.metadata_hash)}"
            case share_records.MemberMetadata():
                names = [self.show_topic(name) for name in value.subscribed_topic_names]
                return f"{value.rack_id} {value.client_id} {value.client_host} {names}"
            case share_records.TargetAssignmentMetadata():
                return f"epoch={value.assignment_epoch} at={self.show_time(value.assignment_timestamp)}"
            case share_records.TargetAssignment():
                return self.show_owned({each.topic_id: each.partitions for each in value.topic_partitions})
            case share_records.CurrentAssignment():
                owned = self.show_owned({each.topic_id: each.partitions for each in value.assigned_partitions})
                return f"epoch={value.member_epoch} before={value.previous_member_epoch} state={value.state} [{owned}]"
            case share_records.StatePartitions():
                deleting = sorted(self.show_topic(each.topic_name, each.topic_id) for each in value.deleting_topics)
                return f"coming {self._named(value.initializing_topics)} there {self._named(value.initialized_topics)} going {deleting}"
        return repr(value)

    def _named(self, topics: Sequence[share_records.InitializedPartitions]) -> list[str]:
        return sorted(f"{self.show_topic(each.topic_name, each.topic_id)}:{','.join(map(str, sorted(each.partitions)))}" for each in topics)


class ShareMember:
    """One member. It takes its epoch and its partitions from responses, and counts the epochs of its share sessions."""

    def __init__(self, world: ShareAsks, group: str, member_id: str, topics: list[str], *, rack: str | None = None) -> None:
        self.group = group
        self.id = member_id
        self.epoch = 0
        self.owned: dict[UUID, list[int]] = {}
        self.session = 0
        self._world = world
        self._topics = topics
        self._rack = rack

    def join(self, *, label: str | None = None, **instead: Any) -> None:
        self.epoch, self.owned = 0, {}
        self.beat(label=label, **{"rack_id": self._rack, "subscribed_topic_names": self._topics, **instead})

    def live(self) -> bool:
        """A heartbeat. Whether the epoch or the partitions changed."""
        before = self.epoch, self.owned
        self.beat()
        return before != (self.epoch, self.owned)

    def leave(self, *, label: str | None = None) -> None:
        self.beat(label=label, member_epoch=-1)

    def beat(self, *, label: str | None = None, node: int | None = None, **fields: Any) -> None:
        """A heartbeat with these fields, which is noted if it has a label. Without one it must succeed."""
        world = self._world
        known: dict[str, Any] = {"group_id": self.group, "member_id": self.id, "member_epoch": self.epoch}
        request = share_groups.ShareGroupHeartbeatRequest(**{**known, **fields})
        at = world.coordinator_of(self.group) if node is None and self.group else node
        answer = world.ask(request, 1, share_groups.ShareGroupHeartbeatResponse, node=at)
        if label is not None:
            world.note(label, self._show_beat(answer))
        else:
            assert answer.error_code == 0, error_name(answer.error_code)
        if answer.error_code or answer.member_epoch < 0:
            return
        self.epoch = answer.member_epoch
        if answer.assignment is not None:
            self.owned = {each.topic_id: each.partitions for each in answer.assignment.topic_partitions}

    def _show_beat(self, answer: share_groups.ShareGroupHeartbeatResponse) -> str:
        world = self._world
        assignment = "null"
        if answer.assignment is not None:
            assignment = f"[{world.show_sizes({each.topic_id: each.partitions for each in answer.assignment.topic_partitions})}]"
        code = f"{error_name(answer.error_code)} {world.told_to(self.group, answer.error_message)}"
        code += f" member={world.show_made_id(answer.member_id)}"
        return f"{code} epoch={answer.member_epoch} interval={answer.heartbeat_interval_ms} {assignment}"

    # -- records

    def fetch(
        self,
        topic: Topic,
        *,
        label: str | None,
        partitions: Sequence[int] = (0,),
        acks: Acks | None = None,
        epoch: int | None = None,
        version: int = 2,
        node: int | None = None,
        forget: Sequence[int] = (),
        timed: bool = False,
        **how: Any,
    ) -> None:
        """ShareFetch in the member's session, or with another epoch."""
        acks = acks or {}
        parts = [
            share_fetch.FetchPartition(partition_index=index, acknowledgement_batches=_batches(acks.get(index, ()))) for index in partitions
        ]
        request = share_fetch.ShareFetchRequest(
            share_session_epoch=self.session if epoch is None else epoch,
            topics=[share_fetch.FetchTopic(topic_id=topic.id, partitions=parts)] if parts else [],
            forgotten_topics_data=[share_fetch.ForgottenTopic(topic_id=topic.id, partitions=list(forget))] if forget else [],
            **{
                "group_id": self.group,
                "member_id": self.id,
                "max_wait_ms": PATIENT_MS,
                "min_bytes": 1,
                "max_bytes": 1 << 20,
                "max_records": 500,
                "batch_size": 500,
                **how,
            },
        )
        began = time.monotonic()

        def show(answer: share_fetch.ShareFetchResponse) -> str:
            self._count(answer.error_code, request.share_session_epoch)
            waited = (" waited" if time.monotonic() - began > 0.2 else " at once") if timed else ""
            return self._show_fetched(answer) + waited

        self._note(label, request, version, share_fetch.ShareFetchResponse, show, topic, node)

    def acknowledge(
        self,
        topic: Topic,
        *acks: tuple[int, int, Sequence[int]],
        label: str | None,
        partition: int = 0,
        epoch: int | None = None,
        version: int = 2,
        node: int | None = None,
        **how: Any,
    ) -> None:
        """ShareAcknowledge for one partition."""
        part = share_fetch.AcknowledgePartition(partition_index=partition, acknowledgement_batches=_batches(acks))
        request = share_fetch.ShareAcknowledgeRequest(
            share_session_epoch=self.session if epoch is None else epoch,
            topics=[share_fetch.AcknowledgeTopic(topic_id=topic.id, partitions=[part])],
            **{"group_id": self.group, "member_id": self.id, **how},
        )

        def show(answer: share_fetch.ShareAcknowledgeResponse) -> str:
            self._count(answer.error_code, request.share_session_epoch)
            return self._show_acknowledged(answer)

        self._note(label, request, version, share_fetch.ShareAcknowledgeResponse, show, topic, node)

    def _note(
        self,
        label: str | None,
        request: wire.Message,
        version: int,
        kind: type[Any],
        show: Callable[[Any], str],
        topic: Topic,
        node: int | None,
    ) -> None:
        """Note the answer. Without a label it must be good."""
        node = topic.leaders.get(0) if node is None else node
        if label is not None:
            self._world.note_answer(label, request, version, kind, show, node=node)
            return
        answer = self._world.ask(request, version, kind, node=node)
        show(answer)
        assert answer.error_code == 0, error_name(answer.error_code)

    def _count(self, code: int, epoch: int) -> None:
        """The session's next epoch."""
        if not code:
            self.session = 0 if epoch == FINAL else epoch + 1

    def _show_fetched(self, answer: share_fetch.ShareFetchResponse) -> str:
        world = self._world
        shown = []
        for topic in answer.responses:
            for each in topic.partitions:
                acquired = [f"{part.first_offset}-{part.last_offset} x{part.delivery_count}" for part in each.acquired_records]
                batches = [f"{header.base_offset}-{header.last_offset}" for header, _ in iter_batches(bytes(each.records))]
                shown.append(
                    f"{world.show_topic('', topic.topic_id)}-{each.partition_index} {error_name(each.error_code)}"
                    f" {world.told_to(self.group, each.error_message)} ack={error_name(each.acknowledge_error_code)}"
                    f" {world.told_to(self.group, each.acknowledge_error_message)} {batches} got {acquired}"
                    f"{self._show_leader(each.current_leader, answer.node_endpoints)}"
                )
        return self._show_whole(answer, shown)

    def _show_acknowledged(self, answer: share_fetch.ShareAcknowledgeResponse) -> str:
        world = self._world
        shown = [
            f"{world.show_topic('', topic.topic_id)}-{each.partition_index} {error_name(each.error_code)}"
            f" {world.told_to(self.group, each.error_message)}{self._show_leader(each.current_leader, answer.node_endpoints)}"
            for topic in answer.responses
            for each in topic.partitions
        ]
        return self._show_whole(answer, shown)

    def _show_whole(self, answer: share_fetch.ShareFetchResponse | share_fetch.ShareAcknowledgeResponse, shown: list[str]) -> str:
        code = f"{error_name(answer.error_code)} {self._world.told_to(self.group, answer.error_message)}"
        return f"{code} lock={answer.acquisition_lock_timeout_ms} [{'; '.join(sorted(shown))}]"

    def _show_leader(self, leader: share_fetch.LeaderIdAndEpoch, endpoints: Sequence[Any]) -> str:
        if leader.leader_id == 0 and leader.leader_epoch == 0 and not endpoints:
            return ""
        return self._world.show_leader(wire.LeaderIdAndEpoch(leader_id=leader.leader_id, leader_epoch=leader.leader_epoch), endpoints)


def _batches(acks: Sequence[tuple[int, int, Sequence[int]]]) -> list[share_fetch.AcknowledgementBatch]:
    return [
        share_fetch.AcknowledgementBatch(first_offset=first, last_offset=last, acknowledge_types=list(types)) for first, last, types in acks
    ]
