"""The tombstone that makes the ledger forget a sink: one idempotent record outside of any transaction, which counts at once.

Idempotent, because a repeated request that came late could delete an entry that is written after it was acknowledged.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Final

from producer.wire.codes import Api, ErrorCode
from producer.wire.messages import (
    InitProducerIdRequest,
    InitProducerIdResponse,
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from producer.wire.record_batch import encode_batch
from txn.envoy import Deadline, Envoy, Unanswered, refuse
from txn.ledger_topic import find_topic

PRODUCE_VERSIONS: Final = range(3, 13)
"""Those with batches of format v2 in which topics go by their names."""
ALL: Final = -1
PRODUCE_TIMEOUT_MS: Final = 15_000


async def write_tombstones(envoy: Envoy, topic: str, key: bytes, partitions: Iterable[int], deadline: Deadline) -> None:
    """One for the key in each of these partitions, acknowledged by all in-sync replicas."""
    producer_id, epoch = await envoy.again(lambda: _identity(envoy), deadline)
    now_ms = int(time.time() * 1000)
    for partition in partitions:
        batch = encode_batch([(now_ms, key, None)], producer_id=producer_id, producer_epoch=epoch, base_sequence=0)
        await envoy.again(lambda to=partition, batch=batch: _produce(envoy, topic, to, batch), deadline)  # type: ignore[misc]  # it takes what it is bound to


async def _identity(envoy: Envoy) -> tuple[int, int]:
    answer: InitProducerIdResponse = await envoy.ask_any(InitProducerIdRequest(transactional_id=None), range(6))
    refuse(Api.INIT_PRODUCER_ID, answer.error_code, "a tombstone in the ledger")
    return answer.producer_id, answer.producer_epoch


async def _produce(envoy: Envoy, topic: str, partition: int, batch: bytes) -> None:
    name = f"{topic}-{partition}"
    leader = (await find_topic(envoy, topic) or {}).get(partition, -1)
    if leader < 0:
        raise Unanswered(f"{name} has no leader at the moment")
    data = TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=partition, records=batch)])
    request = ProduceRequest(transactional_id=None, acks=ALL, timeout_ms=PRODUCE_TIMEOUT_MS, topic_data=[data])
    answer: ProduceResponse = await envoy.ask(leader, request, PRODUCE_VERSIONS)
    code = answer.responses[0].partition_responses[0].error_code
    if code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        raise Unanswered(f"{name} is not known to its leader at the moment")
    if code != ErrorCode.DUPLICATE_SEQUENCE_NUMBER:
        refuse(Api.PRODUCE, code, name)
