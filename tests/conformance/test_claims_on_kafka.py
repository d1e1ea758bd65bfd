"""The guard `kafka-claims` on Apache Kafka and on the stub: two attempts of one task have one identity, and the broker says which came
first.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Iterator

import pytest

from fencepost.broker_stub import BrokerStub
from fencepost.txn.spark.connection.secrets import KafkaSettings
from fencepost.txn.spark.errors import AttemptConflict
from fencepost.txn.spark.guards.claims_topic import PARTITIONS
from fencepost.txn.spark.guards.kafka_claims import KafkaClaims
from tests.conformance.kafka import KafkaCluster

WAIT_S = 60.0
RACERS = 6


@pytest.fixture(params=["stub", "kafka"])
def claims(request: pytest.FixtureRequest) -> Iterator[KafkaClaims]:
    if request.param == "kafka":
        kafka: KafkaCluster = request.getfixturevalue("kafka")
        yield claims_of(kafka.bootstrap)
    else:
        with BrokerStub() as stub:
            yield claims_of(stub.bootstrap)


def claims_of(bootstrap: str) -> KafkaClaims:
    return KafkaClaims(
        KafkaSettings.of({"bootstrap_servers": bootstrap}),
        topic=f"claims-{secrets.token_hex(4)}",
        timeout_s=WAIT_S,
        transaction_timeout_ms=60_000,
    )


def test_a_task_belongs_to_the_attempt_that_came_first(claims: KafkaClaims) -> None:
    """The second attempt gets the name of the first one. The first may ask again, and the driver finds the same.

    A new attempt to write begins without claims. Tasks that share a partition do not disturb each other.
    """
    claim_client = claims.begin(PARTITIONS + 2)
    claim_client.claim(0, 11)
    claim_client.claim(PARTITIONS, 12)
    with pytest.raises(AttemptConflict, match="attempt 13 may not write: task 0 belongs to attempt 11"):
        claim_client.claim(0, 13)
    claim_client.claim(0, 11)
    claim_client.claim(1, 13)
    assert claims.registry() == {0: 11, PARTITIONS: 12, 1: 13}
    again = claims.begin(2)
    assert claims.registry() == {}
    again.claim(0, 13)
    with pytest.raises(AttemptConflict, match="belongs to attempt 11"):
        claim_client.claim(0, 14)
    assert claims.registry() == {0: 13}


def test_of_many_at_once_one_wins(claims: KafkaClaims) -> None:
    """Of many attempts that claim at the same moment one may write, and the driver finds that one."""
    claim_client = claims.begin(1)
    won: list[int] = []
    lost: list[AttemptConflict] = []
    ready = threading.Barrier(RACERS)

    def race(attempt: int) -> None:
        ready.wait(WAIT_S)
        try:
            claim_client.claim(0, attempt)
            won.append(attempt)
        except AttemptConflict as error:
            lost.append(error)

    racers = [threading.Thread(target=race, args=(attempt,)) for attempt in range(RACERS)]
    for racer in racers:
        racer.start()
    for racer in racers:
        racer.join(WAIT_S)
    assert len(won) == 1
    assert len(lost) == RACERS - 1
    assert claims.registry() == {0: won[0]}
