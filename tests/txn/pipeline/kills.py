"""Pipelines over the flights in processes of their own, which are killed at random moments and started again.

The moments are drawn from a seed. Some come while a process starts, most while it processes. Afterwards a reader with read_committed must
find exactly one result of each flight.
"""

from __future__ import annotations

import os
import random
import time
from collections import Counter
from collections.abc import Callable
from typing import Final, NamedTuple

from fencepost.demo.flights import load_flights, row_of
from fencepost.producer import Producer
from tests.conformance.other_process import OtherProcess
from tests.conformance.survival.reader import Admin
from tests.reading import read_messages

PARTITIONS: Final = 6
EARLY: Final = 0.25
"""How many of the kills come while the process starts."""
STARTING_S: Final = 0.6
WORKING_S: Final = 1.0
BEGIN_TIMEOUT_S: Final = 10.0
"""How long a kill waits until the process has work. With several members one may have none: another member has done it."""
FULL: Final = os.environ.get("FENCEPOST_PIPELINE_KILLS") == "full"

WORKER: Final = """
import os, sys, time
from fencepost import Pipeline

bootstrap, source, sink, group, instance, pace, ends = sys.argv[1:]
seen = 0

def result(message):
    global seen
    if not seen:
        os.write(1, b"begun\\n")
    seen += 1
    if seen % int(pace) == 0:
        time.sleep(0.001)
    return b"%s,%d-%d" % (message.value().partition(b",")[0], message.partition(), message.offset())

pipeline = Pipeline(
    bootstrap_servers=bootstrap, source=source, sink=sink, group=group, instance=instance, transform=result, batch_size=2_000, batch_ms=50,
    consumer={"session.timeout.ms": 6000, "heartbeat.interval.ms": 500, "fetch.wait.max.ms": 50}, producer={"linger_ms": 0},
)
if ends == "yes":
    pipeline.run_until_idle(timeout=80)
    os.write(1, b"done\\n")
else:
    pipeline.run()
"""


class Found(NamedTuple):
    """What a campaign found. `early`: kills of processes that had not begun. `lost`, `doubled`: rows without a result, and with several."""

    rows: int
    kills: int
    early: int
    lost: int
    doubled: int
    strange: int
    aborted: int


def campaign(bootstrap: str, *, rows: int, kills: int, members: int, seed: int, say: Callable[[str], None]) -> Found:
    """Kill one of the members at a time and start it again, and count at the end."""
    drawn = random.Random(seed)
    name = f"kills-{seed}"
    source, sink = f"flights-{name}", f"results-{name}"
    admin = Admin(bootstrap)
    for topic in (source, sink):
        admin.create(topic, partitions=PARTITIONS)
    flights = load_flights(rows)
    with Producer(bootstrap_servers=bootstrap) as producer:
        sent = producer.send_many(source, [(flight.key, flight.value) for flight in flights])
        assert sent.result(120).acknowledged == rows
    # So slow that most kills find work: each life of a process lasts about a second.
    pace = max(1, rows // (kills * 700))

    def start(member: int, *, ends: bool = False) -> OtherProcess:
        return OtherProcess(
            WORKER, bootstrap, source, sink, name, f"m{member}", str(pace if not ends else rows + 1), "yes" if ends else "no"
        )

    running = [start(member) for member in range(members)]
    early = 0
    try:
        for _ in range(kills):
            member = drawn.randrange(members)
            if drawn.random() < EARLY:
                early += 1
                time.sleep(drawn.uniform(0, STARTING_S))
            else:
                running[member].has_line(BEGIN_TIMEOUT_S)
                time.sleep(drawn.uniform(0, WORKING_S))
            running[member].kill()
            running[member].__exit__(None, None, None)
            running[member] = start(member)
    finally:
        for each in running:
            each.__exit__(None, None, None)
    last = [start(member, ends=True) for member in range(members)]
    try:
        for each in last:
            assert each.rest()[-1:] == ["done"]
    finally:
        for each in last:
            each.__exit__(None, None, None)
    committed = [row_of(message.value() or b"") for message in read_messages(bootstrap, sink, range(PARTITIONS))]
    everything = read_messages(bootstrap, sink, range(PARTITIONS), isolation="read_uncommitted")
    counts = Counter(committed)
    found = Found(
        rows=rows,
        kills=kills,
        early=early,
        lost=sum(row not in counts for row in range(rows)),
        doubled=sum(count > 1 for count in counts.values()),
        strange=sum(not 0 <= row < rows for row in counts),
        aborted=len(everything) - len(committed),
    )
    say(f"{found} with seed {seed}, {members} member(s)")
    return found
