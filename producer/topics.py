"""The topics that callers may append to, and the wait for a topic that is not known yet.

The sender thread fills it with what the core announces. Callers' threads read it.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from fencepost.producer.accumulator.accumulator import Accumulator, TopicQueues
from fencepost.producer.accumulator.batch import deadline_after
from fencepost.producer.core.error_table import judge
from fencepost.producer.core.events import Announce, Change
from fencepost.producer.errors import FencepostError, Persisted, RecordRefused, TopicUnavailable, UnknownPartition, again, plain
from fencepost.producer.foundations.condition import Condition
from fencepost.producer.foundations.counted import counted
from fencepost.producer.foundations.rlock import RLock
from fencepost.producer.wire.codes import Api, ErrorCode, error_name

log = logging.getLogger("fencepost.producer")

T = TypeVar("T")
SAY_MISSING_S = 2.0
REMEMBERED = 1_000
"""What brokers said of so many missing or refused topics is kept, because names may come from data."""
ABSENT = "the topic does not exist; create it, or check the name: "
CREATABLE = "allow_auto_create_topics=True only helps if the brokers have auto.create.topics.enable=true"
NOT_CREATABLE = "the producer does not ask brokers to create it (allow_auto_create_topics=False, existing_topics, or a Participant)"


class Topics:
    """See the module. `make_queues`: an empty TopicQueues for a topic's name."""

    def __init__(self, accumulator: Accumulator, make_queues: Callable[[str], TopicQueues], max_block_ms: float) -> None:
        self._max_block_ms = max_block_ms
        self._accumulator = accumulator
        self._make_queues = make_queues
        self._lock = RLock()
        self._changed = Condition()
        self._refused: dict[str, int] = {}
        self._missing: dict[str, str] = {}
        self._waits: dict[str, int] = {}  # how many calls wait for the topic
        self._missing_since: dict[str, float] = {}  # only while a call waits
        self._warned: dict[str, bool] = {}  # the log has warned that it is missing
        self._unheard: dict[str, FencepostError] = {}
        self._short: set[str] = set()
        self._dead: FencepostError | None = None

    def announce(self, news: Announce) -> None:
        """Take the news of a topic and wake the callers that wait for it."""
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
                self._warned.pop(heard.topic, None)
            if news.failure is not None:
                self._remember(self._unheard, heard.topic, news.failure)
            elif heard.change is Change.MISSING:
                said = _missing_words(heard.code, creatable=news.creatable)
                self._remember(self._missing, heard.topic, said)
                waited_for = self._has_long_been_missing(heard.topic)
            elif heard.change is Change.REFUSED:
                self._remember(self._refused, heard.topic, heard.code)
            else:
                self._learn(heard.topic, heard.partitions, list(news.available))
        self._changed.notify_all()
        if waited_for:
            # Not under the lock: a log handler may send its records with this producer. It then waits in `wait`, and holds its own lock.
            log.warning("a call still waits for topic %r, at most max_block_ms: the brokers say %s", heard.topic, said)

    def _has_long_been_missing(self, topic: str) -> bool:
        """Whether to warn now: a call waits, and the topic was missing for the first seconds of the wait. A topic that was just created is
        missing for a moment. There is one warning for each topic."""
        if topic not in self._waits or topic in self._warned:
            return False
        since = self._missing_since.setdefault(topic, time.monotonic())
        if time.monotonic() - since < SAY_MISSING_S:
            return False
        self._remember(self._warned, topic, words=True)
        return True

    def _remember(self, said: dict[str, T], topic: str, words: T) -> None:
        """Note what brokers said of the topic. The oldest note for which no call waits goes."""
        said.pop(topic, None)
        if len(said) >= REMEMBERED:
            oldest = next((each for each in said if each not in self._waits), None)
            if oldest is not None:
                del said[oldest]
        said[topic] = words

    def _learn(self, topic: str, partitions: int, available: list[int]) -> None:
        with self._accumulator.shared.region:
            queues = self._accumulator.topics.get(topic) or self._make_queues(topic)
            queues.grow(partitions)
            queues.partitions = partitions
            queues.available = available
            self._accumulator.topics[topic] = queues

    def forget_refusal(self, topic: str) -> None:
        """A caller is about to ask for the topic again."""
        with self._lock:
            self._refused.pop(topic, None)
            self._unheard.pop(topic, None)
            self._short.discard(topic)

    def die(self, error: FencepostError) -> None:
        """The producer ended: no more news of topics comes."""
        with self._lock:
            self._dead = error
        self._changed.notify_all()

    def wait(self, topic: str, partition: int, timeout_s: float, *, trouble: Callable[[], str]) -> TopicQueues:
        """Wait until the topic is known to have the partition (-1: any), and return its queues. Raises RecordRefused, NoUsableBroker,
        TopicUnavailable, or UnknownPartition when newer metadata lacks the partition.

        `trouble`: says why no broker answers. It is called when no metadata came.
        """
        deadline = deadline_after(timeout_s)
        with self.waiting(topic):
            queues = self._heard(topic, partition, deadline)
            if queues is None:
                raise self.unavailable(topic, partition, timeout_s, trouble())
            return queues

    def _heard(self, topic: str, partition: int, deadline: float) -> TopicQueues | None:
        """The queues, as soon as they are known; None after the deadline."""
        while True:
            notified = self._changed.notified
            with self._lock:
                queues = self.look(topic, partition)
            if queues is not None or not self._changed.wait(notified, deadline):
                return queues

    @contextmanager
    def waiting(self, topic: str) -> Iterator[None]:
        """A call waits for the topic inside this block."""
        with self._lock:
            self._waits[topic] = self._waits.get(topic, 0) + 1
        try:
            yield
        finally:
            with self._lock:
                self._waits[topic] -= 1
                if not self._waits[topic]:
                    del self._waits[topic]
                    self._missing_since.pop(topic, None)

    def look(self, topic: str, partition: int) -> TopicQueues | None:
        """The topic's queues if it is known to have the partition, None if the caller has to wait. Raises as `wait` does, or the error
        that ended the producer."""
        queues = self._accumulator.topics.get(topic)
        if queues is not None and partition < queues.partitions:
            return queues
        if queues is not None and topic in self._short:
            there = f"{topic!r} has {counted(queues.partitions, 'partition')}, numbered from 0"
            raise UnknownPartition(f"there is no partition {partition}: {there} (the brokers were asked again for this partition)")
        # One look at each: the sender thread may take the note away in between.
        code = self._refused.get(topic)
        if code is not None:
            raise RecordRefused(judge(Api.METADATA, code).why, topic=topic, partition=partition, persisted=Persisted.NO, code=code)
        if self._dead is not None:
            raise again(self._dead)
        unheard = self._unheard.get(topic)
        if unheard is not None:
            raise again(unheard)
        return None

    def missing(self, topic: str) -> str:
        """What the brokers said of a topic that is not available; empty if they have not said anything."""
        said = self._missing.get(topic)
        return f"the brokers say {said}" if said is not None else ""

    def unavailable(self, topic: str, partition: int, timeout_s: float, trouble: str) -> TopicUnavailable:
        """The error of a wait that reached its deadline. `trouble`: why no broker answers."""
        waited_ms = timeout_s * 1000.0
        limit = (
            f"within max_block_ms={plain(waited_ms)}" if round(waited_ms) == round(self._max_block_ms) else f"within {plain(timeout_s)} s"
        )
        queues = self._accumulator.topics.get(topic)
        if queues is not None:
            there = f"{topic!r} has {counted(queues.partitions, 'partition')}"
            return TopicUnavailable(f"{there}; partition {partition} did not appear {limit}")
        missing = self.missing(topic)
        if missing:
            return TopicUnavailable(f"topic {topic!r} did not become available {limit}: {missing}")
        return TopicUnavailable(f"no broker told the partitions of topic {topic!r} {limit}: {trouble}")


def _missing_words(code: int, *, creatable: bool) -> str:
    if code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        return f"{error_name(code)}: {judge(Api.METADATA, code).why}"
    return f"{error_name(code)}: {ABSENT}{CREATABLE if creatable else NOT_CREATABLE}"
