"""What the applications with a store read and must write, in Java and in Python alike: numbers, and each number with the count and the sum
of its key."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Final

from fencepost.producer import Producer
from tests.ecosystem.campaign import FED, LIMIT_S, campaign
from tests.ecosystem.instance import Command
from tests.ecosystem.site import Site
from tests.ecosystem.sizes import FULL, VALUES

KEYS: Final = 7


PARTITIONS: Final = 4
SOURCE, TARGET = "numbers", "totals"


def totals_hold(program: str, site: Site, command: Command, directory: Path, *, supervised: bool = False) -> dict[str, str]:
    """Each number is counted once, with the total that all before it led to. Return the last total of each key."""
    site.create(SOURCE, PARTITIONS)
    site.create(TARGET, PARTITIONS)
    with Producer(bootstrap_servers=site.bootstrap) as producer:

        def feed(numbers: range) -> None:
            values = [b"%d" % number for number in numbers]
            producer.send_many(SOURCE, values, partition=numbers.start // FED % PARTITIONS).result(LIMIT_S)

        told = campaign(
            program, site, command, directory, output=TARGET, partitions=PARTITIONS, feed=feed, values=VALUES, supervised=supervised
        )
    totals: defaultdict[str, list[list[int]]] = defaultdict(list)
    for message in told.output:
        totals[(message.key() or b"").decode()].append([int(word) for word in (message.value() or b"").split(b",")])
    for key in range(KEYS):
        found = totals[str(key)]
        assert sorted(number for number, _, _ in found) == [*range(key, VALUES, KEYS)]
        so_far = 0
        for place, (number, count, total) in enumerate(found, 1):
            so_far += number
            assert (count, total) == (place, so_far)
    assert len(totals) == KEYS
    if FULL:
        assert told.aborted > 0, "no mishap came in an open transaction"
    return {key: f"{found[-1][1]},{found[-1][2]}" for key, found in totals.items()}
