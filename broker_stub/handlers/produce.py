"""Produce (0), versions 3 to 13; ApiVersions names 0 to 13, as Kafka does.

The checks of the request come in the order of Kafka's `handleProduceRequest`; then the log validates, deduplicates and appends. With
acks=-1 it responds when every in-sync replica has fetched the batches. With fewer in-sync replicas than min.insync.replicas the answer is
NOT_ENOUGH_REPLICAS, and nothing is written. A broker that does not lead the partition responds NOT_LEADER_OR_FOLLOWER, from version 10 on
with the leader and its address (KIP-951). acks=0 has no response; an error closes the connection. From version 13 on topics have ids.

Transactional records also need WRITE on the transactional id, and the coordinator must verify that the partition is part of the producer's
transaction. If it is not, the answer is INVALID_TXN_STATE, from version 11 on TRANSACTION_ABORTABLE. From version 12 on (KIP-890) a write
adds its partition. A producer that is no longer the id's gets INVALID_PRODUCER_EPOCH or INVALID_PRODUCER_ID_MAPPING. If the coordinator
cannot be reached, the answer is NOT_ENOUGH_REPLICAS.

With transaction.partition.verification.enable=false, records of versions before 12 are written without verification.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from uuid import UUID

from fencepost.broker_stub.cluster.current_leader import current_leader, endpoints
from fencepost.broker_stub.cluster.topics import INTERNAL, Topic
from fencepost.broker_stub.handlers.produce_checks import Unreadable, is_transactional, request_error
from fencepost.broker_stub.handlers.transactional_produce import Verification, verify_transaction
from fencepost.broker_stub.log.errors import AppendRefused
from fencepost.broker_stub.log.producer_append_info import Origin
from fencepost.broker_stub.replication.replica import Replica
from fencepost.broker_stub.requests.call import Call, Instead, Result
from fencepost.broker_stub.requests.delayed_produce import DelayedProduce, Pending
from fencepost.broker_stub.requests.router import handles
from fencepost.broker_stub.security.operations import Operation, Resource
from fencepost.producer.wire import (
    BatchIndexAndErrorMessage,
    ErrorCode,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)

BY_ID_SINCE = 13
LEADER_SINCE = 10
NO_ACKS, LEADER_ACKS, ALL_ACKS = 0, 1, -1
ADMIN_CLIENT = "__admin_client"

# With these the response's log start offset is unknown, as in Kafka's `ReplicaManager`.
_WITHOUT_START = (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE, ErrorCode.CORRUPT_MESSAGE)


@handles(ProduceRequest, range(3, 14), advertised_min=0, topic=Operation.WRITE)
def produce(call: Call, request: ProduceRequest) -> Result:
    try:
        transactional = any(is_transactional(data.records) for topic in request.topic_data for data in topic.partition_data)
    except Unreadable as error:
        responses = _all(request, partial(_failed, code=error.code, message=error.message))
    else:
        if not transactional:
            return _write(call, request, Verification())
        if _may_write_as(call, request.transactional_id):
            return _write_verified(call, request)
        responses = _all(request, partial(_failed, code=ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED))
    return _finish(call, request, responses, [])


def _write_verified(call: Call, request: ProduceRequest) -> Result:
    """Writes once the coordinator has answered."""
    written: list[Result] = []
    waits = False

    def go_on(verification: Verification) -> None:
        result = _write(call, request, verification)
        if not waits:
            written.append(result)
        elif result is not Instead.LATER:
            call.answer(result)

    verify_transaction(call, request, partial(call.topic_of, by_id_since=BY_ID_SINCE), go_on)
    waits = True
    return written[0] if written else Instead.LATER


def _write(call: Call, request: ProduceRequest, verification: Verification) -> Result:
    pending: list[Pending] = []
    if verification.of_all is not None:
        refusal = verification.of_all
        return _finish(call, request, _all(request, partial(_failed, code=refusal.code, message=refusal.message)), [])
    responses = [_topic(call, request.acks, topic, pending, verification) for topic in _merged(request.topic_data)]
    return _finish(call, request, responses, pending)


def _finish(call: Call, request: ProduceRequest, responses: list[TopicProduceResponse], pending: list[Pending]) -> Result:
    if request.acks == NO_ACKS:
        failed = any(each.error_code for topic in responses for each in topic.partition_responses)
        return Instead.CUT if failed else Instead.NOTHING
    response = ProduceResponse(responses=responses, node_endpoints=_new_leaders(call, responses))
    if request.acks == ALL_ACKS and pending:
        DelayedProduce(call, response, pending).start(request.timeout_ms)
        return Instead.LATER
    return response


def _may_write_as(call: Call, transactional_id: str | None) -> bool:
    return transactional_id is not None and call.may(Operation.WRITE, Resource.TRANSACTIONAL_ID, transactional_id)


def _all(request: ProduceRequest, failed: Callable[[int], PartitionProduceResponse]) -> list[TopicProduceResponse]:
    """The same result for every partition."""
    return [
        TopicProduceResponse(
            name=topic.name, topic_id=topic.topic_id, partition_responses=[failed(data.index) for data in topic.partition_data]
        )
        for topic in _merged(request.topic_data)
    ]


def _merged(topics: list[TopicProduceData]) -> list[TopicProduceData]:
    """Each partition once. The last batch counts, as in Kafka, whose response leaves out topics without partitions."""
    batches = {(topic.name, topic.topic_id, data.index): data for topic in topics for data in topic.partition_data}
    if len(batches) == sum(len(topic.partition_data) for topic in topics) and all(topic.partition_data for topic in topics):
        return topics
    merged: dict[tuple[str, UUID], list[PartitionProduceData]] = {}
    for (name, topic_id, _), data in batches.items():
        merged.setdefault((name, topic_id), []).append(data)
    return [TopicProduceData(name=name, topic_id=topic_id, partition_data=each) for (name, topic_id), each in merged.items()]


def _topic(call: Call, acks: int, asked: TopicProduceData, pending: list[Pending], verification: Verification) -> TopicProduceResponse:
    by_id = call.version >= BY_ID_SINCE
    topic = call.topic_of(asked, by_id_since=BY_ID_SINCE)
    unknown = ErrorCode.UNKNOWN_TOPIC_ID if by_id else call.topic_refusal(asked.name) or ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return TopicProduceResponse(
        name=asked.name,
        topic_id=asked.topic_id,
        partition_responses=[
            _serve(call, acks, topic, data, pending, verification) if topic is not None else _failed(data.index, unknown)
            for data in asked.partition_data
        ],
    )


def _serve(
    call: Call, acks: int, topic: Topic, data: PartitionProduceData, pending: list[Pending], verification: Verification
) -> PartitionProduceResponse:
    partition = topic.partition(data.index)
    code = call.error_for(topic.name, data.index)
    if not code and partition is None:
        code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    code = code or request_error(data.records, call.version)
    if not code and acks not in (NO_ACKS, LEADER_ACKS, ALL_ACKS):
        code = ErrorCode.INVALID_REQUIRED_ACKS
    if not code and topic.name in INTERNAL and call.client_id != ADMIN_CLIENT:
        code = ErrorCode.INVALID_TOPIC_EXCEPTION
    if code or partition is None:
        return _failed(data.index, code)
    replica = partition.on(call.broker.node_id)
    if replica is not None and replica.is_offline:
        return _failed(data.index, ErrorCode.KAFKA_STORAGE_ERROR)
    if replica is None or not replica.leads:
        leader = current_leader(call.image, partition) if call.version >= LEADER_SINCE else None
        return _failed(data.index, ErrorCode.NOT_LEADER_OR_FOLLOWER, leader=leader)
    refusal = verification.refusals.get((topic.name, data.index))
    if refusal is not None:
        call.cluster.counters.refused += 1
        return _failed(data.index, refusal.code, message=refusal.message)
    if acks == ALL_ACKS and len(replica.isr) < replica.min_isr:
        return _failed(data.index, ErrorCode.NOT_ENOUGH_REPLICAS, log_start_offset=replica.log.log_start_offset)
    return _append(call, replica, data, pending, verification.guards.get((topic.name, data.index)))


def _append(
    call: Call, replica: Replica, data: PartitionProduceData, pending: list[Pending], guard: int | None
) -> PartitionProduceResponse:
    """Appends the batch. One that an in-sync replica still lacks goes to `pending`."""
    counters = call.cluster.counters
    replica.expire_producers()
    records = data.records if isinstance(data.records, bytes | memoryview) else bytes(data.records or b"")
    try:
        result = replica.append(records, origin=Origin.CLIENT, request_version=call.version, guard=guard)
    except AppendRefused as refused:
        counters.refused += 1
        return PartitionProduceResponse(
            index=data.index,
            error_code=refused.code,
            base_offset=-1,
            log_start_offset=-1 if refused.code in _WITHOUT_START else replica.log.log_start_offset,
            record_errors=[
                BatchIndexAndErrorMessage(batch_index=index, batch_index_error_message=message) for index, message in refused.record_errors
            ],
            error_message=refused.message if refused.record_errors else None,
        )
    if result.duplicate:
        counters.duplicates += 1
    else:
        counters.appended += 1
        replica.tell_grown(result.size)
    answer = PartitionProduceResponse(
        index=data.index,
        base_offset=result.base_offset,
        log_append_time_ms=result.log_append_time_ms,
        log_start_offset=result.log_start_offset,
    )
    if result.last_offset >= replica.log.high_watermark:
        pending.append(Pending(replica, answer, result.last_offset + 1, replica.leader_epoch))
    return answer


def _failed(
    index: int, code: int, *, message: str | None = None, leader: LeaderIdAndEpoch | None = None, log_start_offset: int = -1
) -> PartitionProduceResponse:
    return PartitionProduceResponse(
        index=index,
        error_code=code,
        base_offset=-1,
        log_start_offset=log_start_offset,
        error_message=message,
        current_leader=leader if leader is not None else LeaderIdAndEpoch(),
    )


def _new_leaders(call: Call, responses: list[TopicProduceResponse]) -> list[NodeEndpoint]:
    return endpoints(call.cluster, (each.current_leader.leader_id for topic in responses for each in topic.partition_responses))
