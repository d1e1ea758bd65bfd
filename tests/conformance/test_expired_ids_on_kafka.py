"""A transactional id that expired, on Apache Kafka: its producer continues under another producer id, unless another producer has
registered.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fencepost.cli.options import ask_within
from fencepost.producer.config.reader import read_settings
from fencepost.producer.errors import Fenced
from fencepost.producer.wire.codes import ErrorCode
from fencepost.txn.errors import MustAbort
from fencepost.txn.protocol.describe import describe_transaction
from tests.conformance.fixtures import require_kafka
from tests.conformance.kafka import KafkaCluster
from tests.conformance.txn_site import WAIT_S, Site, new_site
from tests.drawn import drawn
from tests.once import once_is_enough
from tests.waiting import until

pytestmark = [pytest.mark.timeout(300), once_is_enough("asks Kafka itself")]

FORGETFUL = {"transactional.id.expiration.ms": 3_000, "transaction.remove.expired.transaction.cleanup.interval.ms": 500}


@pytest.fixture(scope="module", params=[0, 2], ids=["tv1", "tv2"])
def forgetful(request: pytest.FixtureRequest) -> Iterator[KafkaCluster]:
    require_kafka()
    with KafkaCluster(features={"transaction.version": request.param}, config=FORGETFUL) as cluster:
        yield cluster


def forget(site: Site) -> None:
    settings = read_settings({"bootstrap_servers": site.bootstrap})
    until(
        lambda: ask_within(lambda client: describe_transaction(client, site.name), settings, WAIT_S) is None,
        "the coordinator has forgotten the id",
        timeout_s=WAIT_S,
        pause_max_s=0.5,
    )


@drawn(2)
def test_an_id_that_expired(forgetful: KafkaCluster) -> None:
    """The next transaction must be aborted, and the error says why. The one after it commits. No error says that the producer is fenced."""
    site = new_site(forgetful)
    with site.producer() as producer:
        with producer.transaction(WAIT_S) as tx:
            tx.send(site.topic, b"first", partition=0)
        forget(site)
        tx = producer.begin(WAIT_S)
        tx.send(site.topic, b"late", partition=0)
        with pytest.raises(MustAbort, match="the transactional id expired") as spoilt:
            tx.commit(WAIT_S)
        assert spoilt.value.code == ErrorCode.INVALID_PRODUCER_ID_MAPPING
        tx.abort(WAIT_S)
        with producer.transaction(WAIT_S) as tx:
            tx.send(site.topic, b"second", partition=0)
    until(site.committed, "what was committed", good=lambda found: found == [b"first", b"second"], timeout_s=WAIT_S)


@drawn(2)
def test_an_expired_id_that_another_producer_has_registered_since(forgetful: KafkaCluster) -> None:
    """The first producer is fenced when it returns. The later one continues."""
    site = new_site(forgetful)
    with site.producer() as old, site.producer() as new:
        with old.transaction(WAIT_S) as tx:
            tx.send(site.topic, b"old", partition=0)
        forget(site)
        with new.transaction(WAIT_S) as later:
            later.send(site.topic, b"new", partition=0)
            later.send(site.topic, b"new").result(WAIT_S)
            tx = old.begin(WAIT_S)
            tx.send(site.topic, b"late", partition=0)
            with pytest.raises(MustAbort):
                tx.commit(WAIT_S)
            tx.abort(WAIT_S)
            with pytest.raises(Fenced):
                old.begin(WAIT_S)
            later.send(site.topic, b"newest", partition=0)
    until(site.committed, "what was committed", good=lambda found: found == [b"new", b"new", b"newest", b"old"], timeout_s=WAIT_S)
