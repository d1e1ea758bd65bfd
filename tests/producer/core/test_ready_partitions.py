"""Whose turn it is: partitions that share a link are served one after the other, however busy one of them is."""

from __future__ import annotations

import pytest

from tests.producer.core.harness import Desk

PARTITIONS = 4
ROUNDS = 10


@pytest.mark.parametrize("busy", range(PARTITIONS))
def test_a_partition_that_is_written_to_all_the_time_keeps_its_place(busy: int) -> None:
    """A request takes one batch and the link one request. Every partition has batches waiting, and one gets another before each answer:
    each is served in each round, that one too."""
    desk = Desk(partitions=PARTITIONS, max_in_flight=1, max_request_size=1).introduce()
    for partition in range(PARTITIONS):
        desk.send(*[b"x"] * (2 * ROUNDS), partition=partition)
    served: list[int] = []
    for _ in range(ROUNDS * PARTITIONS):
        (flight,) = desk.produces()
        served += flight.blobs
        desk.send(b"more", partition=busy)
        desk.ack(flight)
    for begin in range(0, len(served), PARTITIONS):
        assert sorted(served[begin : begin + PARTITIONS]) == list(range(PARTITIONS)), served
