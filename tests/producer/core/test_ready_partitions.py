"""Partitions that share a connection are served in turn, also while one of them has many batches."""

from __future__ import annotations

import pytest

from tests.producer.core.harness import CoreHarness

PARTITIONS = 4
ROUNDS = 10


@pytest.mark.parametrize("busy", range(PARTITIONS))
def test_a_partition_that_is_written_to_all_the_time_keeps_its_place(busy: int) -> None:
    """Each request takes one batch, and each connection one request. One partition gets a new batch before each answer.

    Every partition is served in each round, the busy one too.
    """
    harness = CoreHarness(partitions=PARTITIONS, max_in_flight=1, max_request_size=1).introduce()
    for partition in range(PARTITIONS):
        harness.send(*[b"x"] * (2 * ROUNDS), partition=partition)
    served: list[int] = []
    for _ in range(ROUNDS * PARTITIONS):
        (flight,) = harness.produces()
        served += flight.blobs
        harness.send(b"more", partition=busy)
        harness.ack(flight)
    for begin in range(0, len(served), PARTITIONS):
        assert sorted(served[begin : begin + PARTITIONS]) == list(range(PARTITIONS)), served
