"""The timers of members: the session, and how long each has to give up partitions, to join again and to ask for its assignment.

A member that is late is removed from its group. Only members of the classic protocol join and sync.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from functools import partial

from fencepost.broker_stub.cluster.timers import Timer
from fencepost.broker_stub.groups.classic.rebalances import cancel
from fencepost.broker_stub.groups.state.consumer_group import ConsumerGroup, ConsumerMember
from fencepost.broker_stub.network.addresses import printable

_log = logging.getLogger(__name__)


class MemberTimers:
    """The timers of the members of one shard's groups. `remove`: removes a late member."""

    def __init__(
        self,
        groups: Mapping[str, ConsumerGroup],
        later: Callable[[int, Callable[[], None]], Timer],
        session_timeout_ms: Callable[[str], int],
        remove: Callable[[ConsumerGroup, ConsumerMember], None],
    ) -> None:
        self._groups = groups
        self._later = later
        self._session_timeout_ms = session_timeout_ms
        self._remove = remove
        self._sessions: dict[tuple[str, str], Timer] = {}
        self._revocations: dict[tuple[str, str], Timer] = {}
        self._joins: dict[tuple[str, str], Timer] = {}
        self._syncs: dict[tuple[str, str], Timer] = {}

    def restart_session(self, group_id: str, member_id: str, timeout_ms: int | None = None) -> None:
        """`timeout_ms`: of a member of the classic protocol. None: the group's."""
        cancel(self._sessions.pop((group_id, member_id), None))
        wait_ms = self._session_timeout_ms(group_id) if timeout_ms is None else timeout_ms
        self._sessions[group_id, member_id] = self._later(wait_ms, partial(self._late, group_id, member_id, "no heartbeat of"))

    def limit_revocation(self, group_id: str, member: ConsumerMember) -> None:
        """The member has its rebalance timeout to give up partitions."""
        self.revoked(group_id, member.id)
        run = partial(self._revocation_over, group_id, member.id, member.epoch)
        self._revocations[group_id, member.id] = self._later(member.rebalance_timeout_ms, run)

    def revoked(self, group_id: str, member_id: str) -> None:
        cancel(self._revocations.pop((group_id, member_id), None))

    def limit_join(self, group_id: str, member: ConsumerMember) -> None:
        """The member has its rebalance timeout to join again, from the first answer on that says so."""
        if (group_id, member.id) not in self._joins:
            late = partial(self._late, group_id, member.id, "no join of")
            self._joins[group_id, member.id] = self._later(member.rebalance_timeout_ms, late)

    def joined(self, group_id: str, member_id: str) -> None:
        cancel(self._joins.pop((group_id, member_id), None))

    def limit_sync(self, group_id: str, member_id: str, timeout_ms: int) -> None:
        """The member has joined, and has so long to ask for its assignment."""
        self.synced(group_id, member_id)
        self._syncs[group_id, member_id] = self._later(timeout_ms, partial(self._late, group_id, member_id, "no sync of"))

    def synced(self, group_id: str, member_id: str) -> None:
        cancel(self._syncs.pop((group_id, member_id), None))

    def cancel(self, group_id: str, members: Iterable[str]) -> None:
        """Stops every timer of these members."""
        for member_id in members:
            for timers in (self._sessions, self._revocations, self._joins, self._syncs):
                cancel(timers.pop((group_id, member_id), None))

    def cancel_all(self) -> None:
        for timers in (self._sessions, self._revocations, self._joins, self._syncs):
            for timer in timers.values():
                timer.cancel()
            timers.clear()

    def _late(self, group_id: str, member_id: str, what: str) -> None:
        group = self._groups.get(group_id)
        if group is not None and member_id in group.members:
            _log.info("group %s: %s member %s", printable(group_id), what, printable(member_id))
            self._remove(group, group.members[member_id])

    def _revocation_over(self, group_id: str, member_id: str, epoch: int) -> None:
        self._revocations.pop((group_id, member_id), None)
        group = self._groups.get(group_id)
        member = group.members.get(member_id) if group is not None else None
        if group is not None and member is not None and member.epoch == epoch:
            _log.info("group %s: member %s did not give up its partitions", printable(group_id), printable(member_id))
            self._remove(group, member)
