"""Fetch (1), versions 4 to 18.

Reads up to the high watermark, for read_committed up to the last stable offset with the aborted transactions. Partitions share the
response's byte budget in the order of the request or session; the first one with records gives at least one whole batch. It waits until
`min_bytes` are there, `max_wait_ms` is over, or a leader changes. An error or a diverging epoch ends the wait. Sessions are as in KIP-227.
Topic ids come from version 13 on, and errors have leader epochs and the leader's address (KIP-320, KIP-595, KIP-951).

With a quota it reads at most what the quota permits at once, and a response above it is empty (KIP-219).

Batches are sent as they are stored. zstd is sent to versions below 10 too: Kafka 4 does not refuse that, 3.9 does.

From version 11 on followers respond too, with what they have (KIP-392).

A follower reads to the end of the log, and its fetch tells the leader what it has. While nothing changes, its fetch waits without a
deadline. max_wait_ms starts at the first change that brings no record, such as a new high watermark.

Leaves out: requests of clients that call themselves replicas (they are consumers here), preferred read replicas, and tiered storage.
"""

from __future__ import annotations

from fencepost.broker_stub.cluster.fetch_sessions import FINAL_EPOCH, INITIAL_EPOCH, Asked, CachedPartition, Session
from fencepost.broker_stub.requests.call import Call, Instead, Result
from fencepost.broker_stub.requests.delayed_fetch import FETCH_BYTES_MAX, DelayedFetch
from fencepost.broker_stub.requests.router import handles
from fencepost.broker_stub.security.operations import Operation
from fencepost.producer.wire import ErrorCode, FetchableTopicResponse, FetchRequest, FetchResponse, FetchTopic, PartitionData

BY_ID_SINCE = 13
READ_UNCOMMITTED, READ_COMMITTED = 0, 1


@handles(FetchRequest, range(4, 19), topic=Operation.READ)
def fetch(call: Call, request: FetchRequest) -> Result:
    if call.follower is not None and call.is_lost:
        return Instead.CUT  # it comes late, after a fetch of the follower's next connection: what it says is not true any more
    if request.isolation_level not in (READ_UNCOMMITTED, READ_COMMITTED):
        return _refused(call, request)
    named = {each.key: each for topic in request.topics for each in _asked(topic)}
    asked = list(named.values())  # a partition that is named twice is read once, as it was named last
    session, code = _session(call, request, asked)
    if code:
        return FetchResponse(error_code=code)
    incremental = session is not None and request.session_epoch != INITIAL_EPOCH
    max_bytes = min(request.max_bytes, FETCH_BYTES_MAX)
    if call.cluster.quotas and call.follower is None:
        let_through = call.cluster.throttling_of(call.broker).fetch_bytes_max(call)
        max_bytes = max_bytes if let_through is None else min(max_bytes, let_through)
    reading = DelayedFetch(
        call,
        session.cached() if session is not None else [CachedPartition(each) for each in asked],
        session=session,
        incremental=incremental,
        min_bytes=min(request.min_bytes, max_bytes),
        max_bytes=max_bytes,
        by_id=call.version >= BY_ID_SINCE,
        read_committed=request.isolation_level == READ_COMMITTED,
    )
    if request.max_wait_ms <= 0 or reading.enough():
        return reading.response()
    reading.start(request.max_wait_ms)
    return Instead.LATER


def _session(call: Call, request: FetchRequest, asked: list[Asked]) -> tuple[Session | None, int]:
    """The session of this request, brought up to date, or None without one; and the error code."""
    sessions = call.broker.sessions
    uses_ids = call.version >= BY_ID_SINCE
    if request.session_epoch in (INITIAL_EPOCH, FINAL_EPOCH):
        sessions.remove(request.session_id)
        session = (
            sessions.create(uses_ids=uses_ids, privileged=call.follower is not None) if request.session_epoch == INITIAL_EPOCH else None
        )
        if session is not None:
            session.update(asked)
        return session, ErrorCode.NONE
    session = sessions.get(request.session_id)
    if session is None:
        return None, ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    if session.epoch != request.session_epoch:
        return None, ErrorCode.INVALID_FETCH_SESSION_EPOCH
    if session.uses_ids is not uses_ids:
        return None, ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
    session.update(
        asked, [(topic.topic, topic.topic_id, partition) for topic in request.forgotten_topics_data for partition in topic.partitions]
    )
    if not session.partitions():
        sessions.remove(session.id)
        return None, ErrorCode.NONE
    session.advance()
    return session, ErrorCode.NONE


def _refused(call: Call, request: FetchRequest) -> FetchResponse:
    """The response to an invalid isolation level, which Kafka cannot parse. Clients before topic ids read the code at every partition."""
    code = ErrorCode.UNKNOWN_SERVER_ERROR
    if call.version >= BY_ID_SINCE:
        return FetchResponse(error_code=code)
    return FetchResponse(
        error_code=code,
        responses=[
            FetchableTopicResponse(
                topic=topic.topic,
                partitions=[
                    PartitionData(partition_index=each.partition, error_code=code, high_watermark=-1, records=b"")
                    for each in topic.partitions
                ],
            )
            for topic in request.topics
        ],
    )


def _asked(topic: FetchTopic) -> list[Asked]:
    return [
        Asked(
            topic=topic.topic,
            topic_id=topic.topic_id,
            partition=each.partition,
            offset=each.fetch_offset,
            bytes_max=each.partition_max_bytes,
            leader_epoch=each.current_leader_epoch,
            last_fetched_epoch=each.last_fetched_epoch,
            log_start_offset=each.log_start_offset,
        )
        for each in topic.partitions
    ]
