"""Three brokers, min.insync.replicas=2, and any one of them killed at any moment of a long idempotent send: what acks=all keeps, and what
acks=1 loses. The stub and Apache Kafka give the same.

A sample by default. `make million` sends a million records in each run (FENCEPOST_MILLION), and prints a table. FENCEPOST_MILLION_SEED
repeats the choices of an earlier run.
"""

from __future__ import annotations

import os
import random
import secrets
from collections.abc import Iterator
from typing import Any, Final

import pytest

from fencepost.producer import Producer
from tests.conformance.survival.crashes import HEADING, CrashRun, Outcome
from tests.conformance.survival.reader import Admin, read_topic
from tests.conformance.survival.three_brokers import NODES, Crash, ThreeBrokers, on_kafka, on_stub
from tests.drawn import drawn
from tests.waiting import until

ROWS: Final = int(os.environ.get("FENCEPOST_MILLION", "0"))
SEED: Final = int(os.environ.get("FENCEPOST_MILLION_SEED") or random.SystemRandom().randrange(10**6))
CRASHES: Final = {"stub": 60, "Kafka": 15}
FEW_ROWS: Final = {"stub": 6_000, "Kafka": 6_000}
FEW_CRASHES: Final = {"stub": 6, "Kafka": 1}
DOWN_MAX_S: Final = {"stub": 0.3, "Kafka": 5.0 if ROWS else 1.0}
WAIT_S: Final = 120.0

PATIENT: Final[dict[str, Any]] = {"delivery_timeout_ms": 600_000}
# Shorter than an outage, so that deliveries fail, and the producer has to say where the records are. The small buffer is sent in less time.
IMPATIENT: Final[dict[str, dict[str, Any]]] = {
    "stub": {"delivery_timeout_ms": 200, "resolve_grace_ms": 100, "buffer_memory": 256 * 1024},
    "Kafka": {"delivery_timeout_ms": 2_500, "resolve_grace_ms": 1_000, "buffer_memory": 1 << 20},
}
COMMON: Final[dict[str, dict[str, Any]]] = {
    "stub": {"request_timeout_ms": 100, "retry_backoff_ms": 5, "retry_backoff_max_ms": 50, "linger_ms": 1},
    "Kafka": {"request_timeout_ms": 1_500},
}
SHARED: Final[dict[str, Any]] = {
    "batch_size": 16 * 1024,
    "buffer_memory": 4 << 20,
    "max_block_ms": 300_000,
    "reconnect_backoff_ms": 5,
    "reconnect_backoff_max_ms": 100,
}

pytestmark = pytest.mark.timeout(3600 if ROWS else 300)


@pytest.fixture(scope="module", params=["stub", "Kafka"])
def place(request: pytest.FixtureRequest) -> Iterator[ThreeBrokers]:
    """Brokers for short stories."""
    with on_stub() if request.param == "stub" else on_kafka(links=True) as place:
        yield place


@drawn(2, kind=lambda row: row["place"])
@pytest.mark.parametrize("producer", ["patient", "impatient"])
def test_no_acknowledged_record_is_lost_or_doubled(place: ThreeBrokers, producer: str) -> None:
    """Each acknowledged record is once at its offset, in order. What the error of a failed record says is true."""
    outcome = crashes(place, producer, rows=FEW_ROWS[place.name], number=FEW_CRASHES[place.name])
    assert outcome.faults() == dict.fromkeys(outcome.faults(), 0), outcome.row()


@pytest.mark.skipif(not ROWS, reason="`make million` takes minutes")
@pytest.mark.parametrize("producer", ["patient", "impatient"])
@pytest.mark.parametrize("where", ["stub", "Kafka"])
def test_no_record_of_a_million_is_lost_or_doubled(where: str, producer: str) -> None:
    """The same with many records and crashes."""
    # On the stub the ISR of an isolated leader shrinks at once, or never.
    lag_max_ms = "200" if producer == "impatient" else "30000"
    with on_stub(**{"replica.lag.time.max.ms": lag_max_ms}) if where == "stub" else on_kafka() as place:
        outcome = crashes(place, producer, rows=ROWS, number=CRASHES[where])
    assert outcome.faults() == dict.fromkeys(outcome.faults(), 0), outcome.row()
    assert outcome.ledger.acked + outcome.ledger.failed == ROWS
    assert (outcome.ledger.failed == 0) == (producer == "patient")
    assert outcome.of_leaders > 0
    assert sum(count > 0 for count in outcome.under_way) > len(outcome.under_way) // 2, "the crashes came while nothing was under way"


def crashes(place: ThreeBrokers, producer: str, *, rows: int, number: int) -> Outcome:
    settings = {**SHARED, **COMMON[place.name], **(PATIENT if producer == "patient" else IMPATIENT[place.name])}
    run = CrashRun(
        place,
        f"crashes-{secrets.token_hex(4)}",
        rows=rows,
        crashes=number,
        down_max_s=DOWN_MAX_S[place.name],
        seed=SEED,
        **settings,
    )
    outcome = run.run(producer)
    print(f"\n{HEADING}\n{outcome.row()}", flush=True)
    return outcome


LOST: Final = """
acknowledged by all: kept @0
acknowledged by the leader alone: lost @1
acknowledged by the next leader: instead @1
in the log: kept @0
in the log: instead @1
"""


def test_acks_1_loses_what_only_the_leader_has(place: ThreeBrokers) -> None:
    """A record that no follower has is gone with its leader, although acks=1 acknowledged it. The next leader gives its offset to another
    record, also when the old leader is back."""
    topic, admin = f"alone-{secrets.token_hex(4)}", Admin(place.bootstrap)
    admin.create(topic, replicas=len(NODES), config={"min.insync.replicas": "2"})
    until(lambda: admin.in_sync(topic)[0][1] == len(NODES), "all in sync", timeout_s=WAIT_S)
    old = admin.in_sync(topic)[0][0]
    told = [f"acknowledged by all: {write(place, topic, 'kept', acks='all')}"]
    assert place.isolate is not None
    place.isolate(old)
    told.append(f"acknowledged by the leader alone: {write(place, topic, 'lost', acks=1)}")
    place.crash(old, Crash.KILL)
    place.reconnect()
    until(lambda: admin.in_sync(topic)[0][0] not in (old, -1), "another leader", timeout_s=WAIT_S)
    told.append(f"acknowledged by the next leader: {write(place, topic, 'instead', acks='all')}")
    place.start(old)
    until(lambda: admin.in_sync(topic)[0][1] == len(NODES), "all in sync", timeout_s=WAIT_S)
    told += [f"in the log: {(each.value() or b'').decode()} @{each.offset()}" for each in read_topic(place.bootstrap, topic)]
    assert told == LOST.strip().split("\n")


def write(place: ThreeBrokers, topic: str, value: str, *, acks: Any) -> str:
    """Send one record, and return where it is."""
    with Producer(bootstrap_servers=place.bootstrap, acks=acks) as producer:
        return f"{value} @{producer.send(topic, value.encode()).result(WAIT_S).offset}"
