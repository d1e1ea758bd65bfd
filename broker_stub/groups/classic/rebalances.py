"""The rebalances of a classic group: which members it waits for, how long, and when it answers them.

Answers leave after a change is complete, never during it, because an answer may bring the member's next request at once. It reads no
request and only the given clock.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from fencepost.broker_stub.cluster.internal_append import Then
from fencepost.broker_stub.cluster.timers import Timer
from fencepost.broker_stub.groups.classic.responses import joined, no_join
from fencepost.broker_stub.groups.state.classic_group import Group, Member
from fencepost.broker_stub.groups.state.classic_states import Event, State
from fencepost.broker_stub.groups.state.consumer_offsets_log import Store
from fencepost.producer.wire import ErrorCode
from fencepost.producer.wire.messages.groups import JoinGroupResponse, LeaveGroupResponse, SyncGroupResponse

JoinAnswer = Callable[[JoinGroupResponse], None]
SyncAnswer = Callable[[SyncGroupResponse], None]
LeaveAnswer = Callable[[LeaveGroupResponse], None]


class Surroundings(NamedTuple):
    """What the groups need of their cluster."""

    later: Callable[[int, Callable[[], None]], Timer]
    now_ms: Callable[[], int]
    new_id: Callable[[], object]
    initial_delay_ms: int
    members_max: int
    groups_outlive_offsets: bool
    groups_begin_with_offsets: bool


class Rebalances:
    """The rebalances of the groups of one shard, their timers, and the answers that wait."""

    def __init__(self, store: Store, around: Surroundings) -> None:
        self._store = store
        self._around = around
        self._outbox: deque[tuple[Callable[[Any], None], Any]] = deque()

    # The join phase

    def rebalance_or_complete(self, group: Group, why: str, *, emptied: Then | None = None) -> None:
        """`emptied` is called when it is written that the group has no members any more."""
        if group.state is State.PREPARING_REBALANCE:
            self.complete_if_joined(group, emptied=emptied)
        else:
            self.prepare(group, why, emptied=emptied)

    def rebalance_if_running(self, group: Group, why: str, *, emptied: Then | None = None) -> None:
        if group.state is not State.EMPTY:
            self.rebalance_or_complete(group, why, emptied=emptied)

    def prepare(self, group: Group, why: str, *, emptied: Then | None = None) -> None:
        """Makes every member join again."""
        now_ms = self._around.now_ms()
        if group.state is State.COMPLETING_REBALANCE:
            for member in group.members.values():
                member.assignment = b""
                if member.syncing:
                    self.answer_sync(member, SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))
                    self.restart_session(group, member)
        group.unsynced.clear()
        if group.state is State.EMPTY:
            delay_ms = self._around.initial_delay_ms
            left_ms = max(group.rebalance_timeout_ms - delay_ms, 0)
            self._join_by(group, delay_ms, partial(self._initial_delay_over, group, delay_ms, left_ms))
            group.happened(Event.REBALANCED, now_ms, why)
            return
        group.happened(Event.REBALANCED, now_ms, why)
        if group.all_joined:
            self._complete(group, emptied=emptied)
        else:
            self._join_by(group, group.rebalance_timeout_ms, partial(self._complete, group))

    def _initial_delay_over(self, group: Group, delay_ms: int, left_ms: int) -> None:
        """Prolongs the initial delay while new members join."""
        if group.newcomers and left_ms > 0:
            group.newcomers = False
            next_ms = min(self._around.initial_delay_ms, left_ms)
            self._join_by(group, next_ms, partial(self._initial_delay_over, group, next_ms, max(left_ms - delay_ms, 0)))
        else:
            self._complete(group)

    def complete_if_joined(self, group: Group, *, emptied: Then | None = None) -> None:
        if group.state is State.PREPARING_REBALANCE and group.previous_state is not State.EMPTY and group.all_joined:
            self._complete(group, emptied=emptied)

    def _complete(self, group: Group, *, emptied: Then | None = None) -> None:
        """Ends the join phase: the members that joined are the next generation, and dynamic members that did not are removed."""
        cancel(group.join_timer)
        for member in [each for each in group.members.values() if not each.joining and each.instance_id is None]:
            group.remove(member.id)
        if not group.elect_joined():
            self._join_by(group, group.rebalance_timeout_ms, partial(self._complete, group))
            return
        group.newcomers = False
        group.begin_generation(self._around.now_ms())
        if group.state is State.EMPTY:
            self._store.save(group, emptied)
            return
        for member in group.members.values():
            self.answer_join(member, joined(group, member.id, with_members=True))
            self.restart_session(group, member)
            member.is_new = False
            group.unsynced.add(member.id)
        self.run_in(group.rebalance_timeout_ms, partial(self._sync_over, group, group.generation))

    # The sync phase

    def _sync_over(self, group: Group, generation: int) -> None:
        """Removes the members that did not ask for their assignment."""
        if group.generation == generation and group.unsynced and group.state in (State.COMPLETING_REBALANCE, State.STABLE):
            for member_id in tuple(group.unsynced):
                group.remove(member_id)
            self.prepare(group, "members did not ask for their assignment")

    # Members that go

    def remove(self, group: Group, member: Member) -> None:
        """Removes a member. One that waits for an answer is told that it must join again without its id. (Kafka tells only those that
        wait to join, and a client that left while it waited for its assignment gets no answer.)"""
        self.answer_join(member, no_join(ErrorCode.UNKNOWN_MEMBER_ID))
        self.answer_sync(member, SyncGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID))
        group.remove(member.id)

    def restart_session(self, group: Group, member: Member, timeout_ms: int | None = None) -> None:
        """Restarts the timer of the member's session."""
        cancel(member.session)
        member.session = self.run_in(
            member.session_timeout_ms if timeout_ms is None else timeout_ms, partial(self._session_expired, group, member)
        )

    def _session_expired(self, group: Group, member: Member) -> None:
        if group.members.get(member.id) is member and not member.is_excused:
            self.remove(group, member)
            self.rebalance_if_running(group, f"no heartbeat of member {member.id}")

    def uninvite(self, group: Group, member_id: str) -> None:
        group.revoke(member_id)
        self.complete_if_joined(group)

    def unload(self, group: Group, why: str) -> None:
        for member in group.members.values():
            self.answer_join(member, no_join(ErrorCode.NOT_COORDINATOR, member.id))
            self.answer_sync(member, SyncGroupResponse(error_code=ErrorCode.NOT_COORDINATOR))
            cancel(member.session)
        for timer in (group.join_timer, *group.invited.values()):
            cancel(timer)
        group.happened(Event.UNLOADED, self._around.now_ms(), why)

    # Time and answers

    def run_in(self, ms: int, run: Callable[[], None]) -> Timer:
        def then() -> None:
            run()
            self.send()

        return self._around.later(ms, then)

    def _join_by(self, group: Group, ms: int, run: Callable[[], None]) -> None:
        cancel(group.join_timer)
        group.join_timer = self.run_in(ms, run)

    def tell(self, answer: Callable[[Any], None], response: JoinGroupResponse | SyncGroupResponse | LeaveGroupResponse) -> None:
        self._outbox.append((answer, response))

    def answer_join(self, member: Member, response: JoinGroupResponse) -> None:
        for answer in member.joining:
            self.tell(answer, response)
        member.joining.clear()

    def answer_sync(self, member: Member, response: SyncGroupResponse) -> None:
        for answer in member.syncing:
            self.tell(answer, response)
        member.syncing.clear()

    def send(self) -> None:
        """Sends the answers. An answer may bring the next request at once."""
        while self._outbox:
            answer, response = self._outbox.popleft()
            answer(response)


def cancel(timer: Timer | None) -> None:
    if timer is not None:
        timer.cancel()
