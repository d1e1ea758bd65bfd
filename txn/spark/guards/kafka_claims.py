"""Both ends of the guard `kafka-claims`: each Spark task belongs to the attempt whose record Kafka took first.

The driver gets a new producer id from Kafka. A task writes its attempt as record 0 of that producer, to the claims partition of its number.
A second attempt writes under the same identity and sequence. The broker takes its record for a repeat, and answers with the offset of the
first one's record (KIP-98): the record there names the attempt that has the task. Executors need not reach the driver.

The guard relies on the claims topic as transactions rely on theirs: if acknowledged records are lost (unclean leader election), claims are
lost.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, TypeVar

from msgspec import Struct

from fencepost.producer.config.reader import read_settings
from fencepost.producer.foundations.counted import counted
from fencepost.txn.errors import NotPermitted
from fencepost.txn.protocol.ask_now import ask_client
from fencepost.txn.protocol.cluster_client import Deadline, Unanswered
from fencepost.txn.spark.connection.secrets import KafkaSettings
from fencepost.txn.spark.errors import AttemptConflict, GuardUnavailable
from fencepost.txn.spark.guards.claims_topic import RETENTION_MS, ClaimsTopic, Identity, KafkaClaim, Place

CLAIM_TIMEOUT_S: Final = 20.0

T = TypeVar("T")


class ClaimClient(Struct, frozen=True):
    """What a task gets, to claim with. `identities`: new producer ids and epochs; task t has that of t // `partitions`, because there may
    be more tasks than partitions."""

    kafka: KafkaSettings
    topic: str
    identities: tuple[Identity, ...]
    partitions: int

    def claim(self, task: int, attempt_id: int) -> None:
        """Raises AttemptConflict if another attempt has the task, or Kafka does not say which attempt has it."""
        ours = KafkaClaim(task, attempt_id)
        (winner,) = self.claim_all([ours])
        if winner != ours:
            raise AttemptConflict(f"task attempt {attempt_id} may not write: task {winner.task} belongs to attempt {winner.attempt_id}")

    def claim_all(self, claims: Sequence[KafkaClaim]) -> list[KafkaClaim]:
        """Claim several at once. Returns the claims that are there, of this attempt or others. Raises AttemptConflict if Kafka does not
        say."""

        async def ask(topic: ClaimsTopic) -> list[KafkaClaim]:
            places = [self.place(each.task) for each in claims]
            return await asyncio.gather(
                *(topic.claim(partition, identity, each) for (identity, partition), each in zip(places, claims, strict=True))
            )

        try:
            return _asked(self.kafka, self.topic, CLAIM_TIMEOUT_S, ask)
        except (Unanswered, NotPermitted) as error:
            raise AttemptConflict(f"task attempt {claims[0].attempt_id} may not write, as nothing can be claimed: {error}") from error

    def place(self, task: int) -> tuple[Identity, int]:
        """The identity and the partition of a task."""
        identity, partition = divmod(task, self.partitions)
        return self.identities[identity], partition

    def __repr__(self) -> str:
        producer_ids = [producer_id for producer_id, _ in self.identities]
        return f"ClaimClient({self.topic}, {counted(self.partitions, 'partition')}, producers {producer_ids})"


class KafkaClaims:
    """The driver's end, for one attempt to write a batch after another. It keeps no connection. `places`: where this attempt's claims
    begin. Raises GuardUnavailable if a transaction may be open for longer than the topic keeps claims."""

    def __init__(self, kafka: KafkaSettings, *, topic: str, timeout_s: float, transaction_timeout_ms: int) -> None:
        if transaction_timeout_ms > RETENTION_MS:
            raise GuardUnavailable(
                f"transaction_timeout_ms={transaction_timeout_ms}: guard 'kafka-claims' allows at most {RETENTION_MS} ms, because its topic"
                " keeps claims for so long: set a lower timeout, or another guard"
            )
        self._kafka = kafka
        self._topic = topic
        self._timeout_s = timeout_s
        self._claim_client: ClaimClient | None = None
        self.places: dict[int, Place] = {}

    def begin(self, tasks: int) -> ClaimClient:
        """A new attempt to write a batch: nothing is claimed, and claims of earlier attempts do not count. Raises GuardUnavailable."""

        async def ask(topic: ClaimsTopic) -> tuple[ClaimClient, dict[int, Place]]:
            partitions = await topic.ensure()
            identities = [await topic.identity() for _ in range(-(-tasks // partitions))]
            used = range(min(tasks, partitions))
            places = await asyncio.gather(*(topic.place(each) for each in used))
            return ClaimClient(self._kafka, self._topic, tuple(identities), partitions), dict(zip(used, places, strict=True))

        try:
            self._claim_client, self.places = _asked(self._kafka, self._topic, self._timeout_s, ask)
        except Unanswered as error:
            raise AttemptConflict(f"topic {self._topic!r} cannot be reached for claims: {error}") from error
        except NotPermitted as error:
            raise GuardUnavailable(
                f"guard 'kafka-claims' needs DESCRIBE, READ and WRITE on topic {self._topic!r}, CREATE where it is not there, and the right"
                f" to write idempotently: {error}"
            ) from error
        return self._claim_client

    def registry(self) -> dict[int, int]:
        """The attempt that has each claimed task, as the log says. Raises AttemptConflict if the log is not clear."""
        assert self._claim_client is not None
        return winners_of(self._claim_client, self.places, self._timeout_s)


def winners_of(claim_client: ClaimClient, places: Mapping[int, Place], timeout_s: float) -> dict[int, int]:
    """The attempt that has each claimed task, as the log says from these places on. Raises AttemptConflict if the log is not clear."""
    producers = {producer_id for producer_id, _ in claim_client.identities}

    async def of_partition(topic: ClaimsTopic, partition: int, before: Place) -> list[KafkaClaim]:
        now = await topic.place(partition)
        if now.topic_id != before.topic_id or now.end < before.end:
            raise AttemptConflict(f"topic {claim_client.topic!r} was created again, or lost records, while tasks were claimed")
        return await topic.claims(partition, producers, before.end, now.end)

    async def ask(topic: ClaimsTopic) -> list[KafkaClaim]:
        found = await asyncio.gather(*(of_partition(topic, *place) for place in places.items()))
        return [each for claims in found for each in claims]

    try:
        claims = _asked(claim_client.kafka, claim_client.topic, timeout_s, ask)
    except (Unanswered, NotPermitted) as error:
        raise AttemptConflict(f"cannot read from topic {claim_client.topic!r} which attempt owns each task: {error}") from error
    registry: dict[int, int] = {}
    for each in claims:
        owner = registry.setdefault(each.task, each.attempt_id)
        if owner != each.attempt_id:
            raise AttemptConflict(f"topic {claim_client.topic!r} has task {each.task} for attempt {owner} and for {each.attempt_id}")
    return registry


def _asked(kafka: KafkaSettings, topic: str, limit_s: float, ask: Callable[[ClaimsTopic], Awaitable[T]]) -> T:
    """Over connections of this call's own."""
    return ask_client(read_settings(kafka.resolve()), lambda client: ask(ClaimsTopic(client, topic, Deadline(limit_s))))
