"""When to ask for metadata, which node to ask, and about which topics.

The producer asks when a caller waits for a topic, when a response says that a leader moved, and every `metadata_max_age_ms`. It asks about
the topics that were used within `metadata_max_idle_ms`. There is one request at a time, and a backoff after each. A caller with an
unknown topic does not wait for the end of that backoff: after a complete response the producer asks at once, else after
`retry_backoff_ms`. A request for missing topics for which callers wait names no others (KIP-526), and only such a request may create
topics. So a deleted topic is not created again until there is a record for it. While topics stay missing, every other request names all
topics that are in use. `rebootstrap` decides when to go back to the bootstrap addresses.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct
from msgspec.structs import replace

from fencepost.producer.config.settings import Settings
from fencepost.producer.core.cluster.cluster_connection_states import ClusterConnectionStates, Node, Request, backoff_ms
from fencepost.producer.core.cluster.rebootstrap import Rebootstrap
from fencepost.producer.core.cluster.view import ClusterView
from fencepost.producer.core.events import NEVER, Announce, Change, Command, Heard, Send
from fencepost.producer.errors import NoUsableBroker
from fencepost.producer.wire import MetadataRequest, MetadataResponse
from fencepost.producer.wire.codes import Api
from fencepost.producer.wire.messages.metadata import MetadataRequestTopic

METADATA_VERSION_MIN, METADATA_VERSION_MAX = 4, 13  # before 4 every request for a topic may create it


class Wanted(Struct, frozen=True):
    """Until when callers wait, and for how many partitions. `asked`: a request was sent after the last caller for more than one began to
    wait."""

    until_ms: float
    partitions: int
    asked: bool = False


UNWANTED = Wanted(0.0, 1)


class MetadataAsked(Request):
    """A Metadata request in flight, and its topics."""

    topics: tuple[str, ...] = ()


class MetadataUpdater:
    """Keeps the cluster view fresh. `busy`: the topics with batches to send, resolve or publish. `may_create`: of the transaction hooks."""

    def __init__(self, settings: Settings, nodes: ClusterConnectionStates, view: ClusterView, draw: Callable[[], float]) -> None:
        self.busy: Callable[[], set[str]] = set
        self.may_create: Callable[[str], bool] = bool
        self._settings = settings
        self._nodes = nodes
        self._view = view
        self._draw = draw
        self._rebootstrap = Rebootstrap(settings, nodes, view)
        self._topics: set[str] = set()
        self._wanted: dict[str, Wanted] = {}
        self._used_ms: dict[str, float] = {}
        self._asked = False
        self._narrow = False
        self._stale = False
        self._attempts = 0
        self._not_before_ms = 0.0
        self._unknown_topic_ms = 0.0
        self._fresh_until_ms = 0.0

    def want(self, topic: str, *, until_ms: float, partitions: int = 1) -> None:
        """A caller waits until then for the topic to have so many partitions."""
        before = self._wanted.get(topic, UNWANTED)
        known = self._view.topics.get(topic)
        if before is UNWANTED and (known is None or partitions > len(known.leaders)):
            self._not_before_ms = min(self._not_before_ms, self._unknown_topic_ms)
        self._topics.add(topic)
        self._used_ms[topic] = until_ms
        asked = before.asked and partitions <= 1
        self._wanted[topic] = Wanted(max(before.until_ms, until_ms), max(before.partitions, partitions), asked)

    def wanted(self) -> list[str]:
        """The topics for which calls wait."""
        return sorted(self._wanted)

    def used(self, topic: str, now_ms: float) -> None:
        """The topic has a record to send, or just had one."""
        self._used_ms[topic] = now_ms

    def refresh(self) -> None:
        """Ask soon: some of the metadata turned out to be wrong."""
        self._stale = True

    def no_usable_broker(self, failure: NoUsableBroker) -> list[Command]:
        """No broker can be asked with these settings: tell the waiting callers now. The next caller starts new attempts."""
        told: list[Command] = [Announce(Heard(topic, Change.UNHEARD, 0), failure=failure) for topic in self._wanted]
        for topic in self._wanted.keys() - self._view.topics.keys():
            self._drop(topic)
        self._wanted.clear()
        return told

    def advance(self, now_ms: float) -> list[Command]:
        """Ask if there is a reason, and a node to ask."""
        self._forget(now_ms)
        due = self._due(now_ms)
        commands = self._rebootstrap.overdue(now_ms, asking=due or self._asked)
        if not due or self._asked or now_ms < self._not_before_ms:
            return commands
        self._drop_idle(now_ms)
        if not (self._stale or self._wanted or self._topics):
            return commands
        if now_ms >= self._not_before_ms + self._settings.retry_backoff_max_ms:
            self._attempts = 0
        self._rebootstrap.attempt(now_ms)
        node, begun = self._nodes.pick(now_ms, Api.METADATA)
        commands += begun
        version = node.version(Api.METADATA, METADATA_VERSION_MAX, least=METADATA_VERSION_MIN) if node is not None else None
        if node is None or version is None:
            return commands
        request = self._nodes.begin(node, Api.METADATA, now_ms, MetadataAsked)
        absent, to_create = self._absent()
        waits = self._stale or bool(self._wanted.keys() - absent) or now_ms >= self._fresh_until_ms
        self._narrow = bool(absent) and not (self._narrow and waits)  # The missing topics must not hide what is wrong with the others.
        request.topics = tuple(sorted((to_create or absent) if self._narrow else self._topics))
        self._asked = True
        for topic in self._wanted.keys() & set(request.topics):
            self._wanted[topic] = replace(self._wanted[topic], asked=True)
        message = MetadataRequest(
            topics=[MetadataRequestTopic(name=name) for name in request.topics],
            allow_auto_topic_creation=self._narrow and bool(to_create),
        )
        return [*commands, Send(node.node_id, request.request_id, Api.METADATA, version, message)]

    def believes(self, node: Node, answer: MetadataResponse, now_ms: float) -> list[Command] | None:
        """None for a response to use; otherwise the commands to run instead, and the request is repeated."""
        instead = self._rebootstrap.answered(node, answer)
        if instead is not None:
            self._stale = True
            self.lost(now_ms)
        return instead

    def cluster_changed(self, answer: MetadataResponse) -> bool:
        """Whether this response to use comes from another cluster. If so, forget everything about the old one."""
        moved = self._rebootstrap.is_another_cluster(answer)
        if moved:
            self._view.forget()
        return moved

    def answered(self, request: Request, answer: MetadataResponse, now_ms: float) -> list[Command]:
        """Use a response, and tell the callers that wait for a topic."""
        assert isinstance(request, MetadataAsked)
        self._asked = False
        complained, known = self._stale, self._view.news
        heard = self._view.learn(answer, request.topics)
        complete = not complained
        commands: list[Command] = self._nodes.learn(self._view.brokers) if answer.brokers else []
        for news in heard:
            wanted = self._wanted.get(news.topic, UNWANTED)
            short = wanted.asked and 0 < news.partitions < wanted.partitions
            complete &= news.partitions >= wanted.partitions
            if news.change is Change.REFUSED or short or news.partitions >= wanted.partitions:
                self._wanted.pop(news.topic, None)
            if news.change is Change.REFUSED and news.topic not in self._view.topics:
                self._drop(news.topic)
            commands.append(Announce(news, self._available(news), short=short, creatable=self._creatable(news.topic)))
        everything = self._topics <= set(request.topics)
        self._stale = not self._leaders_known(request.topics) or (complained and not everything)
        troubled = complained or self._stale or bool(self._wanted)
        self._attempts = self._attempts + 1 if troubled and self._view.news == known else 0
        self._pace(now_ms)
        if complete and not self._stale:
            self._unknown_topic_ms = now_ms
        if self._wanted.keys() - set(request.topics) - self._view.topics.keys():
            self._not_before_ms = min(self._not_before_ms, self._unknown_topic_ms)
        if everything or not self._fresh_until_ms:
            self._fresh_until_ms = now_ms + self._settings.metadata_max_age_ms
        return commands

    def lost(self, now_ms: float) -> None:
        """The connection was lost before the response."""
        self._asked = False
        self._attempts += 1
        self._pace(now_ms)

    def next_deadline(self, now_ms: float) -> float:
        overdue = self._rebootstrap.next_deadline()
        if self._asked:
            return overdue
        if self._due(now_ms):  # No node can be asked yet, or the backoff runs. Never a time in the past: the timer would spin.
            return min(overdue, self._not_before_ms) if self._not_before_ms > now_ms else overdue
        return self._fresh_until_ms if self._topics else NEVER

    def _due(self, now_ms: float) -> bool:
        """Whether there is a reason to ask."""
        return self._stale or bool(self._wanted) or (bool(self._topics) and now_ms >= self._fresh_until_ms)

    def _forget(self, now_ms: float) -> None:
        """Stop asking for topics that never appeared and that no caller waits for any more."""
        for topic in [topic for topic, wanted in self._wanted.items() if wanted.until_ms < now_ms]:
            del self._wanted[topic]
            if topic not in self._view.topics:
                self._drop(topic)

    def _drop_idle(self, now_ms: float) -> None:
        """Forget topics without a record for `metadata_max_idle_ms` and without batches in flight."""
        idle_since_ms = now_ms - self._settings.metadata_max_idle_ms
        idle = {topic for topic in self._topics if self._used_ms.get(topic, 0.0) <= idle_since_ms}
        for topic in idle - self._wanted.keys() - self.busy() if idle else idle:
            self._drop(topic)
            self._view.drop(topic)

    def _drop(self, topic: str) -> None:
        self._topics.discard(topic)
        self._used_ms.pop(topic, None)

    def _absent(self) -> tuple[set[str], set[str]]:
        """Missing topics that a caller waits for or that have records to send, and those of them that a request may create."""
        known = self._view.topics
        absent = {topic for topic in self._wanted if topic not in known or known[topic].missing}
        return absent, {topic for topic in absent if self._creatable(topic)}

    def _creatable(self, topic: str) -> bool:
        return self._settings.allow_auto_create_topics and self.may_create(topic)

    def _pace(self, now_ms: float) -> None:
        settings = self._settings
        drawn = self._draw()
        self._not_before_ms = now_ms + backoff_ms(self._attempts, settings.retry_backoff_ms, settings.retry_backoff_max_ms, drawn)
        self._unknown_topic_ms = now_ms + backoff_ms(0, settings.retry_backoff_ms, settings.retry_backoff_max_ms, drawn)

    def _leaders_known(self, topics: tuple[str, ...]) -> bool:
        return all(
            self._view.leader(name, p) is not None
            for name in topics
            if name in self._view.topics
            for p in range(len(self._view.topics[name].leaders))
        )

    def _available(self, news: Heard) -> tuple[int, ...]:
        return tuple(p for p in range(news.partitions) if self._view.leader(news.topic, p) is not None)
