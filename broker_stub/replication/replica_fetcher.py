"""One broker's fetches from one leader broker, for every partition that it follows there (Kafka's `ReplicaFetcherThread`).

One request is out at a time. A response is processed in the next tick, never inside the leader's handler, and takes no time: within one
tick followers get all that their leaders have. At the leader's end the request waits for the next append, as a consumer's does.

A response that changes a log is followed by the next request at once. A failed request is repeated after replica.fetch.backoff.ms. So is
the fetch of a partition whose response is an error, or whose bytes are damaged, while the others go on.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import NamedTuple, Protocol
from uuid import UUID

from fencepost.broker_stub.log import AppendRefused, PartitionLog
from fencepost.broker_stub.replication.replica import Replica
from fencepost.broker_stub.replication.truncation import append_from_leader, start_within, truncate_to_leader
from fencepost.broker_stub.storage.disk_state import StorageFailed
from fencepost.producer.wire import ErrorCode, FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData
from fencepost.producer.wire.codes import error_name
from fencepost.producer.wire.messages.fetch import ForgottenTopic, ReplicaState
from fencepost.producer.wire.records import CorruptBatch

_log = logging.getLogger(__name__)

Key = tuple[UUID, int]


class Out(Protocol):
    """A request that was sent."""

    @property
    def waits(self) -> bool:
        """Whether the leader has read it and waits for something to send."""
        ...

    def abandon(self) -> None:
        """The leader need not wait any more."""
        ...


Then = Callable[[FetchResponse | None], None]
"""Gets the response; None if the connection ended without one."""


class Surroundings(Protocol):
    """What a fetcher needs of its cluster."""

    @property
    def fetch_config(self) -> FetchConfig:
        """How followers fetch."""
        ...

    @property
    def send_fetch(self) -> Callable[[int, int, FetchRequest, Then], Out]:
        """Sends the request of a follower to a leader."""
        ...

    def later_on(self, node: int, delay_ms: int, run: Callable[[], None]) -> object:
        """Runs it on that broker after so many milliseconds, or in the next tick."""
        ...

    def writing_ms(self, node: int) -> int:
        """How long that broker takes to write to its disk now."""
        ...

    def reach(self, one: int, other: int) -> bool:
        """Whether these brokers can talk to each other."""
        ...

    def disk_failed(self, failed: StorageFailed) -> None:
        """The log directory on that disk goes offline. A broker without another one halts."""
        ...

    def watch_lag(self) -> None:
        """A follower may be behind, so its leader must look at its ISR."""
        ...

    @property
    def leader_epochs(self) -> bool:
        """Without them a follower truncates to its high watermark, as before Kafka 0.11."""
        ...


class FetchConfig(NamedTuple):
    """The broker's configs that begin with replica.fetch."""

    backoff_ms: int
    max_bytes: int
    min_bytes: int
    response_max_bytes: int
    wait_max_ms: int


class _Followed:
    """A replica in one leader epoch, and what the last request said about it."""

    __slots__ = ("asked", "epoch", "replica")

    def __init__(self, replica: Replica) -> None:
        self.replica = replica
        self.epoch = replica.leader_epoch
        self.asked: FetchPartition | None = None

    @property
    def key(self) -> Key:
        return _key(self.replica)


class ReplicaFetcher:
    """See the module."""

    def __init__(self, cluster: Surroundings, follower: int, leader: int) -> None:
        self._cluster = cluster
        self._config = cluster.fetch_config
        self._follower = follower
        self._leader = leader
        self._followed: dict[Key, _Followed] = {}
        self._delayed: dict[Key, _Followed] = {}
        self._named: dict[Key, _Followed] = {}  # what the next request names, because it changed
        self._forgotten: list[Key] = []
        self._session_id = self._session_epoch = 0
        self._out: Out | None = None
        self._number = 0  # of the newest request: a response to another one is dropped
        self._busy = False  # a response, or the next request, follows by itself

    def follow(self, replica: Replica) -> None:
        """Fetches the partition from now on, in its present leader epoch."""
        followed = _Followed(replica)
        known = self._followed.get(followed.key) or self._delayed.get(followed.key)
        if known is None or known.epoch != followed.epoch:
            self._delayed.pop(followed.key, None)
            if not self._cluster.leader_epochs:
                self._truncate_to_high_watermark(replica.log)
            self._add(followed)

    def forget(self, replica: Replica) -> None:
        key = _key(replica)
        self._delayed.pop(key, None)
        self._named.pop(key, None)
        if self._followed.pop(key, None) is not None:
            self._forgotten.append(key)
            if not self._followed:
                self._disconnect()

    def link_changed(self) -> None:
        """The link to the leader was severed or mended, or the leader went down or up. That ends the request that is out, and what it would
        bring."""
        self._disconnect()
        if self._cluster.reach(self._follower, self._leader):
            self._fetch_soon()
        else:
            self._fall_silent(self._followed)

    def _truncate_to_high_watermark(self, log: PartitionLog) -> None:
        try:
            log.truncate(log.high_watermark)
        except StorageFailed as failed:
            self._cluster.disk_failed(failed)

    def _add(self, followed: _Followed) -> None:
        self._followed[followed.key] = self._named[followed.key] = followed
        if self._out is not None and self._out.waits:
            self._out.abandon()
            self._out, self._busy = None, False
        self._fetch_soon()

    def _disconnect(self) -> None:
        """Ends the session with the leader."""
        if self._out is not None:
            self._out.abandon()
        self._out, self._busy = None, False
        self._number += 1
        self._begin_session()

    def _begin_session(self) -> None:
        self._session_id = self._session_epoch = 0
        self._forgotten.clear()
        self._named = dict(self._followed)

    def _fetch_soon(self) -> None:
        if not self._busy:
            self._busy = True
            self._cluster.later_on(self._follower, 0, partial(self._fetch, self._number))

    def _fetch(self, number: int) -> None:
        if number != self._number:
            return
        self._busy = False
        if not self._followed:
            return
        if not self._cluster.reach(self._follower, self._leader):
            self._fall_silent(self._named)
            return
        self._number += 1
        request, answered = self._request(), partial(self._answered, self._number)
        number, self._busy = self._number, True
        out = self._cluster.send_fetch(self._follower, self._leader, request, answered)
        if self._number == number:
            self._out = out

    def _request(self) -> FetchRequest:
        topics: dict[UUID, FetchTopic] = {}
        for followed in self._named.values():
            partition, log = followed.replica.partition, followed.replica.log
            followed.asked = FetchPartition(
                partition=partition.index,
                current_leader_epoch=followed.epoch,
                fetch_offset=log.log_end_offset,
                last_fetched_epoch=log.leader_epoch if self._cluster.leader_epochs else -1,
                log_start_offset=log.log_start_offset,
                partition_max_bytes=self._config.max_bytes,
            )
            topics.setdefault(partition.topic_id, FetchTopic(topic_id=partition.topic_id, partitions=[])).partitions.append(followed.asked)
        forgotten: dict[UUID, ForgottenTopic] = {}
        for topic_id, index in self._forgotten:
            if (topic_id, index) not in self._followed:
                forgotten.setdefault(topic_id, ForgottenTopic(topic_id=topic_id, partitions=[])).partitions.append(index)
        self._named = {}
        self._forgotten.clear()
        request = FetchRequest(
            replica_state=ReplicaState(replica_id=self._follower),
            max_wait_ms=self._config.wait_max_ms,
            min_bytes=self._config.min_bytes,
            max_bytes=self._config.response_max_bytes,
            session_id=self._session_id,
            session_epoch=self._session_epoch,
            topics=list(topics.values()),
            forgotten_topics_data=list(forgotten.values()),
        )
        self._session_epoch += 1
        return request

    def _answered(self, number: int, response: FetchResponse | None) -> None:
        if number == self._number:
            self._number += 1
            self._out = None
            writing_ms = self._cluster.writing_ms(self._follower) if response is not None and _has_records(response) else 0
            if writing_ms:
                self._cluster.watch_lag()
            self._cluster.later_on(self._follower, writing_ms, partial(self._process, self._number, response))

    def _process(self, number: int, response: FetchResponse | None) -> None:
        if number != self._number:
            return
        if response is None or response.error_code:
            self._begin_session()
            self._fall_silent(self._followed)
            self._cluster.later_on(self._follower, self._config.backoff_ms, partial(self._fetch, self._number))
            return
        self._session_id = response.session_id
        for topic in response.responses:
            for data in topic.partitions:
                self._take((topic.topic_id, data.partition_index), data)
        self._fetch(self._number)

    def _take(self, key: Key, data: PartitionData) -> None:
        """What the response says about a partition, unless the partition has changed since the request."""
        followed = self._followed.get(key)
        if followed is None:
            return
        log, asked = followed.replica.log, followed.asked
        if asked is None or followed.epoch != followed.replica.leader_epoch or log.log_end_offset != asked.fetch_offset:
            self._begin_session()  # the session would not tell the high watermark again that is not taken now
            return
        try:
            self._apply(followed, log, data)
        except StorageFailed as failed:
            self._delay(followed)
            self._cluster.disk_failed(failed)
        except (AppendRefused, CorruptBatch, ValueError) as damaged:
            _log.error(
                "broker %d cannot replicate %s from broker %d: %s", self._follower, followed.replica.partition, self._leader, damaged
            )
            self._delay(followed)

    def _apply(self, followed: _Followed, log: PartitionLog, data: PartitionData) -> None:
        before = log.log_end_offset, log.leader_epoch
        if data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            leader = self._leaders(followed).log
            start_within(log, start_offset=leader.log_start_offset, end_offset=leader.log_end_offset)
            self._ask_again(followed, before, log)
        elif data.error_code:
            _log.debug("broker %d fetches %s later: %s", self._follower, followed.replica.partition, error_name(data.error_code))
            self._delay(followed)
        elif data.diverging_epoch.end_offset >= 0:
            truncate_to_leader(log, data.diverging_epoch.epoch, data.diverging_epoch.end_offset)
            self._ask_again(followed, before, log)
        else:
            start_offset = log.log_start_offset
            if data.records:
                append_from_leader(log, bytes(data.records), leader_epoch=followed.epoch)
                self._ask_again(followed, before, log)
            high_watermark = log.high_watermark
            log.advance_high_watermark(data.high_watermark)
            if log.high_watermark > high_watermark and followed.replica.watchers:
                followed.replica.tell_changed()  # a consumer may wait at this follower
            if log.log_start_offset < data.log_start_offset <= log.high_watermark:
                log.advance_log_start(data.log_start_offset)
            if log.log_start_offset != start_offset:
                self._named[followed.key] = followed

    def _ask_again(self, followed: _Followed, before: tuple[int, int], log: PartitionLog) -> None:
        """After a change of the log. A response that changed nothing would come again at once, and again."""
        if (log.log_end_offset, log.leader_epoch) == before:
            raise ValueError(f"it ends at offset {before[0]} in epoch {before[1]}, and what its leader says changes nothing")
        self._named[followed.key] = followed

    def _delay(self, followed: _Followed) -> None:
        key = followed.key
        del self._followed[key]
        self._named.pop(key, None)
        self._forgotten.append(key)
        self._delayed[key] = followed
        self._fall_silent({key: followed})
        self._cluster.later_on(self._follower, self._config.backoff_ms, partial(self._retry, followed))

    def _retry(self, followed: _Followed) -> None:
        if self._delayed.get(followed.key) is followed:
            del self._delayed[followed.key]
            self._add(followed)

    def _fall_silent(self, followed: dict[Key, _Followed]) -> None:
        for each in followed.values():
            self._leaders(each).fell_silent(self._follower)
        self._cluster.watch_lag()

    def _leaders(self, followed: _Followed) -> Replica:
        """The leader's replica; the follower's own where that one has left."""
        return followed.replica.partition.on(self._leader) or followed.replica


def _has_records(response: FetchResponse) -> bool:
    return any(data.records for topic in response.responses for data in topic.partitions)


def _key(replica: Replica) -> Key:
    return (replica.partition.topic_id, replica.partition.index)
