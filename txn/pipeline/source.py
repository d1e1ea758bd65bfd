"""The pipeline's consumer: what is assigned, what came, and where to continue after an abort.

Its callbacks run inside `read`, in the thread that calls the consumer. There the runner ends the open batch before partitions are given up.
confluent-kafka (from 2.16) lets no other thread call the consumer before `read` has returned.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Coroutine, Mapping
from contextlib import suppress
from itertools import repeat
from operator import is_
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition
from tenacity import AsyncRetrying, Retrying, retry_if_exception, stop_after_delay, wait_random_exponential

from fencepost.producer.errors import ConfigError
from fencepost.producer.foundations.printable import said
from fencepost.producer.network.librdkafka_tokens import OauthCallback
from fencepost.txn.loop.calls import Calls
from fencepost.txn.pipeline.batch import TP, last_of, offset_of, tp_of
from fencepost.txn.pipeline.consumer_settings import INSTANCE, MAX_POLL_MS, has_consumer_protocol
from fencepost.txn.pipeline.errors import PipelineFailed
from fencepost.txn.pipeline.repeats import Repeats
from fencepost.txn.pipeline.stats import Counters

log = logging.getLogger("fencepost.pipeline")

OnRevoked = Callable[[set[TP], bool], Coroutine[Any, Any, None]]
"""Called with the partitions that are given up, and whether another member may have them already."""

HOPELESS: Final = frozenset(
    {
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.FENCED_INSTANCE_ID,
        KafkaError._AUTO_OFFSET_RESET,
        KafkaError._FATAL,
    }
)
"""Errors after which the consumer reads nothing more."""
ADVICE: Final = {
    KafkaError.FENCED_INSTANCE_ID: "another process has the same instance: give each its own",
    KafkaError._AUTO_OFFSET_RESET: "the group's offsets are no longer in the topic, and auto.offset.reset is error",
    KafkaError._MAX_POLL_EXCEEDED: "the transform took too long, or the process stood still, and the group gave the partitions away: lower "
    "batch_size, or raise the consumer's max.poll.interval.ms",
    KafkaError.UNKNOWN_TOPIC_OR_PART: "create the topic, or correct source: the pipeline reads the topic as soon as it is there",
}
NOT_YET: Final = frozenset({KafkaError._STATE, KafkaError._PREV_IN_PROGRESS, KafkaError._TIMED_OUT, KafkaError._TRANSPORT})
"""Answers of a seek while the partition is being started."""
REWIND_LIMIT_S: Final = 30.0
ASK_S: Final = 5.0
"""How long the brokers have for one answer about offsets."""
ASK_LEAST_S: Final = 0.1
"""The same at the end of a run."""
STRATEGY: Final = "partition.assignment.strategy"
PAUSES: Final = wait_random_exponential(multiplier=0.01, max=0.5)
PLACES: Final = dict.fromkeys(("earliest", "smallest", "beginning"), 0) | dict.fromkeys(("latest", "largest", "end"), 1)
"""Which of the low and the high watermark a value of auto.offset.reset means."""


class Source:
    """See the module. `assigned`: the partitions of this member. `ended`: those of them that are read to their end. `rewinds`: where to
    continue before the next read, by partition. `own_topics`: those to which the pipeline writes, which it must not read. `left_s`: the
    seconds until the run is to end. `leave`: has the group remove this member, after the consumer was closed."""

    def __init__(
        self,
        settings: Mapping[str, Any],
        topics: list[str],
        calls: Calls,
        counters: Counters,
        on_revoked: OnRevoked,
        *,
        left_s: Callable[[], float],
        leave: Callable[[str], None],
        own_topics: Collection[str] = (),
    ) -> None:
        self.assigned: set[TP] = set()
        self.ended: set[TP] = set()
        self.rewinds: dict[TP, int] = {}
        self._calls = calls
        self._counters = counters
        self._on_revoked = on_revoked
        self._left_s = left_s
        self._leave = leave
        self._began_at: dict[TP, int] = {}
        """Where the consumer began in each partition of this member; negative if there is no such place."""
        self._not_begun: set[TP] = set()
        """Partitions of this member whose place to begin was not known when a run ended."""
        self._revoked: set[TP] = set()
        self._group: bytes | None = None
        """The group's metadata while partitions are given up: until then no other thread can call the consumer."""
        self._failure: BaseException | None = None
        self._ended_now: set[TP] = set()
        self._ends: dict[TP, int] = {}
        self._repeats = Repeats()
        tokens = settings.get("oauth_cb")
        if isinstance(tokens, OauthCallback):
            tokens.prepare()
        try:
            self._consumer = Consumer({"error_cb": self._on_error, **settings})
        except KafkaException as error:
            raise ConfigError(f"the consumer's settings: {said(str(error.args[0].str()))}") from error
        self._reset = PLACES.get(str(settings["auto.offset.reset"]))
        self._patience_s = int(settings.get("max.poll.interval.ms", MAX_POLL_MS)) / 2000.0
        # A static member stays. With the consumer protocol it says that it will be back.
        self._is_to_leave = INSTANCE not in settings or has_consumer_protocol(settings)
        self._is_incremental = has_consumer_protocol(settings) or "cooperative" in str(settings.get(STRATEGY))
        self._closing = False
        self._member_id: str | None = None
        """The member that has to leave when the consumer is closed; empty once it has left."""
        self._topics = topics
        self._own_topics = own_topics

    async def open(self) -> None:
        """Join the group."""
        await self._calls.ask(self._consumer.subscribe, self._topics, self._on_assign, self._on_revoke, self._on_lost)

    def group(self) -> bytes:
        """The group's metadata now. It does not wait for a broker."""
        metadata: bytes = self._group or self._consumer.consumer_group_metadata()
        return metadata

    async def read(self, number: int, timeout_s: float) -> list[Message]:
        """Up to so many messages. Rebalances take place inside."""
        if self.rewinds:
            await self._rewind()
        if self._not_begun:
            await self._calls.ask(self._begin, self._consumer, [TopicPartition(*tp) for tp in sorted(self._not_begun)])
        self._revoked.clear()
        self._ended_now.clear()
        messages: list[Message] = await self._calls.ask(self._consumer.consume, number, timeout_s)
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure
        if messages:
            # Without a loop in Python, because it runs for every message.
            if not all(map(is_, map(type(messages[0]).error, messages), repeat(None))):
                messages = self._without_events(messages)
            if self.ended:
                self.ended -= last_of(messages).keys() - self._ended_now
        if self._revoked or self.rewinds:
            messages = self._still_ours(messages)
        return messages

    async def look_again(self) -> bool:
        """Which partitions are still read to their end: nothing was read for a while. False if the run ends before that is known."""
        for tp in list(self.ended):
            unknown = "where the partitions end is not known"
            marks = await self._calls.ask(self._insisting, unknown, self._consumer.get_watermark_offsets, TopicPartition(*tp))
            if marks is None:
                return False
            _, end = marks
            if end != self._ends[tp]:  # Smaller: the topic was deleted and created again.
                self.ended.discard(tp)
        return True

    def lag(self, next_offsets: Mapping[TP, int]) -> int:
        """How many offsets the partitions are behind their ends, as far as it is known."""
        lag = 0
        for tp in self.assigned - self.ended:
            try:
                marks = self._consumer.get_watermark_offsets(TopicPartition(*tp), cached=True)
            except KafkaException:
                continue
            if tp in next_offsets:
                lag += max(0, marks[1] - next_offsets[tp])
        return lag

    async def close(self) -> None:
        """Leave the group."""
        self._closing = True
        await self._calls.ask(self._close)

    def _close(self) -> None:
        try:
            if self._is_to_leave and self._member_id is None:
                with suppress(RuntimeError):  # A close that Ctrl-C interrupted has closed it.
                    self._member_id = self._consumer.memberid()
        finally:
            self._consumer.close()
        if self._member_id:
            self._leave(self._member_id)
            self._member_id = ""
        failure, self._failure = self._failure, None
        if failure is not None and not isinstance(failure, Exception):
            raise failure  # Ctrl-C struck in a callback of the consumer.

    # -- rebalances, inside a read ---------------------------------------------------------------------------------------

    def _on_assign(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        given = _tps(partitions)
        own = sorted({topic for topic, _ in given if topic in self._own_topics})
        if own:
            self._failure = self._failure or PipelineFailed(
                f"the source {self._topics} matches {own[0]!r}, to which the pipeline writes, so it would process its own output forever."
                " Give the topic a name that the pattern does not match"
            )
        self.assigned |= given
        self.ended -= given
        self._counters.rebalances += 1
        self._counters.partitions = len(self.assigned)
        log.info("assigned: %s", _shown(given))
        if self._closing:  # The consumer gives them back at once, and asks the brokers nothing more.
            return
        self._begin(consumer, partitions)

    def _begin(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        """Have the consumer begin in these partitions. If the run ends before it is known where, the next run begins in them."""
        assign = consumer.incremental_assign if self._is_incremental else consumer.assign
        try:
            places = self._places(consumer, partitions)
            assign(places or [])  # Without this call the consumer would begin by itself.
        except (KafkaException, PipelineFailed) as error:
            self._failure = self._failure or error
            return
        given = _tps(partitions)
        if places is None:
            self._not_begun |= given
            return
        self._not_begun -= given
        self._began_at |= {(place.topic, place.partition): place.offset for place in places}

    def _places(self, consumer: Consumer, partitions: list[TopicPartition]) -> list[TopicPartition] | None:
        """Where the group is, or where the topic begins or ends; None if the run ends before that is known. If librdkafka itself looks for
        that place, it may look again half a second later, when another member has processed the partition's messages, and deliver them
        again: an outdated answer about offsets has `rd_kafka_toppar_handle_Offset` ask once more, also about a partition that was given
        up."""
        unknown = "where to begin is not known"
        places: list[TopicPartition] | None = self._insisting(unknown, _committed, consumer, partitions) if partitions else []
        for place in places or []:
            if place.offset < 0 and self._reset is not None:
                marks = self._insisting(unknown, consumer.get_watermark_offsets, place)
                if marks is None:
                    return None
                place.offset = marks[self._reset]
        return places

    def _insisting(self, unknown: str, function: Callable[..., Any], *arguments: Any) -> Any:
        """A question to the brokers, which is repeated until they answer. None if the run ends before that. `unknown`: for the error, if
        they refuse, or if it takes so long that the group would remove this member."""
        too_late = stop_after_delay(self._patience_s)
        asking = Retrying(
            retry=retry_if_exception(_may_pass),
            stop=lambda state: self._left_s() <= 0.0 or too_late(state),
            wait=PAUSES,
            reraise=True,
        )

        def ask() -> Any:
            return function(*arguments, timeout=max(ASK_LEAST_S, min(ASK_S, self._left_s())))

        try:
            return asking(ask)
        except KafkaException as error:
            if self._left_s() <= 0.0:
                return None
            raise PipelineFailed(f"{unknown}: {said(str(error))}") from error

    def _on_revoke(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._give_up(_tps(partitions), lost=False)

    def _on_lost(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._counters.lost += len(partitions)
        self._give_up(_tps(partitions), lost=True)

    def _give_up(self, taken: set[TP], *, lost: bool) -> None:
        log.info("%s: %s", "lost" if lost else "revoked", _shown(taken))
        try:
            self._group = self._consumer.consumer_group_metadata()
            self._calls.inside(self._on_revoked(taken, lost))
        except BaseException as error:  # noqa: BLE001 - confluent-kafka would drop the messages and the partitions with it; `read` raises it
            self._failure = self._failure or error
        finally:
            self._group = None
        self.assigned -= taken
        self.ended -= taken
        self._revoked |= taken
        self._counters.partitions = len(self.assigned)
        for tp in taken:
            # Where this member was no longer matters: another one may have continued.
            self.rewinds.pop(tp, None)
            self._began_at.pop(tp, None)
            self._not_begun.discard(tp)

    # -- what came --------------------------------------------------------------------------------------------------------

    def _without_events(self, messages: list[Message]) -> list[Message]:
        """The messages alone. Ends of partitions are noted, and errors logged or raised."""
        kept: list[Message] = []
        ended: dict[TP, int] = {}
        for message in messages:
            error = message.error()
            if error is None:
                kept.append(message)
            elif error.code() == KafkaError._PARTITION_EOF:
                ended[tp_of(message)] = offset_of(message)
            else:
                self._heard(error, said(error.str()))
        newest = last_of(kept)
        self._ended_now = {tp for tp, offset in ended.items() if tp not in newest or offset_of(newest[tp]) < offset}
        self.ended |= self._ended_now & self.assigned
        self._ends |= ended
        return kept

    def _heard(self, error: KafkaError, words: str) -> None:
        advice = f": {ADVICE[error.code()]}" if error.code() in ADVICE else ""
        if error.fatal() or error.code() in HOPELESS:
            raise PipelineFailed(f"the consumer cannot continue: {words} [{error.name()}]{advice}")
        if self._repeats.is_new(words, time.monotonic()):
            log.warning("the consumer reports, and continues: %s [%s]%s", words, error.name(), advice)

    def _on_error(self, error: KafkaError) -> None:
        """librdkafka's errors that belong to no partition, such as a broker that cannot be reached."""
        try:
            self._heard(error, said(error.str()))
        except PipelineFailed as failure:
            self._failure = self._failure or failure

    def _still_ours(self, messages: list[Message]) -> list[Message]:
        """Without messages that were collected before a rebalance in the same call. A partition that was given up and came back in this
        call is read from where the consumer began: what the call collected of it, messages and its end, may be from before."""
        for tp in self._revoked & self.assigned:
            if self._began_at.get(tp, -1) >= 0:
                self.rewinds.setdefault(tp, self._began_at[tp])
        stale = self._revoked | self.rewinds.keys()
        return [message for message in messages if (tp := tp_of(message)) in self.assigned and tp not in stale]

    async def _rewind(self) -> None:
        """Continue at these offsets. What librdkafka has fetched already is dropped by the seek."""
        for tp, offset in list(self.rewinds.items()):
            if tp in self.assigned:
                self.ended.discard(tp)
                if not await self._sought(TopicPartition(*tp, offset)):
                    return
            del self.rewinds[tp]

    async def _sought(self, place: TopicPartition) -> bool:
        """Set the consumer back, which may be too early for it. Returns False if the run ends before that."""
        too_late = stop_after_delay(REWIND_LIMIT_S)
        asking = AsyncRetrying(
            retry=retry_if_exception(_is_too_early),
            stop=lambda state: self._left_s() <= 0.0 or too_late(state),
            wait=PAUSES,
            sleep=self._calls.sleep,
            reraise=True,
        )
        try:
            await asking(self._calls.ask, self._consumer.seek, place)
        except KafkaException as error:
            if self._left_s() <= 0.0 and _is_too_early(error):
                return False
            raise PipelineFailed(f"the consumer cannot be set back to where the group is: {said(str(error))}") from error
        return True


def _is_too_early(error: BaseException) -> bool:
    return isinstance(error, KafkaException) and isinstance(error.args[0], KafkaError) and error.args[0].code() in NOT_YET


def _may_pass(error: BaseException) -> bool:
    return isinstance(error, KafkaException) and error.args[0].code() not in HOPELESS and not error.args[0].fatal()


def _committed(consumer: Consumer, partitions: list[TopicPartition], timeout: float) -> list[TopicPartition]:
    """The group's offsets; negative where there is none."""
    places = consumer.committed(partitions, timeout=timeout)
    for place in places:
        if place.error is not None:
            raise KafkaException(place.error)
    return places


def _tps(partitions: list[TopicPartition]) -> set[TP]:
    return {(each.topic, each.partition) for each in partitions}


def _shown(partitions: set[TP]) -> str:
    return ", ".join(f"{topic}-{partition}" for topic, partition in sorted(partitions)[:20]) or "nothing"
