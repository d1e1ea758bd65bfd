"""When to ask for metadata, of whom, and about which topics.

Asked when a topic is wanted, when an answer says that a leader moved, and every `metadata_max_age_ms`, about the topics that were in use
within `metadata_max_idle_ms`. One request at a time; answers without news back off, as lost ones do. Only a request that somebody waits for
may have topics created, and it names no others: what was deleted stays so until there is something to send to it. When to go back to the
bootstrap addresses is `recovery`'s to say.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct
from msgspec.structs import replace

from fencepost.producer.config.settings import Settings
from fencepost.producer.core.cluster.broker_connections import Node, Nodes, Request, backoff_ms
from fencepost.producer.core.cluster.rebootstrap import Rebootstrap
from fencepost.producer.core.cluster.view import ClusterView
from fencepost.producer.core.events import NEVER, Announce, Change, Command, Heard, Send
from fencepost.producer.errors import NoUsableBroker
from fencepost.producer.wire.codes import Api
from fencepost.producer.wire.messages import MetadataRequest, MetadataResponse
from fencepost.producer.wire.messages.metadata import MetadataRequestTopic

METADATA_VERSION_MIN, METADATA_VERSION_MAX = 4, 13  # before 4 every question for a topic may create it
NAMELESS_TOPIC_ID_VERSION = 10


class Wanted(Struct, frozen=True):
    """How long somebody waits, and for how many partitions. `asked`: a request went out after the last who came for more than one."""

    until_ms: float
    partitions: int
    asked: bool = False


NOBODY = Wanted(0.0, 1)


class MetadataAsked(Request):
    """A Metadata request on its way, and the topics that it asks for."""

    topics: tuple[str, ...] = ()


class MetadataUpdater:
    """Keeps the cluster view fresh. `busy`: which topics have something to send, resolve or publish; `may_create`: as the hooks have it."""

    def __init__(self, settings: Settings, nodes: Nodes, view: ClusterView, draw: Callable[[], float]) -> None:
        self.busy: Callable[[], set[str]] = set
        self.may_create: Callable[[str], bool] = bool
        self._settings = settings
        self._nodes = nodes
        self._view = view
        self._draw = draw
        self._recovery = Rebootstrap(settings, nodes, view)
        self._topics: set[str] = set()
        self._wanted: dict[str, Wanted] = {}
        self._used_ms: dict[str, float] = {}
        self._asked = False
        self._creating = False
        self._stale = False
        self._attempts = 0
        self._not_before_ms = 0.0
        self._fresh_until_ms = 0.0

    def want(self, topic: str, *, until_ms: float, partitions: int = 1) -> None:
        """Somebody waits until then for the topic to have so many partitions."""
        before = self._wanted.get(topic, NOBODY)
        self._topics.add(topic)
        self._used_ms[topic] = until_ms
        asked = before.asked and partitions <= 1
        self._wanted[topic] = Wanted(max(before.until_ms, until_ms), max(before.partitions, partitions), asked)

    def used(self, topic: str, now_ms: float) -> None:
        """There is, or just was, something to send to it."""
        self._used_ms[topic] = now_ms

    def refresh(self) -> None:
        """Something that was believed turned out to be wrong."""
        self._stale = True

    def despair(self, failure: NoUsableBroker) -> list[Command]:
        """Nobody can be asked, for a reason that stays: who waits is told now, and asking begins anew when somebody wants something."""
        told: list[Command] = [Announce(Heard(topic, Change.UNHEARD, 0), failure=failure) for topic in self._wanted]
        self._topics -= self._wanted.keys() - self._view.topics.keys()
        self._wanted.clear()
        return told

    def advance(self, now_ms: float) -> list[Command]:
        """Ask if there is reason to, and somebody to ask."""
        self._forget(now_ms)
        due = self._due(now_ms)
        commands = self._recovery.overdue(now_ms, asking=due or self._asked)
        if not due or self._asked or now_ms < self._not_before_ms:
            return commands
        self._drop_idle(now_ms)
        if not (self._stale or self._wanted or self._topics):
            return commands
        if now_ms >= self._not_before_ms + self._settings.retry_backoff_max_ms:
            self._attempts = 0
        self._recovery.attempt(now_ms)
        node, begun = self._nodes.pick(now_ms)
        commands += begun
        version = node.version(Api.METADATA, METADATA_VERSION_MAX, least=METADATA_VERSION_MIN) if node is not None else None
        if node is None or version is None:
            return commands
        request = self._nodes.begin(node, Api.METADATA, now_ms, MetadataAsked)
        new = self._to_create() if not (self._creating and self._stale) else set()
        self._creating = bool(new)
        request.topics = tuple(sorted(new or self._topics))
        self._asked = True
        for topic in self._wanted.keys() & set(request.topics):
            self._wanted[topic] = replace(self._wanted[topic], asked=True)
        message = MetadataRequest(
            topics=[MetadataRequestTopic(name=name) for name in request.topics],
            allow_auto_topic_creation=self._creating,
        )
        return [*commands, Send(node.node_id, request.request_id, Api.METADATA, version, message)]

    def believes(self, node: Node, answer: MetadataResponse, now_ms: float) -> list[Command] | None:
        """None for an answer to be taken; otherwise what to do instead, and it is asked again."""
        instead = self._recovery.answered(node, answer)
        if instead is not None:
            self._stale = True
            self.lost(now_ms)
        return instead

    def emigrated(self, answer: MetadataResponse) -> bool:
        """Whether the answer, which is to be taken, comes from another cluster; nothing that was known is true there."""
        moved = self._recovery.emigrated(answer)
        if moved:
            self._view.forget()
        return moved

    def answered(self, request: Request, answer: MetadataResponse, now_ms: float) -> list[Command]:
        """Take an answer; callers that wait for a topic are told."""
        assert isinstance(request, MetadataAsked)
        self._asked = False
        complained, known = self._stale, self._view.news
        heard = self._view.learn(answer, request.topics)
        commands: list[Command] = self._nodes.learn(self._view.brokers) if answer.brokers else []
        for news in heard:
            wanted = self._wanted.get(news.topic, NOBODY)
            short = wanted.asked and 0 < news.partitions < wanted.partitions
            if news.change is Change.REFUSED or short or news.partitions >= wanted.partitions:
                self._wanted.pop(news.topic, None)
            if news.change is Change.REFUSED and news.topic not in self._view.topics:
                self._topics.discard(news.topic)
            commands.append(Announce(news, self._available(news), short=short, creatable=self._creatable(news.topic)))
        everything = self._topics <= set(request.topics)
        self._stale = not self._leaders_known(request.topics) or (complained and not everything)
        troubled = complained or self._stale or bool(self._wanted)
        self._attempts = self._attempts + 1 if troubled and self._view.news == known else 0
        self._pace(now_ms)
        if everything:
            self._fresh_until_ms = now_ms + self._settings.metadata_max_age_ms
        return commands

    def lost(self, now_ms: float) -> None:
        """The request died with its link."""
        self._asked = False
        self._attempts += 1
        self._pace(now_ms)

    def next_deadline(self, now_ms: float) -> float:
        overdue = self._recovery.next_deadline()
        if self._asked:
            return overdue
        if self._due(now_ms):  # Nobody can be asked yet, or not so soon. Never a time that is past: it would come again and again.
            return min(overdue, self._not_before_ms) if self._not_before_ms > now_ms else overdue
        return self._fresh_until_ms if self._topics else NEVER

    def _due(self, now_ms: float) -> bool:
        """Whether there is reason to ask."""
        return self._stale or bool(self._wanted) or (bool(self._topics) and now_ms >= self._fresh_until_ms)

    def _forget(self, now_ms: float) -> None:
        """Stop asking for topics that never appeared once nobody waits for them any more."""
        for topic in [topic for topic, wanted in self._wanted.items() if wanted.until_ms < now_ms]:
            del self._wanted[topic]
            if topic not in self._view.topics:
                self._topics.discard(topic)

    def _drop_idle(self, now_ms: float) -> None:
        """Forget topics to which nothing was sent for a long time, and that have nothing under way."""
        idle_since_ms = now_ms - self._settings.metadata_max_idle_ms
        idle = {topic for topic in self._topics if self._used_ms.get(topic, 0.0) <= idle_since_ms}
        for topic in idle - self._wanted.keys() - self.busy() if idle else idle:
            self._topics.discard(topic)
            self._used_ms.pop(topic, None)
            self._view.drop(topic)

    def _to_create(self) -> set[str]:
        """Topics that somebody waits for, or has something to send to, and that are not there: they may be made on the way."""
        known = self._view.topics
        absent = {topic for topic in self._wanted if topic not in known or known[topic].missing}
        return {topic for topic in absent if self._creatable(topic)}

    def _creatable(self, topic: str) -> bool:
        return self._settings.allow_auto_create_topics and self.may_create(topic)

    def _pace(self, now_ms: float) -> None:
        settings = self._settings
        self._not_before_ms = now_ms + backoff_ms(self._attempts, settings.retry_backoff_ms, settings.retry_backoff_max_ms, self._draw())

    def _leaders_known(self, topics: tuple[str, ...]) -> bool:
        return all(
            self._view.leader(name, p) is not None
            for name in topics
            if name in self._view.topics
            for p in range(len(self._view.topics[name].leaders))
        )

    def _available(self, news: Heard) -> tuple[int, ...]:
        return tuple(p for p in range(news.partitions) if self._view.leader(news.topic, p) is not None)
