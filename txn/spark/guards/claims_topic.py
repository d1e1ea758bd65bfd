"""The claims topic, through a cluster client: new producer ids, a claim that is written and read back, and all claims of a batch.

Each question is repeated until its deadline. `kafka_claims` decides which attempt has a task.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar
from uuid import UUID

import msgspec
from msgspec import Struct

from fencepost.producer.wire.codecs.codec import CorruptBatch
from fencepost.producer.wire.codes import Api, ErrorCode
from fencepost.producer.wire.errors import NO_JSON
from fencepost.producer.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from fencepost.producer.wire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from fencepost.producer.wire.records.batch_header import BatchHeader, iter_batches
from fencepost.producer.wire.records.record_batch import encode_batch, read_records
from fencepost.txn.errors import NotPermitted
from fencepost.txn.protocol.cluster_client import ClusterClient, Deadline, Unanswered, refuse, the_one
from fencepost.txn.protocol.create_topic import create_topic
from fencepost.txn.protocol.own_topics import POLICY, policy_of
from fencepost.txn.recovery.raw_log import LATEST, fetch, offset_of
from fencepost.txn.spark.errors import AttemptConflict, GuardUnavailable

log = logging.getLogger("fencepost.spark")

PARTITIONS: Final = 32
RETENTION_MS: Final = 4 * 60 * 60 * 1000
"""How long a topic that is created here keeps claims: four hours, as short as hosted clusters allow. No transaction may be open for
longer."""
CONFIGS: Final = {"cleanup.policy": "delete", "retention.ms": str(RETENTION_MS), "segment.ms": str(RETENTION_MS)}

INIT_VERSIONS: Final = range(6)
PRODUCE_VERSIONS: Final = range(3, 13)
"""Versions with topic names."""
PRODUCE_TIMEOUT_MS: Final = 10_000
ALL: Final = -1
BYTES: Final = 1024 * 1024
CLAIM_BYTES_MAX: Final = 4096
"""The limit of a claim's decompressed batch. A claim has some 50 bytes."""

T = TypeVar("T")
Identity = tuple[int, int]


class KafkaClaim(Struct, frozen=True):
    """The value of a record. `task`: the claimed Spark task, or the route of a claimed partition. `claimant`: the Spark task that claims a
    route."""

    task: int
    attempt_id: int
    claimant: int = -1


class Place(Struct, frozen=True):
    """A partition at some time: its end, and its topic's id, which a later topic of the same name does not have."""

    topic_id: UUID
    end: int


class ClaimsTopic:
    """See the module. Raises Unanswered at the deadline, NotPermitted, and AttemptConflict if the topic lost claims."""

    def __init__(self, client: ClusterClient, topic: str, deadline: Deadline) -> None:
        self._client = client
        self._topic = topic
        self._deadline = deadline
        self._looking = asyncio.Lock()
        self._leaders: dict[int, int] | None = None
        self._topic_id: UUID | None = None

    async def ensure(self) -> int:
        """The number of its partitions; the topic is created if it is missing. Raises GuardUnavailable for a topic that cannot hold
        claims."""

        async def look() -> int:
            leaders = await self._look()
            if leaders is None:
                await create_topic(self._client, self._topic, PARTITIONS, CONFIGS)
            if not leaders or min(leaders.values()) < 0:
                raise Unanswered(f"topic {self._topic!r} does not have all its leaders yet")
            return len(leaders)

        partitions = await self._again(look)
        await self._again(self._check_policy)
        return partitions

    async def identity(self) -> Identity:
        """A new producer id, and its epoch."""

        async def ask() -> Identity:
            answer: InitProducerIdResponse = await self._client.ask_any(InitProducerIdRequest(transactional_id=None), INIT_VERSIONS)
            refuse(Api.INIT_PRODUCER_ID, answer.error_code, "a producer id for claims")
            return answer.producer_id, answer.producer_epoch

        return await self._again(ask)

    async def place(self, partition: int) -> Place:
        """The partition's present state."""

        async def ask() -> Place:
            leader = await self._leader(partition)
            said = await offset_of(self._client, leader, (self._topic, partition), LATEST)
            self._refuse(Api.LIST_OFFSETS, said.error_code)
            assert self._topic_id is not None
            return Place(self._topic_id, said.offset)

        return await self._again(ask)

    async def claim(self, partition: int, identity: Identity, claim: KafkaClaim) -> KafkaClaim:
        """Write a claim as the identity's first record in the partition. Returns the claim that is there: this one, or an earlier one."""
        value = msgspec.json.encode(claim)
        batch = encode_batch([(int(time.time() * 1000), None, value)], producer_id=identity[0], producer_epoch=identity[1], base_sequence=0)
        data = TopicProduceData(name=self._topic, partition_data=[PartitionProduceData(index=partition, records=batch)])
        request = ProduceRequest(acks=ALL, timeout_ms=PRODUCE_TIMEOUT_MS, topic_data=[data])

        async def write() -> int:
            answer: ProduceResponse = await self._client.ask(await self._leader(partition), request, PRODUCE_VERSIONS)
            place = f"{self._topic}-{partition}"
            said = the_one(the_one(answer.responses, place).partition_responses, place)
            self._refuse(Api.PRODUCE, said.error_code)
            return said.base_offset

        offset = await self._again(write)
        found = await self.claims(partition, {identity[0]}, offset, offset + 1)
        if len(found) != 1:
            raise AttemptConflict(f"{self._topic}-{partition}: offset {offset} has no claim, although the broker returned this offset")
        return found[0]

    async def claims(self, partition: int, producers: set[int], start: int, end: int) -> list[KafkaClaim]:
        """The claims of these producers among the records from `start` to before `end`."""
        found: list[KafkaClaim] = []
        position = start
        while position < end:
            for header, batch in await self._again(lambda at=position: self._fetch(partition, at)):  # type: ignore[misc]
                if header.base_offset >= end:
                    return found
                if header.producer_id in producers and not header.is_control and header.last_offset >= position:
                    found.append(self._read(partition, header, batch))
                position = max(position, header.last_offset + 1)
        return found

    # -- small print -----------------------------------------------------------------------------------------------------------

    def _read(self, partition: int, header: BatchHeader, batch: memoryview) -> KafkaClaim:
        """The one claim of a batch. Other records under the identity of claims are ignored."""
        try:
            (record,) = read_records(batch, limit=CLAIM_BYTES_MAX, records_max=1, with_headers=False)
            return msgspec.json.decode(record.value or b"", type=KafkaClaim)
        except (CorruptBatch, *NO_JSON, ValueError) as error:
            raise AttemptConflict(
                f"{self._topic}-{partition} has something else than a claim at offset {header.base_offset}: {error}"
            ) from None

    async def _check_policy(self) -> None:
        try:
            policy, kept = await policy_of(self._client, self._topic)
        except NotPermitted as error:
            log.debug("topic %s: this client may not read its %s: %s", self._topic, POLICY, error)
            return
        if "compact" in kept:
            raise GuardUnavailable(
                f"guard 'kafka-claims': topic {self._topic!r} has {POLICY}={policy}, and compacted topics take no records without a key:"
                f" set {POLICY}=delete for it, or have another with claims_topic="
            )

    async def _fetch(self, partition: int, offset: int) -> list[tuple[BatchHeader, memoryview]]:
        data = await fetch(self._client, await self._leader(partition), (self._topic, partition), offset, bytes_max=BYTES)
        if data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            raise AttemptConflict(f"{self._topic}-{partition} lost its record at offset {offset} while tasks were claimed")
        self._refuse(Api.FETCH, data.error_code)
        try:
            batches = list(iter_batches(data.records or b""))
        except CorruptBatch as error:
            raise Unanswered(f"{self._topic}-{partition} has a batch that cannot be read: {error}") from None
        if not batches:
            raise Unanswered(f"{self._topic}-{partition} does not show offset {offset} yet")
        return batches

    async def _again(self, ask: Callable[[], Awaitable[T]]) -> T:
        """Unanswered requests are repeated to the present leaders."""

        async def once() -> T:
            try:
                return await ask()
            except Unanswered:
                self._leaders = None
                raise

        return await self._client.again(once, self._deadline)

    async def _leader(self, partition: int) -> int:
        async with self._looking:
            leaders = self._leaders or await self._look()
        leader = (leaders or {}).get(partition, -1)
        if leader < 0:
            raise Unanswered(f"{self._topic}-{partition} has no leader at the moment")
        return leader

    async def _look(self) -> dict[int, int] | None:
        """The leader of each partition, -1 without one; None if the topic is missing."""
        said = the_one((await self._client.metadata([self._topic])).topics, f"topic {self._topic!r}")
        if said.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            return None
        self._refuse(Api.METADATA, said.error_code)
        self._topic_id = said.topic_id
        self._leaders = {each.partition_index: each.leader_id for each in said.partitions}
        return self._leaders

    def _refuse(self, api: Api, code: int) -> None:
        """As `refuse`. A broker that does not know the topic is asked again, because the topic may be new."""
        if code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise Unanswered(f"topic {self._topic!r} is not known to every broker")
        refuse(api, code, f"topic {self._topic!r}")
