"""The environment of a conformance case: a broker (the stub or Kafka), the case's own topics and producers, and the notes.

All notes are normalised. They have no topic names, ids, ports or clock times, so that two brokers can be compared word by word.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol, TypeVar
from uuid import UUID, uuid4

from fencepost.producer import wire
from fencepost.producer.wire.messages.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from tests.conformance import batches
from tests.conformance.raw import Closed, RawConnection, Silent
from tests.waiting import until

READY_TIMEOUT_S = 30.0
SUPER_USER = "admin"
PASSWORD = "secret"  # of every user, on a broker that has users
# Kafka 4.0 removed the versions below these (KIP-896). The wire still has them, for older brokers.
OLDEST = {
    wire.Api.PRODUCE: 3,
    wire.Api.FETCH: 4,
    wire.Api.LIST_OFFSETS: 1,
    wire.Api.OFFSET_COMMIT: 2,
    wire.Api.OFFSET_FETCH: 1,
    wire.Api.CREATE_TOPICS: 2,
    wire.Api.DELETE_TOPICS: 1,
    wire.Api.OFFSET_FOR_LEADER_EPOCH: 2,
    wire.Api.DESCRIBE_ACLS: 1,
    wire.Api.CREATE_ACLS: 1,
    wire.Api.DELETE_ACLS: 1,
    wire.Api.DESCRIBE_CONFIGS: 1,
}
SPOKEN = {api: range(OLDEST.get(api, 0), wire.REQUESTS[api].versions.stop) for api in sorted(map(wire.Api, wire.REQUESTS))}

Answer = TypeVar("Answer", bound=wire.Message)


class Target(Protocol):
    """A broker, or three, of either kind."""

    @property
    def addresses(self) -> dict[int, tuple[str, int]]: ...
    @property
    def guarded(self) -> bool: ...
    @property
    def newest(self) -> Mapping[int, int]:
        """The newest version of each API on an older broker. A case that asks in a newer version uses this one instead."""
        ...

    def stop(self, node: int, *, clean: bool) -> None: ...
    def start(self, node: int) -> None: ...
    def pass_epochs(self, transactional_id: str, epoch: int) -> bool:
        """Give the id this epoch without the requests that lead to it. False: this broker takes only requests."""
        ...


@dataclass(frozen=True)
class Topic:
    name: str
    id: UUID
    leaders: dict[int, int] = field(default_factory=dict, hash=False, compare=False)


@dataclass(frozen=True)
class Case:
    """One question and all its requests. `rows`: the rows of the decision tables that it covers."""

    name: str
    area: str
    play: Callable[[Any], None]
    rows: tuple[str, ...]
    brokers: int
    restarts: bool
    guarded: bool
    older: bool


CASES: dict[str, Case] = {}


def case(
    *rows: str, brokers: int = 1, restarts: bool = False, guarded: bool = False, older: bool = False
) -> Callable[[Callable[[Any], None]], Callable[[Any], None]]:
    """Register a case. `restarts`: it stops brokers, so it does not share them with cases that run at the same time.

    `guarded`: its broker has users, and an authorizer. `older`: it is only for older releases.
    """

    def register(play: Callable[[Any], None]) -> Callable[[Any], None]:
        area = play.__module__.rpartition(".")[2]
        name = f"{area}.{play.__name__}"
        assert name not in CASES, f"two cases are called {name}"
        CASES[name] = Case(name, area, play, rows, brokers, restarts, guarded, older)
        return play

    return register


class Stage:
    """What every kind of question needs: connections, topics, producer ids, and the notes."""

    def __init__(self, target: Target) -> None:
        batches.begin()
        self.target = target
        self.notes: dict[str, str] = {}
        self.nodes = sorted(target.addresses)
        self.user = SUPER_USER if target.guarded else ""
        self._connections: dict[tuple[str, int], RawConnection] = {}
        self._kept: list[RawConnection] = []
        self._topics: dict[str, Topic] = {}
        self._pids: dict[int, str] = {}
        self._run = secrets.token_hex(4)
        self._names = 0

    def close(self) -> None:
        for connection in (*self._connections.values(), *self._kept):
            connection.close()
        self._connections.clear()
        self._kept.clear()

    def note(self, label: str, answer: str) -> None:
        assert label not in self.notes, f"two answers are called {label!r}"
        self.notes[label] = answer

    # -- asking ------------------------------------------------------------------------------------------------------------

    def open(self, node: int | None = None, **options: Any) -> RawConnection:
        """A new connection; the caller closes it."""
        connection = RawConnection(self.target.addresses[self.nodes[0] if node is None else node], newest=self.target.newest, **options)
        if self.user:
            _log_in(connection, self.user)
        return connection

    def keep(self, connection: RawConnection) -> None:
        """Close that connection at the end of the case."""
        self._kept.append(connection)

    def ask(self, request: wire.Message, version: int, kind: type[Answer], *, node: int | None = None) -> Answer:
        """Send a request on the shared connection to that node. The caller notes `Closed` and `Silent`."""
        node = self.nodes[0] if node is None else node
        connection = self._connections.get((self.user, node))
        if connection is None:
            connection = self._connections[self.user, node] = self.open(node)
        try:
            answer = connection.ask(request, version)
        except (Closed, Silent):
            self._connections.pop((self.user, node)).close()
            raise
        assert isinstance(answer, kind)
        return answer

    def note_answer(
        self, label: str, request: wire.Message, version: int, kind: type[Answer], show: Callable[[Answer], str], *, node: int | None = None
    ) -> None:
        """Send a request, and note the response, or that there was none."""
        try:
            self.note(label, show(self.ask(request, version, kind, node=node)))
        except Closed:
            self.note(label, "closed")
        except Silent:
            self.note(label, "silent")

    # -- what the case owns ------------------------------------------------------------------------------------------------

    def fresh_name(self) -> str:
        """An unused topic name. All have the same length."""
        self._names += 1
        return f"case-{self._run}-{self._names:04d}"

    def topic(self, *, partitions: int = 1, replicas: int = 1, config: Mapping[str, str] | None = None) -> Topic:
        """A new topic whose partitions have leaders."""
        name = self.fresh_name()
        configs = [wire.CreatableTopicConfig(name=key, value=value) for key, value in (config or {}).items()]
        wanted = wire.CreatableTopic(name=name, num_partitions=partitions, replication_factor=replicas, configs=configs)
        created = self.ask(wire.CreateTopicsRequest(topics=[wanted]), 7, wire.CreateTopicsResponse).topics[0]
        assert created.error_code == 0, f"{wire.error_name(created.error_code)}: {created.error_message}"
        # Brokers learn of the topic one after the other. Until then they answer that it does not exist.
        for node in self.nodes:
            until(partial(self.look_up, name, node=node), f"leaders of {name} at {node}", good=self._is_led, timeout_s=READY_TIMEOUT_S)
        return self.known_topic(name)

    def known_topic(self, name: str) -> Topic:
        """A topic that exists, or will exist soon, with its current leaders."""
        found = until(lambda: self.look_up(name), f"leaders of {name}", good=self._is_led, timeout_s=READY_TIMEOUT_S)
        topic = self._topics.setdefault(name, Topic(name, found.topic_id))
        topic.leaders.update({part.partition_index: part.leader_id for part in found.partitions})
        return topic

    def look_up(self, name: str, *, node: int | None = None) -> wire.MetadataResponseTopic:
        request = wire.MetadataRequest(topics=[wire.MetadataRequestTopic(name=name)], allow_auto_topic_creation=False)
        return self.ask(request, 12, wire.MetadataResponse, node=node).topics[0]

    def missing_topic(self, *, name: str | None = None, zero_id: bool = False) -> Topic:
        """A topic that does not exist, by name or by id."""
        return Topic(self.fresh_name() if name is None else name, wire.ZERO_UUID if zero_id else uuid4())

    def pid(self) -> int:
        """A producer id that no topic of this case has seen, and that no broker assigned."""
        number = 10**12 + secrets.randbits(40)
        self._pids[number] = f"p{len(self._pids) + 1}"
        return number

    def follower(self, topic: Topic) -> int:
        """A node that does not lead the first partition."""
        return next(node for node in self.nodes if node != topic.leaders[0])

    def restart(self, *, clean: bool, node: int | None = None) -> None:
        """Stop or kill the broker, start it again, and wait until the case's topics have leaders."""
        node = self.nodes[0] if node is None else node
        self.close()
        self.target.stop(node, clean=clean)
        self.target.start(node)
        for name in list(self._topics):
            self.known_topic(name)

    # -- what may be shown -------------------------------------------------------------------------------------------------

    def show_pid(self, pid: int) -> str:
        return "-" if pid == -1 else self._pids.get(pid, str(pid) if abs(pid) < 100 else "another")

    def show_node(self, node: int) -> str:
        return f"n{self.nodes.index(node) + 1}" if node in self.nodes else str(node)

    def show_nodes(self, nodes: Sequence[int]) -> str:
        return ",".join(sorted(self.show_node(node) for node in nodes))

    def show_topic(self, name: str | None, topic_id: UUID = wire.ZERO_UUID) -> str:
        """The case's own name for a topic: t1, t2 and so on, in the order of creation."""
        for number, topic in enumerate(self._topics.values(), start=1):
            if topic.name == name or (not name and topic.id == topic_id):
                return f"t{number}"
        return "null" if name is None else "other" if name or topic_id != wire.ZERO_UUID else "empty"

    def show_time(self, when: int) -> str:
        """The time relative to the timestamp of the case's records, or `now` for the broker's own clock."""
        if abs(when - batches.stamp()) < 20_000:
            return f"{when - batches.stamp():+d}"
        if abs(when - batches.now_ms()) < 20_000:
            return "now"
        return "-" if when == -1 else str(when) if abs(when) < 10_000 else "far"

    def show_leader(self, leader: wire.LeaderIdAndEpoch, endpoints: Sequence[wire.NodeEndpoint]) -> str:
        """The leader, and whether the address beside it is correct."""
        if leader.leader_id == -1 and leader.leader_epoch == -1 and not endpoints:
            return ""
        right = {node: self.target.addresses.get(node) for node in (leader.leader_id,)}
        told = {each.node_id: (each.host, each.port) for each in endpoints}
        where = "with its address" if told == right else "without an address" if not told else "with another address"
        known = any(leader.leader_id in topic.leaders.values() for topic in self._topics.values())
        return f" leader={'right' if known else leader.leader_id} epoch={leader.leader_epoch} {where}"

    def _is_led(self, found: wire.MetadataResponseTopic) -> bool:
        """Whether every partition has a leader that is up and itself says that it leads."""
        parts = found.partitions
        if found.error_code or not parts or any(part.error_code or part.leader_id not in self.nodes for part in parts):
            return False
        return all(self._leads(found.name or "", part.partition_index, part.leader_id) for part in parts)

    def _leads(self, name: str, partition: int, node: int) -> bool:
        # A broker may learn that it leads a moment after other brokers, so only its own answer counts. From version 11 on a follower
        # answers, too.
        part = wire.FetchPartition(partition=partition, partition_max_bytes=1)
        request = wire.FetchRequest(topics=[wire.FetchTopic(topic=name, partitions=[part])], max_bytes=1)
        answer = self.ask(request, 10, wire.FetchResponse, node=node)
        return answer.error_code == 0 and answer.responses[0].partitions[0].error_code in (0, wire.ErrorCode.OFFSET_OUT_OF_RANGE)


def _log_in(connection: RawConnection, user: str) -> None:
    """PLAIN. All users have the same password."""
    shaken = connection.ask(SaslHandshakeRequest(mechanism="PLAIN"), 1)
    assert isinstance(shaken, SaslHandshakeResponse), shaken
    assert shaken.error_code == 0, wire.error_name(shaken.error_code)
    proven = connection.ask(SaslAuthenticateRequest(auth_bytes=f"\0{user}\0{PASSWORD}".encode()), 2)
    assert isinstance(proven, SaslAuthenticateResponse), proven
    assert proven.error_code == 0, proven.error_message
