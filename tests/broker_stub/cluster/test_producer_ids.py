"""Producer ids are unique in a cluster."""

from __future__ import annotations

from fencepost.broker_stub.cluster.producer_ids import ProducerIds


def test_no_producer_id_is_given_twice() -> None:
    """Every request gets another id."""
    ids = ProducerIds()
    assert len({ids.fresh() for _ in range(100)}) == 100
