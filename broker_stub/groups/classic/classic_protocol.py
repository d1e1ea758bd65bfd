"""The classic group protocol: join, sync, heartbeat and leave, and what happens when a member does not send one of them.

It makes the same checks in the same order as Kafka's `GroupMetadataManager`, with the same timers. Each request brings a function that gets
its answer, at once or later. Answers leave after a change is complete, never during it. It does no I/O and reads only the given clock.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from fencepost.broker_stub.cluster.internal_append import Then
from fencepost.broker_stub.groups.classic.rebalances import JoinAnswer, LeaveAnswer, Rebalances, Surroundings, SyncAnswer
from fencepost.broker_stub.groups.classic.responses import (
    NO_MEMBER_ID,
    Caller,
    joined,
    left,
    member_of,
    no_join,
    protocols_of,
    sync_error,
    synced,
)
from fencepost.broker_stub.groups.state.classic_group import Group, Member
from fencepost.broker_stub.groups.state.classic_states import Event, State
from fencepost.broker_stub.groups.state.consumer_offsets_log import Store
from fencepost.broker_stub.groups.state.pending_offsets import Key
from fencepost.producer.wire import ErrorCode
from fencepost.producer.wire.messages.groups import (
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    SyncGroupRequest,
    SyncGroupResponse,
)

NEW_MEMBER_JOIN_TIMEOUT_MS = 300_000
MEMBER_ID_REQUIRED_SINCE = 4
SKIP_ASSIGNMENT_SINCE = 9


class ClassicGroups:
    """The groups of one shard, as its store has them."""

    def __init__(self, store: Store, around: Surroundings) -> None:
        self._store = store
        self._around = around
        self._rebalances = Rebalances(store, around)
        self.groups = {group.id: group for group in store.load(around.now_ms())}
        for group in self.groups.values():
            for member in group.members.values():
                self._rebalances.restart_session(group, member)

    # Requests

    def join(self, request: JoinGroupRequest, caller: Caller, answer: JoinAnswer) -> None:
        group = self.groups.get(request.group_id)
        if group is None and request.member_id != NO_MEMBER_ID:
            self._rebalances.tell(answer, no_join(ErrorCode.UNKNOWN_MEMBER_ID, request.member_id))
        else:
            if group is None:
                group = self.create(request.group_id)
                self._store.save(group)
            if not self._has_room(group, request.member_id):
                group.remove(request.member_id)
                self._rebalances.tell(answer, no_join(ErrorCode.GROUP_MAX_SIZE_REACHED))
            elif not group.supports(request.protocol_type, [protocol.name for protocol in request.protocols]):
                self._rebalances.tell(answer, no_join(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, request.member_id))
            elif request.member_id == NO_MEMBER_ID:
                self._join_new(group, request, caller, answer)
            else:
                self._join_known(group, request, caller, answer)
        self._rebalances.send()

    def sync(self, request: SyncGroupRequest, answer: SyncAnswer) -> None:
        group = self.groups.get(request.group_id)
        if group is None or group.state is State.EMPTY:
            self._rebalances.tell(answer, SyncGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID))
        else:
            code = sync_error(group, request)
            if code:
                self._rebalances.tell(answer, SyncGroupResponse(error_code=code))
            else:
                self._sync(group, request, answer)
        self._rebalances.send()

    def heartbeat(self, request: HeartbeatRequest) -> int:
        """The code of the answer."""
        group = self.groups.get(request.group_id)
        if group is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        code = group.member_error(request.member_id, request.group_instance_id)
        if code:
            return code
        if request.generation_id != group.generation:
            return ErrorCode.ILLEGAL_GENERATION
        self._rebalances.restart_session(group, group.members[request.member_id])
        return ErrorCode.REBALANCE_IN_PROGRESS if group.state is State.PREPARING_REBALANCE else ErrorCode.NONE

    def leave(self, request: LeaveGroupRequest, answer: LeaveAnswer) -> None:
        """When the last member leaves, the answer waits until that is written."""
        group = self.groups.get(request.group_id)
        if group is None:
            self._rebalances.tell(answer, LeaveGroupResponse(members=[left(each, ErrorCode.UNKNOWN_MEMBER_ID) for each in request.members]))
            self._rebalances.send()
            return
        answers = [left(each, self._leave(group, each)) for each in request.members]
        was_empty = group.state is State.EMPTY

        def written(code: int) -> None:
            self._rebalances.tell(answer, LeaveGroupResponse(error_code=code) if code else LeaveGroupResponse(members=answers))
            self._rebalances.send()

        if not all(each.error_code for each in answers):
            self._rebalances.rebalance_if_running(group, "members have left", emptied=written)
        if was_empty or group.state is not State.EMPTY:
            written(ErrorCode.NONE)
        self._rebalances.send()

    # What offsets and administrators need

    @property
    def begin_with_offsets(self) -> bool:
        """Whether a group without protocol exists from its first offset on, and not from the first attempt to commit one."""
        return self._around.groups_begin_with_offsets

    def create(self, group_id: str) -> Group:
        """Creates a group without members."""
        group = self.groups[group_id] = Group(group_id, self._around.now_ms())
        return group

    def delete(self, group_id: str, then: Then | None = None) -> None:
        """Deletes a group that must have no members, with its offsets."""
        group = self.groups.pop(group_id)
        self._rebalances.unload(group, "deleted")
        self._store.delete(group, then)
        self._rebalances.send()

    def convert(self, group_id: str) -> None:
        """Ends a group without members, because a group of the consumer protocol has taken its place."""
        self._rebalances.unload(self.groups.pop(group_id), "a consumer group took its place")
        self._rebalances.send()

    def interrupt(self, group: Group) -> None:
        """Ends what the members wait for: they must join again, because the group becomes one of the consumer protocol."""
        for member in group.members.values():
            self._rebalances.answer_join(member, no_join(ErrorCode.REBALANCE_IN_PROGRESS, member.id))
            self._rebalances.answer_sync(member, SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))
        self._rebalances.send()

    def adopt(self, group: Group, *, rebalances: bool) -> None:
        """Takes up a group that was one of the consumer protocol. `rebalances`: its members must join again."""
        self.groups[group.id] = group
        for member in group.members.values():
            self._rebalances.restart_session(group, member)
        if rebalances:
            self._rebalances.prepare(group, "it was a consumer group")
        self._rebalances.send()

    def forget_offsets(self, keys: Sequence[Key], then: Then | None = None) -> None:
        """Notes that these offsets are deleted. Before Kafka 4.0 a group without members goes with its last offset."""
        ending = (
            [] if self._around.groups_outlive_offsets else [each for each in {key[0] for key in keys} if self._is_left_bare(each, keys)]
        )
        for group_id in ending:
            self.delete(group_id, then)
        if not ending:
            self._store.forget(keys, then)
        else:
            self._store.forget([key for key in keys if key[0] not in ending])

    def _is_left_bare(self, group_id: str, without: Sequence[Key]) -> bool:
        return self.groups[group_id].state is State.EMPTY and set(self._store.keys(group_id)) <= set(without)

    def seen(self, group: Group, member_id: str) -> None:
        """Counts the member's request as a heartbeat, while the group is stable or prepares a rebalance."""
        member = group.members.get(member_id)
        if member is not None and group.state in (State.STABLE, State.PREPARING_REBALANCE):
            self._rebalances.restart_session(group, member)

    def unload(self) -> None:
        """Unloads the groups, because this broker does not coordinate them any more. Waiting members must find the next coordinator."""
        for group in self.groups.values():
            self._rebalances.unload(group, "its coordinator moved")
        self._rebalances.send()

    # Joining

    def _has_room(self, group: Group, member_id: str) -> bool:
        known = group.members.get(member_id)
        if group.state is State.EMPTY:
            return True
        if group.state is State.PREPARING_REBALANCE:
            return (known is not None and bool(known.joining)) or group.waiting < self._around.members_max
        return known is not None or len(group.members) < self._around.members_max

    def _join_new(self, group: Group, request: JoinGroupRequest, caller: Caller, answer: JoinAnswer) -> None:
        instance_id = request.group_instance_id
        new_id = f"{caller.client_id if instance_id is None else instance_id}-{self._around.new_id()}"
        if instance_id is not None and instance_id in group.static:
            self._come_back(group, request, new_id, caller, answer)
        elif instance_id is None and caller.version >= MEMBER_ID_REQUIRED_SINCE:
            group.invited[new_id] = self._rebalances.run_in(request.session_timeout_ms, partial(self._rebalances.uninvite, group, new_id))
            self._rebalances.tell(answer, no_join(ErrorCode.MEMBER_ID_REQUIRED, new_id))
        else:
            self._add(group, request, new_id, caller, answer)

    def _join_known(self, group: Group, request: JoinGroupRequest, caller: Caller, answer: JoinAnswer) -> None:
        member_id = request.member_id
        if member_id in group.invited:
            self._add(group, request, member_id, caller, answer)
            return
        code = group.member_error(member_id, request.group_instance_id)
        if code or group.state is State.EMPTY:
            self._rebalances.tell(answer, no_join(code or ErrorCode.UNKNOWN_MEMBER_ID, member_id))
            return
        member = group.members[member_id]
        settled = group.state in (State.COMPLETING_REBALANCE, State.STABLE) and member.protocols == protocols_of(request)
        if settled and not (group.state is State.STABLE and group.leader == member_id):
            # The member did not get its answer, or its subscription is unchanged. A leader may have seen that partitions were added.
            self._rebalances.tell(answer, joined(group, member_id, with_members=group.state is State.COMPLETING_REBALANCE))
        else:
            self._update(member, request, answer)
            self._rebalances.rebalance_or_complete(group, f"member {member_id} joins again")

    def _add(self, group: Group, request: JoinGroupRequest, member_id: str, caller: Caller, answer: JoinAnswer) -> None:
        member = member_of(request, member_id, caller)
        member.is_new = True
        member.joining.append(answer)
        if group.state is State.PREPARING_REBALANCE and group.previous_state is State.EMPTY:
            group.newcomers = True
        group.add(member)
        # The member does not know its id and cannot send heartbeats, so without this timer a lost member would never be noticed.
        self._rebalances.restart_session(group, member, NEW_MEMBER_JOIN_TIMEOUT_MS)
        self._rebalances.rebalance_or_complete(group, f"member {member_id} is new")

    def _update(self, member: Member, request: JoinGroupRequest, answer: JoinAnswer) -> None:
        member.protocols = protocols_of(request)
        member.rebalance_timeout_ms = request.rebalance_timeout_ms
        member.session_timeout_ms = request.session_timeout_ms
        member.joining.append(answer)

    def _come_back(self, group: Group, request: JoinGroupRequest, new_id: str, caller: Caller, answer: JoinAnswer) -> None:
        """A static member joins without an id. This fences the client that has the old id (KIP-345). If it cannot be written, that client
        is the member again."""
        instance_id = request.group_instance_id
        assert instance_id is not None
        leader_before = group.leader or NO_MEMBER_ID
        old = group.members[group.static[instance_id]]
        self._rebalances.answer_join(old, no_join(ErrorCode.FENCED_INSTANCE_ID, old.id))
        self._rebalances.answer_sync(old, SyncGroupResponse(error_code=ErrorCode.FENCED_INSTANCE_ID))
        member = member_of(request, new_id, Caller(old.client_id, old.client_host, caller.version))
        member.assignment = old.assignment
        member.joining.append(answer)
        group.replace(instance_id, member)
        self._rebalances.restart_session(group, member, old.session_timeout_ms)
        why = f"static member {instance_id} is back"
        if group.state is State.STABLE and group.choose_protocol() == group.protocol:
            leads = group.leader == new_id
            if caller.version >= SKIP_ASSIGNMENT_SINCE:
                welcome = joined(group, new_id, with_members=True, skip_assignment=leads)
            else:
                # A member that is told of another leader assigns nothing, and the group would wait for an assignment.
                welcome = joined(group, new_id, with_members=False, leader=leader_before)

            def written(code: int) -> None:
                if code and group.members.get(new_id) is member:
                    group.replace(instance_id, old)
                    self._rebalances.restart_session(group, old)
                self._rebalances.answer_join(member, no_join(code) if code else welcome)
                self._rebalances.send()

            self._store.save(group, written)
        elif group.state is State.PREPARING_REBALANCE:
            self._rebalances.complete_if_joined(group)
        else:
            self._rebalances.prepare(group, why)

    # Syncing

    def _sync(self, group: Group, request: SyncGroupRequest, answer: SyncAnswer) -> None:
        member = group.members[request.member_id]
        if group.state is State.PREPARING_REBALANCE:
            self._rebalances.tell(answer, SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))
            return
        group.unsynced.discard(member.id)
        if group.state is State.STABLE:
            self._rebalances.tell(answer, synced(group, member))
            return
        member.syncing.append(answer)
        if group.leader != member.id:
            return
        assigned = {each.member_id: each.assignment for each in request.assignments}
        self._store.save(group, partial(self._assigned, group, group.generation, assigned), assigned=assigned)

    def _assigned(self, group: Group, generation: int, assigned: Mapping[str, bytes], code: int) -> None:
        """Answers the members once the assignment is written, or cannot be. The group may have changed since."""
        if group.state is not State.COMPLETING_REBALANCE or group.generation != generation:
            return
        for each in sorted(group.members.values(), key=lambda member: member.id != group.leader):  # the leader is answered first
            each.assignment = assigned.get(each.id, b"") if not code else b""
            if each.syncing:
                self._rebalances.answer_sync(each, synced(group, each) if not code else SyncGroupResponse(error_code=code))
                self._rebalances.restart_session(group, each)
        if code:
            self._rebalances.rebalance_or_complete(group, f"its assignment was not written: {ErrorCode(code).name}")
        else:
            group.happened(Event.ASSIGNED, self._around.now_ms(), f"generation {generation}")
        self._rebalances.send()

    # Leaving and failing

    def _leave(self, group: Group, leaver: MemberIdentity) -> int:
        member_id, instance_id = leaver.member_id, leaver.group_instance_id
        if member_id == NO_MEMBER_ID:
            member_id = group.static.get(instance_id, NO_MEMBER_ID) if instance_id is not None else NO_MEMBER_ID
            code = ErrorCode.NONE if member_id != NO_MEMBER_ID else ErrorCode.UNKNOWN_MEMBER_ID
        elif member_id in group.invited:
            group.revoke(member_id)
            return ErrorCode.NONE
        else:
            code = ErrorCode(group.member_error(member_id, instance_id))
        if not code:
            self._rebalances.remove(group, group.members[member_id])
        return code
