"""ShareFetch (78), versions 1 and 2.

A member of a share group (KIP-932) acquires records of its partitions for `share.record.lock.duration.ms`, and acknowledges earlier ones in
the same request. Records are given out in whole batches of the log, up to `max_records`; from version 2 on a member may want exactly that
many (KIP-1206). It waits until `min_bytes` are there and something can be acquired. Share sessions are as in Kafka: the response leaves out
partitions without news, and a session ends with its connection. A topic in it that is unknown makes the response UNKNOWN_SERVER_ERROR.
Acknowledgements are answered when the share coordinator has kept them.

A group begins at its `share.auto.offset.reset`, and skips aborted transactions by `share.isolation.level`.

Leaves out: tiered storage, and the fetch quota.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from msgspec.structs import replace

from fencepost.broker_stub.cluster.current_leader import endpoints
from fencepost.broker_stub.configs.group_configs import LOCK_DURATION
from fencepost.broker_stub.handlers.share_acknowledgements import (
    RENEW_SINCE,
    Acknowledged,
    acknowledge,
    acknowledgements_of,
    leader_of,
    request_refusal,
)
from fencepost.broker_stub.requests.call import Call, Result
from fencepost.broker_stub.requests.deferred_reply import DeferredReply
from fencepost.broker_stub.requests.delayed_fetch import FETCH_BYTES_MAX
from fencepost.broker_stub.requests.delayed_share_fetch import DelayedShareFetch, FetchLimits, Found, failed_partition
from fencepost.broker_stub.requests.router import handles
from fencepost.broker_stub.security.operations import Operation
from fencepost.broker_stub.share_partitions.acquisition import Wanted
from fencepost.broker_stub.share_partitions.coordinator.records import Key
from fencepost.broker_stub.share_partitions.live_partition import LivePartition
from fencepost.broker_stub.share_partitions.sessions import FINAL_EPOCH, INITIAL_EPOCH, ShareSession, TopicIdPartition, next_epoch
from fencepost.broker_stub.share_partitions.states import ShareRefused
from fencepost.producer.wire import ErrorCode
from fencepost.producer.wire.messages.share_fetch import (
    ShareFetchableTopicResponse,
    ShareFetchRequest,
    ShareFetchResponse,
    SharePartitionData,
)

WHOLE_BATCHES, EXACT = range(2)
MODES = (WHOLE_BATCHES, EXACT)


@handles(ShareFetchRequest, range(1, 3), group=Operation.READ, topic=Operation.READ)
def share_fetch(call: Call, request: ShareFetchRequest) -> Result:
    code = request_refusal(call, request.group_id, request.member_id)
    if not code and _asks_while_renewing(call, request):
        code = ErrorCode.INVALID_REQUEST
    if code:
        return ShareFetchResponse(error_code=code)
    reply: DeferredReply[ShareFetchResponse] = DeferredReply(call)
    try:
        session = _session(call, request)
    except ShareRefused as refused:
        return _refused(call, request, refused, reply)
    fetch = _Fetch(call, request, session, reply)
    acknowledge(call, request.group_id or "", request.member_id or "", _acknowledgements(request), request.is_renew_ack, fetch.acknowledged)
    fetch.begin()
    result = reply.result()
    if call.waits:
        call.on_lost = fetch.abandon
    return result


def _refused(call: Call, request: ShareFetchRequest, refused: ShareRefused, reply: DeferredReply[ShareFetchResponse]) -> Result:
    """A member for whom there is no session waits as long as it would wait for records."""
    response = ShareFetchResponse(error_code=refused.code)
    if refused.code != ErrorCode.SHARE_SESSION_LIMIT_REACHED or request.max_wait_ms <= 0:
        return response
    call.cluster.later_on(call.broker.node_id, request.max_wait_ms, lambda: reply(response))
    return reply.result()


def _asks_while_renewing(call: Call, request: ShareFetchRequest) -> bool:
    """A request that renews locks must not fetch, because that may take longer than a lock (KIP-1222)."""
    wants = request.max_bytes or request.min_bytes or request.max_records or request.max_wait_ms
    return call.version >= RENEW_SINCE and request.is_renew_ack and bool(wants)


def _named(request: ShareFetchRequest) -> list[TopicIdPartition]:
    return [TopicIdPartition(topic.topic_id, each.partition_index) for topic in request.topics for each in topic.partitions]


def _acknowledgements(request: ShareFetchRequest) -> Acknowledged:
    """A request without any has no results for its partitions."""
    found = acknowledgements_of(request.topics)
    return found if any(found.values()) else {}


def _session(call: Call, request: ShareFetchRequest) -> ShareSession | None:
    """The session of this request, brought up to date; None if it closes one. Raises ShareRefused."""
    group_id, member_id, epoch = request.group_id or "", request.member_id or "", request.share_session_epoch
    sessions, named = call.shares.sessions, _named(request)
    if epoch == FINAL_EPOCH:
        sessions.get(group_id, member_id)
        return None
    if epoch == INITIAL_EPOCH:
        if _acknowledgements(request):
            raise ShareRefused(ErrorCode.INVALID_REQUEST)
        if len(set(named)) < len(named):
            sessions.remove(group_id, member_id)
            raise ShareRefused(ErrorCode.UNKNOWN_SERVER_ERROR)  # as in Kafka, which expects each partition once
        session = sessions.create(group_id, member_id, call.exchange.connection_id)
        session.begin(named)
    else:
        session = sessions.proceed(group_id, member_id, epoch)
        forgotten = [TopicIdPartition(topic.topic_id, index) for topic in request.forgotten_topics_data for index in topic.partitions]
        session.update(named, forgotten)
    for each in session.partitions:
        topic = call.image.topics.with_id(each.topic_id)
        if topic is not None:
            session.names.setdefault(each.topic_id, topic.name)
    return session


class _Fetch:
    """One request: its acknowledgements and its records, which are answered together."""

    def __init__(
        self, call: Call, request: ShareFetchRequest, session: ShareSession | None, reply: DeferredReply[ShareFetchResponse]
    ) -> None:
        self._call = call
        self._request = request
        self._session = session
        self._reply = reply
        self._acknowledged: Mapping[TopicIdPartition, ShareRefused] | None = None
        self._found: Found | None = None
        self._delayed: DelayedShareFetch | None = None

    def acknowledged(self, results: Mapping[TopicIdPartition, ShareRefused]) -> None:
        self._acknowledged = results
        self._answer()

    def abandon(self) -> None:
        """The connection is lost."""
        self._reply.forget()
        if self._delayed is not None:
            self._delayed.abandon()

    def begin(self) -> None:
        """Fetches. A request that renews locks does not."""
        request, session = self._request, self._session
        max_bytes = min(request.max_bytes, FETCH_BYTES_MAX)
        wants = request.max_records != 0 and max_bytes != 0
        interested = False
        failed: Found = {}
        live: dict[TopicIdPartition, LivePartition] = {}
        renews = self._call.version >= RENEW_SINCE and request.is_renew_ack
        for each in session.partitions if session is not None and not renews else ():
            try:
                name = self._topic_of(session, each)
                interested = True
                if wants:
                    live[each] = self._call.shares.find_or_load(Key(request.group_id or "", each.topic_id, each.partition), name)
            except ShareRefused as refused:
                failed[each] = failed_partition(each.partition, refused)
        if interested and request.share_acquire_mode not in MODES:
            self._reply(ShareFetchResponse(error_code=ErrorCode.UNKNOWN_SERVER_ERROR))  # as in Kafka
            return
        if not live:
            self._fetched(failed, {})
            return
        turn = request.share_session_epoch % len(live) if request.share_session_epoch > 0 else 0
        order = [*live][turn:] + [*live][:turn]
        wanted = Wanted(request.member_id or "", request.max_records, request.batch_size, exact=request.share_acquire_mode == EXACT)
        limits = FetchLimits(min(request.min_bytes, max_bytes), max_bytes, request.max_wait_ms)
        then = partial(self._fetched, failed)
        self._delayed = DelayedShareFetch(self._call, {each: live[each] for each in order}, wanted, limits, then)
        self._delayed.start()

    def _topic_of(self, session: ShareSession | None, partition: TopicIdPartition) -> str:
        """The topic's name. Raises ShareRefused."""
        call = self._call
        name = session.names.get(partition.topic_id) if session is not None else None
        if name is None:
            raise ShareRefused(ErrorCode.UNKNOWN_TOPIC_ID)
        code = call.error_for(name, partition.partition)
        if not code and call.find(name, partition.partition)[0] is None:
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if code:
            raise ShareRefused(ErrorCode(code))
        return name

    def _fetched(self, failed: Found, found: Found) -> None:
        self._found = {**found, **failed}
        for each, live in self._delayed.partitions.items() if self._delayed is not None else ():
            if live.failure is not None and each not in self._found:
                self._found[each] = failed_partition(each.partition, live.failure)
        self._answer()

    def _answer(self) -> None:
        if self._found is None or self._acknowledged is None:
            return
        call, request, session = self._call, self._request, self._session
        if session is not None and request.share_session_epoch > 0 and session.epoch != next_epoch(request.share_session_epoch):
            self._reply(ShareFetchResponse(error_code=ErrorCode.INVALID_SHARE_SESSION_EPOCH))
            return
        told = {
            each: leader_of(call, data, session.names.get(each.topic_id, "") if session is not None else "", each.partition)
            for each, data in self._found.items()
            if session is None or request.share_session_epoch == INITIAL_EPOCH or _is_news(session, each, data)
        }
        if any(call.image.topics.with_id(each.topic_id) is None for each in told):
            self._reply(ShareFetchResponse(error_code=ErrorCode.UNKNOWN_SERVER_ERROR))  # as in Kafka, which needs the name
            return
        for each, refused in self._acknowledged.items():
            told[each] = _with_result(told.get(each, SharePartitionData(partition_index=each.partition)), refused)
        topics: dict[object, ShareFetchableTopicResponse] = {}
        for each, data in told.items():
            topic = topics.setdefault(each.topic_id, ShareFetchableTopicResponse(topic_id=each.topic_id, partitions=[]))
            topic.partitions.append(data)
        if request.share_session_epoch == FINAL_EPOCH:
            call.shares.release(request.group_id or "", request.member_id or "")
        leaders = (data.current_leader.leader_id for data in told.values() if data.current_leader.leader_id)
        self._reply(
            ShareFetchResponse(
                acquisition_lock_timeout_ms=int(call.cluster.group_config(request.group_id or "", LOCK_DURATION, call.broker.node_id)),
                responses=list(topics.values()),
                node_endpoints=endpoints(call.cluster, leaders),
            )
        )


def _is_news(session: ShareSession, partition: TopicIdPartition, data: SharePartitionData) -> bool:
    return session.is_news(partition, has_records=len(data.records) > 0, failed=data.error_code != 0)


def _with_result(data: SharePartitionData, refused: ShareRefused) -> SharePartitionData:
    return replace(data, acknowledge_error_code=refused.code, acknowledge_error_message=refused.message)
