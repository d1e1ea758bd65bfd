"""A member of a group, or a client that wants to join. It has its own connection, because its JoinGroup may wait for other members.

It notes responses that have a label, and retries nothing.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar
from typing import Protocol as Interface

from fencepost.producer import wire
from fencepost.producer.wire import ErrorCode, error_name
from fencepost.producer.wire.messages import groups
from tests.conformance.raw import Closed, RawConnection

SESSION_MS, REBALANCE_MS = 10_000, 5_000
RANGE = ("range", b"r")

Protocol = tuple[str, bytes]
A = TypeVar("A", bound=wire.Message)


class Place(Interface):
    """What a member needs from its case."""

    def note(self, label: str, answer: str) -> None: ...
    def show_member(self, member_id: str) -> str: ...
    def show_data(self, data: bytes) -> str: ...


class Member:
    """One member of a group, or a client that wants to join. It remembers its id and generation from responses."""

    def __init__(self, world: Place, group: str, connection: RawConnection, *, instance: str | None, version: int) -> None:
        self.group = group
        self.instance = instance
        self.version = version
        self.id = ""
        self.generation = -1
        self.protocol: tuple[str | None, str | None] = (None, None)
        self._world = world
        self._connection = connection
        self._asked: wire.Message | None = None

    # -- joining

    def send_join(
        self,
        *,
        member_id: str | None = None,
        protocols: Sequence[Protocol] = (RANGE,),
        protocol_type: str = "consumer",
        session_ms: int = SESSION_MS,
        rebalance_ms: int = REBALANCE_MS,
    ) -> None:
        self._asked = groups.JoinGroupRequest(
            group_id=self.group,
            session_timeout_ms=session_ms,
            rebalance_timeout_ms=rebalance_ms,
            member_id=self.id if member_id is None else member_id,
            group_instance_id=self.instance,
            protocol_type=protocol_type,
            protocols=[groups.JoinGroupRequestProtocol(name=name, metadata=data) for name, data in protocols],
        )
        self._connection.send(self._asked, self.version)

    def receive_join(self) -> groups.JoinGroupResponse:
        assert self._asked is not None
        answer = self._connection.receive(self._asked, self.version)
        assert isinstance(answer, groups.JoinGroupResponse)
        if answer.member_id:
            self.id = answer.member_id
            self._world.show_member(self.id)
        if answer.error_code == 0:
            self.generation = answer.generation_id
            self.protocol = (answer.protocol_type, answer.protocol_name)
        return answer

    def invite(self) -> None:
        """Get the member id, if the coordinator assigns it before the join."""
        if self.version >= 4 and self.instance is None and not self.id:
            self.send_join()
            assert self.receive_join().error_code == ErrorCode.MEMBER_ID_REQUIRED

    def join(self, *, label: str, **options: Any) -> None:
        """Join and note the response. The response must not depend on another member's request."""
        self.send_join(**options)
        self.joined(label=label)

    def joined(self, *, label: str) -> None:
        """Note the response to a join that was sent."""
        self._world.note(label, self._show(self.receive_join()))

    def joins_or_not(self, *, label: str, **options: Any) -> None:
        """Join, and note the response, or that there is none for a long time."""
        self.send_join(**options)
        try:
            if self._connection.quiet(10.0):
                self._world.note(label, "silent")
            else:
                self.joined(label=label)
        except Closed:
            self._world.note(label, "closed")

    def is_waiting(self, *, label: str) -> None:
        self._world.note(label, "waits" if self._connection.quiet(0.3) else "was answered")

    def _show(self, answer: groups.JoinGroupResponse) -> str:
        world = self._world
        members = [
            f"{world.show_member(each.member_id)} {each.group_instance_id} {world.show_data(each.metadata)}" for each in answer.members
        ]
        return (
            f"{error_name(answer.error_code)} generation={answer.generation_id} type={answer.protocol_type}"
            f" protocol={answer.protocol_name!r} leader={world.show_member(answer.leader)} skip={answer.skip_assignment}"
            f" me={world.show_member(answer.member_id)} {sorted(members)}"
        )

    # -- the rest of its life

    def sync(
        self,
        assigned: Mapping[str, bytes] | None = None,
        *,
        label: str | None = None,
        version: int = 5,
        generation: int | None = None,
        member_id: str | None = None,
        protocol: tuple[str | None, str | None] | None = None,
    ) -> groups.SyncGroupResponse:
        self.send_sync(assigned, version=version, generation=generation, member_id=member_id, protocol=protocol)
        return self.receive_sync(label=label, version=version)

    def send_sync(
        self,
        assigned: Mapping[str, bytes] | None = None,
        *,
        version: int = 5,
        generation: int | None = None,
        member_id: str | None = None,
        protocol: tuple[str | None, str | None] | None = None,
    ) -> None:
        kind, name = protocol or (self.protocol if version >= 5 and self.version >= 7 else ("consumer", "range"))
        self._asked = groups.SyncGroupRequest(
            group_id=self.group,
            generation_id=self.generation if generation is None else generation,
            member_id=self.id if member_id is None else member_id,
            group_instance_id=self.instance,
            protocol_type=kind,
            protocol_name=name,
            assignments=[groups.SyncGroupRequestAssignment(member_id=each, assignment=data) for each, data in (assigned or {}).items()],
        )
        self._connection.send(self._asked, version)

    def receive_sync(self, *, label: str | None = None, version: int = 5) -> groups.SyncGroupResponse:
        assert self._asked is not None
        answer = self._connection.receive(self._asked, version)
        assert isinstance(answer, groups.SyncGroupResponse)
        if label is not None:
            assigned = self._world.show_data(answer.assignment)
            shown = f"{error_name(answer.error_code)} type={answer.protocol_type} protocol={answer.protocol_name} {assigned}"
            self._world.note(label, shown)
        return answer

    def heartbeat(self, *, label: str, version: int = 4, generation: int | None = None, member_id: str | None = None) -> None:
        request = groups.HeartbeatRequest(
            group_id=self.group,
            generation_id=self.generation if generation is None else generation,
            member_id=self.id if member_id is None else member_id,
            group_instance_id=self.instance,
        )
        self._world.note(label, error_name(self._ask(request, version, groups.HeartbeatResponse).error_code))

    def leave(self, *others: tuple[str, str | None], label: str, version: int = 5) -> None:
        """Leave, or remove other members: (member id, instance id)."""
        leavers = [groups.MemberIdentity(member_id=each, group_instance_id=instance) for each, instance in others]
        if version < 3:
            request = groups.LeaveGroupRequest(group_id=self.group, member_id=self.id)
        else:
            mine = [groups.MemberIdentity(member_id=self.id, group_instance_id=self.instance)]
            request = groups.LeaveGroupRequest(group_id=self.group, members=leavers or mine)
        answer = self._ask(request, version, groups.LeaveGroupResponse)
        shown = [
            f"{self._world.show_member(each.member_id)} {each.group_instance_id} {error_name(each.error_code)}" for each in answer.members
        ]
        self._world.note(label, f"{error_name(answer.error_code)} {shown}")

    def _ask(self, request: wire.Message, version: int, kind: type[A]) -> A:
        answer = self._connection.ask(request, version)
        assert isinstance(answer, kind)
        return answer


def subscription(*topics: str) -> bytes:
    """A consumer's metadata, version 0."""
    named = b"".join(struct.pack(">h", len(topic)) + topic.encode() for topic in topics)
    return struct.pack(">hi", 0, len(topics)) + named + struct.pack(">i", -1)


def subscription_v3(topics: Sequence[str], owned: Sequence[tuple[str, int]], *, generation: int) -> bytes:
    """A consumer's metadata, version 3: with what it owns since a generation, and without a rack."""
    by_topic: dict[str, list[int]] = {}
    for topic, index in owned:
        by_topic.setdefault(topic, []).append(index)
    parts = [struct.pack(">h", 3), subscription(*topics)[2:], struct.pack(">i", len(by_topic))]
    for topic, indexes in by_topic.items():
        parts += [struct.pack(">h", len(topic)), topic.encode(), struct.pack(f">i{len(indexes)}i", len(indexes), *indexes)]
    return b"".join([*parts, struct.pack(">ih", generation, -1)])
