"""A classic group: its members, their leader, its generation and its state.

It only keeps these: it waits for nothing, sets no timer and answers no request. `classic_protocol` and `rebalances` do that.
`consumer_offsets_log` persists groups.
"""

from __future__ import annotations

import logging
import struct
from collections import Counter
from collections.abc import Callable, Collection
from contextlib import suppress
from typing import TYPE_CHECKING

from fencepost.broker_stub.groups.state.classic_states import TABLE, Event, State
from fencepost.broker_stub.groups.state.embedded_protocol import read_topics
from fencepost.broker_stub.network.addresses import printable
from fencepost.producer.foundations.counted import counted
from fencepost.producer.wire import ErrorCode

if TYPE_CHECKING:
    from fencepost.broker_stub.cluster.timers import Timer
    from fencepost.producer.wire.messages.groups import JoinGroupResponse, SyncGroupResponse

CONSUMER_PROTOCOL = "consumer"
"""The type of the classic protocol in which consumers speak."""

_log = logging.getLogger(__name__)

Protocols = tuple[tuple[str, bytes], ...]
"""The assignors of a member, preferred one first, and the member's metadata for each."""


class Member:
    """One member. `joining` and `syncing` are its requests that wait for an answer: the last one, and those that it sent again."""

    __slots__ = (
        "assignment",
        "client_host",
        "client_id",
        "id",
        "instance_id",
        "is_new",
        "joining",
        "protocol_type",
        "protocols",
        "rebalance_timeout_ms",
        "session",
        "session_timeout_ms",
        "syncing",
    )

    def __init__(
        self,
        member_id: str,
        *,
        instance_id: str | None,
        client_id: str,
        client_host: str,
        session_timeout_ms: int,
        rebalance_timeout_ms: int,
        protocol_type: str,
        protocols: Protocols,
        assignment: bytes = b"",
    ) -> None:
        self.id = member_id
        self.instance_id = instance_id
        self.client_id = client_id
        self.client_host = client_host
        self.session_timeout_ms = session_timeout_ms
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.protocol_type = protocol_type
        self.protocols = protocols
        self.assignment = assignment
        self.is_new = False  # joins for the first time and does not know its id yet
        self.joining: list[Callable[[JoinGroupResponse], None]] = []
        self.syncing: list[Callable[[SyncGroupResponse], None]] = []
        self.session: Timer | None = None

    def metadata(self, protocol: str | None) -> bytes:
        """The member's metadata for that assignor."""
        return next((data for name, data in self.protocols if name == protocol), b"")

    @property
    def is_excused(self) -> bool:
        """Whether a waiting request stands for heartbeats. A new member's does not: its client may have gone without leaving."""
        return not self.is_new and bool(self.joining or self.syncing)


class Group:
    """One group, with its members in the order of their joining."""

    def __init__(self, group_id: str, now_ms: int, *, state: State = State.EMPTY) -> None:
        self.id = group_id
        self.state = state
        self.previous_state = state
        self.since_ms = now_ms
        self.generation = 0
        self.protocol_type: str | None = None
        self.protocol: str | None = None
        self.leader: str | None = None
        self.members: dict[str, Member] = {}
        self.static: dict[str, str] = {}  # instance id -> member id
        self.invited: dict[str, Timer] = {}  # ids that were given out, and that no member has joined with
        self.unsynced: set[str] = set()  # members that have joined this generation and not asked for their assignment
        self.subscribed: frozenset[str] | None = None  # None: unknown
        self.newcomers = False  # a new member joined since the initial delay began
        self.join_timer: Timer | None = None

    def happened(self, event: Event, now_ms: int, why: str) -> None:
        """Sets the state. Nothing else does."""
        before, after = self.state, TABLE[self.state][event]
        _log.info("group %s: %s -> %s (%s)", printable(self.id), before.value, after.value, printable(why))
        self.previous_state, self.state, self.since_ms = before, after, now_ms

    # Members

    def member_error(self, member_id: str, instance_id: str | None) -> int:
        """The code for a request of this member; 0 if it belongs to the group."""
        if instance_id is not None:
            known = self.static.get(instance_id)
            if known is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            if known != member_id:
                return ErrorCode.FENCED_INSTANCE_ID
        return ErrorCode.NONE if member_id in self.members else ErrorCode.UNKNOWN_MEMBER_ID

    def add(self, member: Member) -> None:
        self.protocol_type = member.protocol_type
        if member.instance_id is not None:
            self.static[member.instance_id] = member.id
        if self.leader is None:
            self.leader = member.id
        self.members[member.id] = member
        self.revoke(member.id)

    def remove(self, member_id: str) -> None:
        """Removes the member. Another member leads if it led. The timer of its session finds that it is no member."""
        member = self.members.pop(member_id, None)
        if member is not None and member.instance_id is not None:
            self.static.pop(member.instance_id, None)
        if self.leader == member_id:
            self.leader = next(iter(self.members), None)
        self.revoke(member_id)
        self.unsynced.discard(member_id)

    def revoke(self, member_id: str) -> None:
        """Forgets an id that was given out, so that no member can join with it."""
        timer = self.invited.pop(member_id, None)
        if timer is not None:
            timer.cancel()

    def replace(self, instance_id: str, new: Member) -> None:
        """Gives a static member a new id, in the old one's place."""
        old_id = self.static[instance_id]
        del self.members[old_id]
        self.members[new.id] = new
        self.static[instance_id] = new.id
        if self.leader == old_id:
            self.leader = new.id

    # The next generation

    @property
    def rebalance_timeout_ms(self) -> int:
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    @property
    def waiting(self) -> int:
        """How many members wait for the answer to their join."""
        return sum(bool(member.joining) for member in self.members.values())

    @property
    def all_joined(self) -> bool:
        return self.waiting == len(self.members) and not self.invited

    def supports(self, protocol_type: str, protocols: Collection[str]) -> bool:
        """Whether a member with these assignors fits: all members must share at least one."""
        if self.state is State.EMPTY:
            return bool(protocol_type) and bool(protocols)
        if not self.members:
            return self.protocol_type == protocol_type and bool(protocols)
        return self.protocol_type == protocol_type and not self._common().isdisjoint(protocols)

    def elect_joined(self) -> bool:
        """Makes a member that has joined the leader. False where the group has members and none of them has joined."""
        if self.leader is not None and not self.members[self.leader].joining:
            joined = next((member.id for member in self.members.values() if member.joining), None)
            if joined is None:
                return False
            self.leader = joined
        return True

    def begin_generation(self, now_ms: int) -> None:
        """Begins the next generation with the current members. Without members the group is empty."""
        self.generation += 1
        self.unsynced.clear()
        self.protocol = self.choose_protocol() if self.members else None
        self.note_subscriptions()
        if self.members:
            self.happened(Event.JOINED, now_ms, f"generation {self.generation} with {counted(len(self.members), 'member')}")
        else:
            self.happened(Event.DESERTED, now_ms, f"generation {self.generation} without members")

    def choose_protocol(self) -> str:
        """The assignor with the most votes. Each member votes for its first assignor that all members have."""
        common = self._common()
        votes = Counter(next(name for name, _ in member.protocols if name in common) for member in self.members.values())
        return votes.most_common(1)[0][0]

    def is_subscribed(self, topic: str) -> bool:
        """Whether a member may be reading the topic. True where the subscriptions are unknown."""
        return topic in self.subscribed if self.subscribed is not None else self.protocol_type == CONSUMER_PROTOCOL

    def note_subscriptions(self) -> None:
        """Reads the subscriptions from the members' metadata."""
        self.subscribed = None
        if self.protocol_type == CONSUMER_PROTOCOL:
            with suppress(struct.error, UnicodeDecodeError):
                named = [read_topics(member.metadata(self.protocol)) for member in self.members.values()]
                self.subscribed = frozenset(topic for topics in named for topic in topics)

    def _common(self) -> set[str]:
        # A set for each member: one that names an assignor twice has one vote. Kafka counts two, and then finds no assignor that all have.
        known = Counter(name for member in self.members.values() for name in {name for name, _ in member.protocols})
        return {name for name, count in known.items() if count == len(self.members)}
