"""The transactional part of a Produce request: before the append, the leader asks the coordinator to verify or add the partitions.

It asks only about partitions that this broker leads and where the producer's transaction is not open yet. It appends nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct

from fencepost.broker_stub.cluster.producer_ids import Identity
from fencepost.broker_stub.cluster.topics import Topic
from fencepost.broker_stub.handlers.produce_checks import request_error
from fencepost.broker_stub.handlers.refusal import Refusal
from fencepost.broker_stub.log.errors import AppendRefused
from fencepost.broker_stub.requests.call import Call
from fencepost.producer.wire import ErrorCode, PartitionProduceData, ProduceRequest, TopicProduceData
from fencepost.producer.wire.records import BATCH_OVERHEAD, LOG_OVERHEAD, BatchHeader, read_header

ABORTABLE_SINCE, ADDS_SINCE = 11, 12
_LENGTH, _LENGTH_AT = Struct(">i"), 8
NOT_ADDED = "Partition was not added to the transaction"
TWO_PRODUCERS = "Transactional records contained more than one producer ID"
UNABLE = "Unable to verify the partition has been added to the transaction. Underlying error: {}"
# Retriable errors of a coordinator after which old clients would not retry. They get NOT_ENOUGH_REPLICAS instead.
_RETRIABLE = (
    ErrorCode.NETWORK_EXCEPTION,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
)


class Verification:
    """The result for each partition: why nothing is written there, or the guard of its batch."""

    __slots__ = ("guards", "of_all", "refusals")

    def __init__(self, of_all: Refusal | None = None) -> None:
        self.of_all = of_all  # why nothing of the request is written
        self.refusals: dict[tuple[str, int], Refusal] = {}
        self.guards: dict[tuple[str, int], int] = {}


def verify_transaction(
    call: Call, request: ProduceRequest, topic_of: Callable[[TopicProduceData], Topic | None], then: Callable[[Verification], None]
) -> None:
    """`then` gets the coordinator's result, at once if that is there at once."""
    from fencepost.broker_stub.transactions.verification import Mode, Question

    mode = Mode.of(call.version, abortable_since=ABORTABLE_SINCE, adds_since=ADDS_SINCE)
    verification = Verification()
    said: dict[tuple[str, int], BatchHeader | None] = {}  # of a partition that is named twice the last batch counts
    for asked in request.topic_data:
        topic = topic_of(asked)
        if topic is not None and not call.topic_refusal(topic.name):
            there = [data for data in asked.partition_data if topic.partition(data.index) is not None]
            said |= {(topic.name, data.index): _header(data, call.version) for data in there}
    headers = {place: header for place, header in said.items() if header is not None}
    identities = {Identity(header.producer_id, header.producer_epoch) for header in headers.values()}
    if len(identities) > 1:
        then(Verification(Refusal(ErrorCode.INVALID_PRODUCER_ID_MAPPING, TWO_PRODUCERS)))
        return
    for (name, index), header in headers.items():
        _, replica = call.find(name, index)
        if replica is None or not replica.leads or call.error_for(name, index):
            continue
        try:
            guard = replica.log.begin_verification(header.producer_id, header.producer_epoch, header.base_sequence, bumps=mode.adds)
        except AppendRefused as refused:
            verification.refusals[name, index] = Refusal(refused.code)
        else:
            if guard is not None:
                verification.guards[name, index] = guard
    if not verification.guards:
        then(verification)
        return

    def answered(codes: dict[tuple[str, int], int]) -> None:
        verification.refusals |= {each: _refusal(code, adds=mode.adds) for each, code in codes.items() if code}
        then(verification)

    (identity,) = identities
    question = Question(
        transactional_id=request.transactional_id or "", identity=identity, partitions=frozenset(verification.guards), mode=mode
    )
    call.verification.ask(call.broker.node_id, question, answered)


def _header(data: PartitionProduceData, version: int) -> BatchHeader | None:
    """The header of a transactional batch with a producer id. None for any other, and for invalid bytes."""
    if data.records is None or request_error(data.records, version):
        return None
    if len(data.records) < BATCH_OVERHEAD:
        return None  # the log refuses it
    head = bytearray(data.records[:BATCH_OVERHEAD])
    _LENGTH.pack_into(head, _LENGTH_AT, BATCH_OVERHEAD - LOG_OVERHEAD)  # so that a header with a wrong length can be read
    header = read_header(head)
    return header if header.is_transactional and header.producer_id >= 0 else None


def _refusal(code: int, *, adds: bool) -> Refusal:
    if code == ErrorCode.INVALID_TXN_STATE:
        return Refusal(code, NOT_ADDED)
    if code in _RETRIABLE or (code == ErrorCode.CONCURRENT_TRANSACTIONS and not adds):
        return Refusal(ErrorCode.NOT_ENOUGH_REPLICAS, UNABLE.format(ErrorCode(code).name))
    return Refusal(code)
