"""The guard `kafka-claims` under failures: lost replies, missing brokers and topics. These tests need no Spark."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fencepost.broker_stub import BrokerStub
from fencepost.producer.config.reader import read_settings
from fencepost.producer.wire import Api, ErrorCode
from fencepost.producer.wire.codecs.codec import Codec
from fencepost.producer.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from fencepost.producer.wire.records.record_batch import encode_batch
from fencepost.txn.protocol.ask_now import ask_now
from fencepost.txn.protocol.cluster_client import ClusterClient
from fencepost.txn.spark.connection.secrets import KafkaSettings
from fencepost.txn.spark.errors import AttemptConflict, GuardUnavailable
from fencepost.txn.spark.guards.claims_topic import CLAIM_BYTES_MAX, RETENTION_MS
from fencepost.txn.spark.guards.guards import agree
from fencepost.txn.spark.guards.kafka_claims import KafkaClaims
from fencepost.txn.spark.rows.task_summary import DONE, Summary

TOPIC = "claims"
WAIT_S = 30.0


@pytest.fixture
def stub() -> Iterator[BrokerStub]:
    with BrokerStub(brokers=2) as stub:
        yield stub


def claims_of(stub: BrokerStub, timeout_s: float = WAIT_S, transaction_timeout_ms: int = 60_000) -> KafkaClaims:
    kafka = KafkaSettings.of(
        {"bootstrap_servers": stub.bootstrap, "retry_backoff_ms": 5, "request_timeout_ms": 2000, "transaction.timeout.ms": 9000}
    )
    return KafkaClaims(kafka, topic=TOPIC, timeout_s=timeout_s, transaction_timeout_ms=transaction_timeout_ms)


def test_no_transaction_outlives_its_claims(stub: BrokerStub) -> None:
    """The guard refuses a transaction timeout above the topic's retention, because claims could be gone before the driver reads them."""
    claims_of(stub, transaction_timeout_ms=RETENTION_MS)
    with pytest.raises(GuardUnavailable, match=f"transaction_timeout_ms={RETENTION_MS + 1}: .* at most {RETENTION_MS} ms"):
        claims_of(stub, transaction_timeout_ms=RETENTION_MS + 1)


def test_a_lost_reply_does_not_lose_the_task(stub: BrokerStub) -> None:
    """If the reply to a claim is lost, the task writes the claim again, and recognises the first one as its own."""
    claims = claims_of(stub)
    claim_client = claims.begin(1)
    stub.faults.on(Api.PRODUCE).after_append().times(1).drop()
    claim_client.claim(0, 7)
    assert len(stub.journal.requests(Api.PRODUCE)) == 2
    assert claims.registry() == {0: 7}


def test_refusals_that_pass_are_waited_for(stub: BrokerStub) -> None:
    """If the leader moves or lacks replicas for a moment, the task repeats the request under the same identity."""
    claims = claims_of(stub)
    claim_client = claims.begin(1)
    stub.faults.on(Api.PRODUCE).times(1).error(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    stub.faults.on(Api.PRODUCE).after_append().times(1).error(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)
    claim_client.claim(0, 7)
    assert claims.registry() == {0: 7}


def test_a_topic_made_anew_taints_the_batch(stub: BrokerStub) -> None:
    """With the topic its claims are deleted, so a second attempt could get the task. The driver does not commit."""
    claims = claims_of(stub)
    claim_client = claims.begin(1)
    claim_client.claim(0, 7)
    stub.delete_topic(TOPIC)
    stub.create_topic(TOPIC, partitions=1)
    claim_client.claim(0, 8)
    with pytest.raises(AttemptConflict, match="was created again"):
        claims.registry()


def test_without_permission_the_guard_says_what_it_needs(stub: BrokerStub) -> None:
    """A missing permission fails at once, without a retry."""
    stub.faults.on(Api.INIT_PRODUCER_ID).forever().error(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    with pytest.raises(GuardUnavailable, match=r"needs DESCRIBE, READ and WRITE on topic 'claims'.*CLUSTER_AUTHORIZATION_FAILED"):
        claims_of(stub).begin(1)


def test_brokers_that_are_gone_taint_the_batch(stub: BrokerStub) -> None:
    """If no broker can say which attempt has a task, no attempt gets it. Every call ends."""
    claims = claims_of(stub, timeout_s=1.0)
    claims.begin(1)
    stub.faults.on(Api.LIST_OFFSETS).forever().error(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    with pytest.raises(AttemptConflict, match="cannot read from topic 'claims' which attempt owns each task"):
        claims.registry()


@pytest.mark.parametrize("codec", Codec)
def test_a_batch_that_is_larger_than_any_claim(stub: BrokerStub, codec: Codec) -> None:
    """Any principal that may write into the topic can guess the identity of claims.

    A record batch under that identity with more than one claim fails the Spark batch. The reader does not decompress it.
    """
    claims = claims_of(stub)
    claim_client = claims.begin(1)
    ((producer_id, epoch),) = claim_client.identities
    many = 20_000
    produce(stub, encode_batch([(0, None, None)] * many, producer_id=producer_id, producer_epoch=epoch, base_sequence=0, codec=codec))
    with pytest.raises(AttemptConflict, match=f"{TOPIC}-0 has something else than a claim at offset 0: {many} records, where at most 1"):
        claims.registry()


@pytest.mark.parametrize("codec", Codec)
def test_a_claim_that_is_too_large(stub: BrokerStub, codec: Codec) -> None:
    """A record under the identity of claims that is larger than a claim fails the Spark batch. The reader does not decompress it."""
    claims = claims_of(stub)
    claim_client = claims.begin(1)
    ((producer_id, epoch),) = claim_client.identities
    batch = encode_batch([(0, None, bytes(500_000))], producer_id=producer_id, producer_epoch=epoch, base_sequence=0, codec=codec)
    produce(stub, batch)
    with pytest.raises(AttemptConflict, match=f"at offset 0: .*more than {CLAIM_BYTES_MAX} bytes"):
        claims.registry()


def test_what_is_no_claim(stub: BrokerStub) -> None:
    """The error says that a record is not a claim. The record decides nothing."""
    claims = claims_of(stub)
    claim_client = claims.begin(1)
    ((producer_id, epoch),) = claim_client.identities
    produce(stub, encode_batch([(0, None, b"rubbish")], producer_id=producer_id, producer_epoch=epoch, base_sequence=0))
    with pytest.raises(AttemptConflict, match="something else than a claim at offset 0"):
        claims.registry()
    with pytest.raises(AttemptConflict, match="something else than a claim at offset 0"):
        claim_client.claim(0, 7)


def produce(stub: BrokerStub, batch: bytes) -> None:
    """Write these bytes into the first partition of the claims."""

    async def run() -> None:
        async with ClusterClient(read_settings({"bootstrap_servers": stub.bootstrap})) as client:
            await client.metadata([TOPIC])
            data = TopicProduceData(name=TOPIC, partition_data=[PartitionProduceData(index=0, records=batch)])
            answer = await client.ask(stub.leader(TOPIC, 0), ProduceRequest(acks=-1, timeout_ms=9000, topic_data=[data]), range(3, 13))
            assert answer.responses[0].partition_responses[0].error_code == 0

    ask_now(run)


@pytest.mark.parametrize("registry", [{0: 1}, {0: 1, 1: 3}, {0: 1, 1: 2, 2: 3}])
def test_winners_and_delivered_attempts_have_to_agree(registry: dict[int, int]) -> None:
    """The driver commits none of these: an attempt without a claim, a delivered attempt other than the claiming one, a missing attempt."""
    done = [Summary(kind=DONE, task=0, attempt_id=1), Summary(kind=DONE, task=1, attempt_id=2)]
    agree({0: 1, 1: 2}, done)
    with pytest.raises(AttemptConflict, match="belongs to attempt"):
        agree(registry, done)
