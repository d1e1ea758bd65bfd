"""A record of one key in a transaction of its own, because nothing else counts: a tombstone, or another entry.

It is written under the id of the key's writer. The registration under that id ends the open transaction of the writer, so the writer cannot
add an entry after it. It uses transaction version 1, which every broker understands.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Final

from fencepost.producer.wire import InitProducerIdResponse, PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from fencepost.producer.wire.codes import Api, ErrorCode
from fencepost.producer.wire.messages.add_to_txn import AddPartitionsToTxnResponse
from fencepost.producer.wire.messages.end_txn import EndTxnResponse
from fencepost.producer.wire.records.record_batch import encode_batch
from fencepost.txn.keyed_topic.topic import find_topic
from fencepost.txn.protocol.cluster_client import ClusterClient, Deadline, Unanswered, refuse, the_one
from fencepost.txn.protocol.requests import ADD_VERSIONS, END_VERSIONS, add_request, end_request, init_request, init_versions

PRODUCE_VERSIONS: Final = range(3, 12)
"""Versions of Produce with batches of format v2 and topic names, with which the leader does not add the partition."""
ALL: Final = -1
PRODUCE_TIMEOUT_MS: Final = 15_000
TRANSACTION_TIMEOUT_MS: Final = 60_000

Identity = tuple[int, int]


class OwnTransaction:
    """This value of a key (None: its deletion), in these partitions, under this transactional id."""

    def __init__(
        self, client: ClusterClient, topic: str, key: bytes, value: bytes | None, places: Sequence[int], transactional_id: str
    ) -> None:
        self._client = client
        self._topic = topic
        self._key = key
        self._value = value
        self._places = places
        self._id = transactional_id

    async def write(self, deadline: Deadline) -> None:
        """Commit it, and wait for the markers. Raises Unanswered at the deadline, NotPermitted."""
        again = self._client.again
        identity = await again(self._register, deadline)
        await again(lambda: self._add(identity), deadline)
        now_ms = int(time.time() * 1000)
        for partition in self._places:
            batch = encode_batch(
                [(now_ms, self._key, self._value)], producer_id=identity[0], producer_epoch=identity[1], base_sequence=0, transactional=True
            )
            await again(lambda to=partition, batch=batch: self._produce(to, batch), deadline)  # type: ignore[misc]  # it takes what it is bound to
        await again(lambda: self._commit(identity), deadline)
        # No producer can register before the markers are written.
        await again(self._register, deadline)

    async def _register(self) -> Identity:
        request = init_request(self._id, TRANSACTION_TIMEOUT_MS, None)
        answer: InitProducerIdResponse = await self._client.ask_coordinator(self._id, request, init_versions(renewing=False))
        self._refuse(Api.INIT_PRODUCER_ID, answer.error_code)
        return answer.producer_id, answer.producer_epoch

    async def _add(self, identity: Identity) -> None:
        request = add_request(self._id, identity, [(self._topic, partition) for partition in self._places])
        answer: AddPartitionsToTxnResponse = await self._client.ask_coordinator(self._id, request, ADD_VERSIONS)
        for topic in answer.results_by_topic_v3_and_below:
            for each in topic.results_by_partition:
                self._refuse(Api.ADD_PARTITIONS_TO_TXN, each.partition_error_code)

    async def _produce(self, partition: int, batch: bytes) -> None:
        name = f"{self._topic}-{partition}"
        leader = (await find_topic(self._client, self._topic) or {}).get(partition, -1)
        if leader < 0:
            raise Unanswered(f"{name} has no leader at the moment")
        data = TopicProduceData(name=self._topic, partition_data=[PartitionProduceData(index=partition, records=batch)])
        request = ProduceRequest(transactional_id=self._id, acks=ALL, timeout_ms=PRODUCE_TIMEOUT_MS, topic_data=[data])
        answer: ProduceResponse = await self._client.ask(leader, request, PRODUCE_VERSIONS)
        code = the_one(the_one(answer.responses, name).partition_responses, name).error_code
        if code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise Unanswered(f"{name} is not known to its leader at the moment")
        if code != ErrorCode.DUPLICATE_SEQUENCE_NUMBER:
            refuse(Api.PRODUCE, code, name)

    async def _commit(self, identity: Identity) -> None:
        request = end_request(self._id, identity, committed=True)
        answer: EndTxnResponse = await self._client.ask_coordinator(self._id, request, END_VERSIONS[False])
        self._refuse(Api.END_TXN, answer.error_code)

    def _refuse(self, api: Api, code: int) -> None:
        if code in (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE):
            self._client.forget(self._id)
        refuse(api, code, f"transactional id {self._id!r}")
