"""One Fetch: reads what it can now, decides whether that is enough, and waits for more.

It reads only from the logs. While it waits, its partitions tell it of every append. It reads the logs again only when the missing bytes
have arrived, when something else changed, or when its time is over.
"""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from fencepost.broker_stub.cluster.current_leader import NO_EPOCH, current_leader, endpoints, leadership_error
from fencepost.broker_stub.cluster.delayed_operation import DelayedOperation
from fencepost.broker_stub.cluster.fetch_sessions import Asked, CachedPartition, Session
from fencepost.broker_stub.log.errors import OffsetOutOfRange
from fencepost.broker_stub.replication.partition import Partition
from fencepost.broker_stub.replication.replica import Replica
from fencepost.broker_stub.requests.call import Call
from fencepost.broker_stub.storage.disk_state import StorageFailed
from fencepost.producer.wire import (
    AbortedTransaction,
    EpochEndOffset,
    ErrorCode,
    FetchableTopicResponse,
    FetchResponse,
    LeaderIdAndEpoch,
    PartitionData,
)

FETCH_BYTES_MAX = 55 * 1024 * 1024  # the broker's fetch.max.bytes
FOLLOWERS_SINCE = 11
LEADER_SINCE = 16
ZSTD_SINCE = 10
_BEFORE_READING = (ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)
_TELLS_LEADER = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)


class DelayedFetch(DelayedOperation):
    """A Fetch, which waits once `start` is called."""

    def __init__(
        self,
        call: Call,
        asked: Sequence[CachedPartition],
        *,
        session: Session | None,
        incremental: bool,
        min_bytes: int,
        max_bytes: int,
        by_id: bool,
        read_committed: bool,
    ) -> None:
        super().__init__(call.cluster, call.broker.node_id)
        self._call = call
        self._asked = asked
        self._session = session
        self._names: dict[UUID, str] = {} if session is None else session.names
        self._incremental = incremental
        self._min_bytes = min_bytes
        self._max_bytes = max_bytes
        self._by_id = by_id
        self._read_committed = read_committed
        self._answers: list[tuple[CachedPartition, PartitionData]] = []
        self._follower = call.follower
        self._wait_ms = 0
        self._moved = False  # a high watermark rose because of this fetch
        self._heard = True  # this read is the first: it tells the leader what its follower has
        self._read_bytes = 0
        self._urgent = False
        self._missing_bytes = 0

    def enough(self) -> bool:
        """Reads, and returns whether the client need not wait for more."""
        self._read()
        if self._follower is not None and not self._incremental:
            return True  # the first one of a session, which waits without a timer from its second one on
        return self._urgent or not self._asked or self._read_bytes >= self._min_bytes

    def start(self, wait_ms: int) -> None:
        """Waits, and responds by `call.answer` when there is enough or the time is over."""
        self._wait_ms = wait_ms
        self.wait_on([each.replica for each in self._asked if each.replica is not None], wait_ms if self._follower is None else None)
        self._call.on_lost = self.stop_waiting
        self._keep_waiting()
        if self._moved:
            self.changed()

    def grew(self, size_bytes: int) -> None:
        self._missing_bytes -= size_bytes
        if self._missing_bytes <= 0:
            self.changed()

    def response(self) -> FetchResponse:
        """The response from the last read, without what the session's client already knows."""
        if self._heard:
            self._read()
        topics: dict[tuple[str, object], FetchableTopicResponse] = {}
        for cached, answer in self._answers:
            asked = cached.asked
            if self._session is None or self._session.is_news(asked.key, answer, incremental=self._incremental):
                if self._follower is not None and answer.diverging_epoch.end_offset >= 0:
                    cached.log_start_offset = -1  # it takes nothing else from this answer
                key = (asked.topic, asked.topic_id)
                if key not in topics:
                    topics[key] = FetchableTopicResponse(topic=asked.topic, topic_id=asked.topic_id, partitions=[])
                topics[key].partitions.append(answer)
        return FetchResponse(
            session_id=self._session.id if self._session is not None else 0,
            responses=list(topics.values()),
            node_endpoints=endpoints(self._call.cluster, (answer.current_leader.leader_id for _, answer in self._answers)),
        )

    def try_complete(self) -> None:
        if self.enough():
            self._complete()
        else:
            self._keep_waiting()

    def _keep_waiting(self) -> None:
        self._missing_bytes = self._min_bytes - self._read_bytes
        if self._answers and self._follower is not None:
            self.expire_in(self._wait_ms)

    def expire(self) -> None:
        self._read()
        self._complete()

    def _complete(self) -> None:
        self.stop_waiting()
        self._call.answer(self.response())

    def _read(self) -> None:
        if self._follower is not None and self._heard:
            with self._call.cluster.partition_decisions.together():  # the follower may join many ISRs
                quiet = self._read_all()
            self._moved = any(replica.changes != changes for replica, changes in quiet)
        else:
            self._read_all()
        self._heard = False

    def _read_all(self) -> list[tuple[Replica, int]]:
        """Reads every partition. Returns the replicas of which the follower knows everything, each with what `changes` was before."""
        self._answers = []
        self._read_bytes = 0
        self._urgent = False
        quiet = []
        for cached in self._asked:
            cached.partition = partition = self._partition(cached)
            cached.replica = replica = partition.on(self._call.broker.node_id) if partition is not None else None
            if self._follower is not None and replica is not None and cached.seen == replica.changes:
                continue
            changes = replica.changes if replica is not None else 0
            answer = self._read_one(cached.asked, partition, replica)
            if self._follower is not None and replica is not None and self._incremental and cached.knows(answer):
                cached.seen = changes
                quiet.append((replica, changes))
                continue
            self._answers.append((cached, self._readable(partition, answer)))
            self._read_bytes += len(answer.records or b"")
            self._urgent = self._urgent or answer.error_code != 0 or answer.diverging_epoch.end_offset >= 0
        return quiet

    def _read_one(self, asked: Asked, partition: Partition | None, replica: Replica | None) -> PartitionData:
        code = self._error(asked, partition, replica)
        if code or replica is None:
            return self._failed(asked, code, partition)
        log = replica.log
        if asked.last_fetched_epoch >= 0:
            epoch, end = log.end_offset_for(asked.last_fetched_epoch)
            if end < 0 or asked.offset < log.log_start_offset:
                return self._failed(asked, ErrorCode.OFFSET_OUT_OF_RANGE, partition)
            if epoch < asked.last_fetched_epoch or end < asked.offset:
                return PartitionData(
                    partition_index=asked.partition,
                    high_watermark=log.high_watermark,
                    last_stable_offset=log.last_stable_offset,
                    log_start_offset=log.log_start_offset,
                    diverging_epoch=EpochEndOffset(epoch=epoch, end_offset=end),
                    aborted_transactions=None,
                    records=b"",
                )
        try:
            result = log.read(
                asked.offset,
                max_bytes=max(0, min(asked.bytes_max, self._max_bytes - self._read_bytes)),
                read_committed=self._read_committed,
                min_one_batch=self._read_bytes == 0,
                for_replica=self._follower is not None,
            )
        except OffsetOutOfRange:
            return self._failed(asked, ErrorCode.OFFSET_OUT_OF_RANGE, partition)
        except StorageFailed as failed:
            self._call.cluster.disk_failed(failed)
            return self._failed(asked, ErrorCode.KAFKA_STORAGE_ERROR, partition)
        if self._heard and self._follower is not None:
            replica.fetched(self._follower, asked.offset, asked.log_start_offset)
        self._urgent = self._urgent or result.beyond  # the offset may be of a log that was truncated: Kafka responds at once
        return PartitionData(
            partition_index=asked.partition,
            high_watermark=result.high_watermark,
            last_stable_offset=result.last_stable_offset,
            log_start_offset=result.log_start_offset,
            aborted_transactions=None
            if result.aborted is None
            else [AbortedTransaction(producer_id=txn.producer_id, first_offset=txn.first_offset) for txn in result.aborted],
            records=result.records,
        )

    def _readable(self, partition: Partition | None, answer: PartitionData) -> PartitionData:
        """The result, or an error that the client's version needs. Kafka applies it after reading, so it does not shorten the wait."""
        if not self._call.cluster.release.differs.zstd_needs_fetch_10 or self._call.version >= ZSTD_SINCE:
            return answer
        if partition is None or partition.topic_config["compression.type"] != "zstd" or answer.error_code in _BEFORE_READING:
            return answer
        return PartitionData(
            partition_index=answer.partition_index,
            error_code=ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
            high_watermark=-1,
            aborted_transactions=[],
            records=None,
        )

    def _partition(self, cached: CachedPartition) -> Partition | None:
        topics, asked = self._call.image.topics, cached.asked
        if self._follower is not None and cached.partition is not None:
            return cached.partition  # a follower forgets the partitions that are deleted
        topic = topics.with_id(asked.topic_id) if self._by_id else topics.named(asked.topic)
        return topic.partition(asked.partition) if topic is not None else None

    def _error(self, asked: Asked, partition: Partition | None, replica: Replica | None) -> int:
        name = partition.topic if partition is not None else asked.topic
        code = self._call.fault_for(name, asked.partition)
        if code:
            return code
        if self._by_id:
            topic = self._call.image.topics.with_id(asked.topic_id)
            if topic is not None:
                self._names[asked.topic_id] = topic.name
            elif asked.topic_id not in self._names:
                return ErrorCode.UNKNOWN_TOPIC_ID
            name = self._names[asked.topic_id]
        code = self._call.topic_refusal(name)
        if code:
            return code
        if partition is None and self._call.find(name, asked.partition)[0] is not None:
            return ErrorCode.INCONSISTENT_TOPIC_ID
        code = leadership_error(
            partition,
            replica,
            max(asked.leader_epoch, NO_EPOCH),  # here Kafka takes any negative epoch for none
            follower_will_do=self._call.version >= FOLLOWERS_SINCE,
        )
        if not code and min(self._max_bytes, asked.bytes_max) < 0:
            return ErrorCode.UNKNOWN_SERVER_ERROR  # Kafka's read fails at a negative size
        return code

    def _failed(self, asked: Asked, code: int, partition: Partition | None) -> PartitionData:
        tells = code in _TELLS_LEADER and partition is not None and self._call.version >= LEADER_SINCE
        return PartitionData(
            partition_index=asked.partition,
            error_code=code,
            high_watermark=-1,
            aborted_transactions=[] if code in _BEFORE_READING else None,  # as in Kafka
            current_leader=current_leader(self._call.image, partition) if tells and partition is not None else LeaderIdAndEpoch(),
            records=b"",
        )
