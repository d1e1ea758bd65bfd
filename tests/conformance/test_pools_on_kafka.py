"""Pools on Apache Kafka: parallel transactions, two pools with one instance, a process that was killed or cut off; all as on the stub."""

from __future__ import annotations

import asyncio
import secrets
from pathlib import Path

import pytest

from fencepost.txn.pool.async_pool import AsyncTransactionalPool
from tests.conformance.fixtures import kafka
from tests.conformance.kafka import KafkaCluster
from tests.conformance.survival.reader import Admin
from tests.producer.stub_helpers import run_story
from tests.reading import read_values
from tests.txn.pool.helpers import KINDS, Pool, pool_of, wrote
from tests.txn.pool.stories import is_cut_off_and_followed, is_killed_and_followed, share_an_instance

__all__ = ["kafka"]

pytestmark = pytest.mark.timeout(240)


@pytest.fixture
def topic(kafka: KafkaCluster) -> str:
    name = f"pool-{secrets.token_hex(4)}"
    Admin(kafka.bootstrap).create(name, partitions=1)
    return name


@pytest.mark.parametrize("kind", KINDS)
def test_parallel_transactions(kafka: KafkaCluster, topic: str, kind: type[Pool]) -> None:
    """None is lost, none is there twice."""

    async def story() -> None:
        async with pool_of(kind, kafka.bootstrap, transactional_id_prefix=topic, size=4, acquire_timeout_ms=60_000) as pool:
            await asyncio.gather(*[wrote(pool, b"%03d" % row, topic) for row in range(100)])
            assert pool.stats().committed == 100

    run_story(story())
    assert sorted(read_values(kafka.bootstrap, topic)) == [b"%03d" % row for row in range(100)]


def test_two_pools_with_one_instance(kafka: KafkaCluster, topic: str) -> None:
    """The newer one continues, and the older one says why it does not."""
    run_story(share_an_instance(AsyncTransactionalPool, kafka.bootstrap, topic, prefix=topic))
    assert read_values(kafka.bootstrap, topic) == [b"older", b"newer", b"newer", b"newer"]


def test_a_pool_that_was_cut_off(kafka: KafkaCluster, topic: str) -> None:
    """It does not fence the pool that has replaced it."""
    run_story(is_cut_off_and_followed(AsyncTransactionalPool, kafka.bootstrap, topic, prefix=topic))
    assert read_values(kafka.bootstrap, topic) == [b"newer"] * 2


@pytest.mark.parametrize("given", [True, False])
def test_what_a_killed_process_left_open(kafka: KafkaCluster, topic: str, given: bool, tmp_path: Path) -> None:
    """The next one aborts it at once: readers do not wait for the transaction's timeout."""
    settings = {"instance": "a"} if given else {"lock_directory": tmp_path}
    is_killed_and_followed(kafka.bootstrap, topic, prefix=topic, **settings)
    assert read_values(kafka.bootstrap, topic) == [b"after"]
