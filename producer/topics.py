"""The topics callers may append to, and the wait for one that is not known yet.

Filled on the sender thread from what the core announces; read by callers' threads.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from fencepost.producer.accumulator.accumulator import Accumulator, TopicQueues
from fencepost.producer.accumulator.batch import deadline_after
from fencepost.producer.core.error_table import judge
from fencepost.producer.core.events import Announce, Change
from fencepost.producer.errors import FencepostError, Persisted, RecordRefused, TopicUnavailable, again, plain
from fencepost.producer.foundations.condition import Condition
from fencepost.producer.wire.codes import Api, ErrorCode, error_name

log = logging.getLogger("fencepost.producer")

SAY_MISSING_S = 2.0
ABSENT = "there is none of that name; create it, or check the name: "
CREATABLE = "allow_auto_create_topics only helps where the brokers have auto.create.topics.enable"
NOT_CREATABLE = "brokers are not asked to create it (allow_auto_create_topics=False, existing_topics, or a Participant)"


class Topics:
    """See the module. `make_queues`: an empty TopicQueues for a topic's name."""

    def __init__(self, accumulator: Accumulator, make_queues: Callable[[str], TopicQueues]) -> None:
        self._accumulator = accumulator
        self._make_queues = make_queues
        self._lock = threading.RLock()
        self._changed = Condition()
        self._refused: dict[str, int] = {}
        self._missing: dict[str, str] = {}
        self._missing_since: dict[str, float | None] = {}  # None once it was said
        self._unheard: dict[str, FencepostError] = {}
        self._short: set[str] = set()
        self._dead: FencepostError | None = None

    def announce(self, news: Announce) -> None:
        """Take what was heard of a topic and wake those who wait for it."""
        heard = news.heard
        waited_for, said = False, ""
        with self._lock:
            self._missing.pop(heard.topic, None)
            if news.failure is None:
                self._refused.pop(heard.topic, None)
                self._unheard.pop(heard.topic, None)
            if news.short:
                self._short.add(heard.topic)
            if heard.change is not Change.MISSING:
                self._missing_since.pop(heard.topic, None)
            if news.failure is not None:
                self._unheard[heard.topic] = news.failure
            elif heard.change is Change.MISSING:
                self._missing[heard.topic] = said = _missing_words(heard.code, creatable=news.creatable)
                waited_for = self._has_long_been_missing(heard.topic)
            elif heard.change is Change.REFUSED:
                self._refused[heard.topic] = heard.code
            else:
                self._learn(heard.topic, heard.partitions, list(news.available))
        self._changed.notify_all()
        if waited_for:
            # Not under the lock: a log handler that sends what is logged waits in `wait`, and holds a lock of its own.
            log.warning("topic %r is waited for, up to max_block_ms: the brokers say %s", heard.topic, said)

    def _has_long_been_missing(self, topic: str) -> bool:
        """A topic that was just created is missing for a moment; whoever waits for one that stays away is told, once, before the wait is
        over."""
        since = self._missing_since.setdefault(topic, time.monotonic())
        if since is None or time.monotonic() - since < SAY_MISSING_S:
            return False
        self._missing_since[topic] = None
        return True

    def _learn(self, topic: str, partitions: int, available: list[int]) -> None:
        with self._accumulator.shared.region:
            queues = self._accumulator.topics.get(topic) or self._make_queues(topic)
            queues.grow(partitions)
            queues.partitions = partitions
            queues.available = available
            self._accumulator.topics[topic] = queues

    def forget_refusal(self, topic: str) -> None:
        """Somebody is about to ask for the topic again."""
        with self._lock:
            self._refused.pop(topic, None)
            self._unheard.pop(topic, None)
            self._short.discard(topic)

    def die(self, error: FencepostError) -> None:
        """Nothing will be heard any more."""
        with self._lock:
            self._dead = error
        self._changed.notify_all()

    def wait(self, topic: str, partition: int, timeout_s: float, *, trouble: Callable[[], str]) -> TopicQueues:
        """The topic's queues, once it is known to have the partition (-1: any). Raises TopicUnavailable, also for a partition that the
        brokers, asked for it, do not have, RecordRefused or NoUsableBroker.

        `trouble`: what keeps the brokers from answering, asked when nothing was heard.
        """
        deadline = deadline_after(timeout_s)
        while True:
            notified = self._changed.notified
            with self._lock:
                queues = self.look(topic, partition)
            if queues is not None:
                return queues
            if not self._changed.wait(notified, deadline):
                raise self.unavailable(topic, partition, timeout_s, trouble())

    def look(self, topic: str, partition: int) -> TopicQueues | None:
        """The topic's queues if it is known to have the partition, None if there is reason to wait. Raises as `wait` does, or what ended
        the producer."""
        queues = self._accumulator.topics.get(topic)
        if queues is not None and partition < queues.partitions:
            return queues
        if queues is not None and topic in self._short:
            there = f"{topic!r} has {queues.partitions} partitions, numbered from 0"
            raise TopicUnavailable(f"there is no partition {partition}: {there}, as the brokers said when asked for it")
        if topic in self._refused:
            code = self._refused[topic]
            raise RecordRefused(judge(Api.METADATA, code).why, topic=topic, partition=partition, persisted=Persisted.NO, code=code)
        if self._dead is not None:
            raise again(self._dead)
        if topic in self._unheard:
            raise again(self._unheard[topic])
        return None

    def unavailable(self, topic: str, partition: int, timeout_s: float, trouble: str) -> TopicUnavailable:
        """The error of a wait that was in vain. `trouble`: what keeps the brokers from answering."""
        limit = f"within max_block_ms={plain(timeout_s * 1000)}"
        queues = self._accumulator.topics.get(topic)
        if queues is not None:
            return TopicUnavailable(f"{topic!r} has {queues.partitions} partitions; partition {partition} did not appear {limit}")
        if topic in self._missing:
            return TopicUnavailable(f"topic {topic!r} did not become available {limit}: the brokers say {self._missing[topic]}")
        return TopicUnavailable(f"nothing was heard of topic {topic!r} {limit}: {trouble}")


def _missing_words(code: int, *, creatable: bool) -> str:
    if code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        return error_name(code)
    return f"{error_name(code)}: {ABSENT}{CREATABLE if creatable else NOT_CREATABLE}"
