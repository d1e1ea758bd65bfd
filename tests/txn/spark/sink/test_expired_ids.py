"""A sink was idle for longer than the coordinator keeps transactional ids. No other driver took it over, so it goes on without help."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from fencepost.broker_stub import BrokerStub
from fencepost.txn.spark import SinkTakenOver
from tests.txn.spark.site import Site
from tests.txn.spark.skipping_clock import SkippingClock

EIGHT_DAYS_MS = 8 * 24 * 3_600_000
"""Kafka's transactional.id.expiration.ms is seven."""
KEYED = {"key": "value"}


@pytest.fixture(params=["3.9", None], ids=["Kafka 3.9", "TV2"])
def idle(request: pytest.FixtureRequest, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A site whose cluster's time can be put forward."""
    emulated = {"emulate": request.param} if request.param else {}
    with BrokerStub(clock=SkippingClock(), config={"log.retention.ms": -1}, **emulated) as stub:
        site = Site(spark, stub, tmp_path_factory.mktemp("idle"))
        try:
            yield site
        finally:
            site.close()


@pytest.mark.parametrize("guard", ["driver", "turns"])
def test_an_id_that_expired(idle: Site, guard: str) -> None:
    """The sink is taken over again, and as the ledger is what it was, the batch is written, once, also when that happens again."""
    writer = idle.by_hand(guard=guard)
    for batch in range(3):
        writer(idle.rows(f"a{batch}", f"b{batch}", **KEYED), idle.offsets(batch, f'{{"at":{batch}}}'))
        idle.stub.advance(EIGHT_DAYS_MS)
    assert idle.committed() == ["a0", "a1", "a2", "b0", "b1", "b2"]
    assert [each["ledger"] for each in writer.history] == ["committed"] * 3


def test_another_driver_that_came_after_that(idle: Site) -> None:
    """It has written since, as the ledger shows: the one that was idle says so, and leaves the sink to it."""
    old, new = idle.by_hand(), idle.by_hand()
    old(idle.rows("0"), idle.offsets(0))
    idle.stub.advance(EIGHT_DAYS_MS)
    new(idle.rows("1"), idle.offsets(1))
    with pytest.raises(SinkTakenOver, match="another driver has registered transactional id"):
        old(idle.rows("1"), 1)
    new(idle.rows("2"), idle.offsets(2))
    assert idle.committed() == ["0", "1", "2"]
