"""Programs of other exactly-once libraries are killed and started again while records flow, and brokers restart meanwhile.

Each instance of a program runs in a process of its own. The moments are drawn from a seed. At the end a reader of committed records has
read the output to its end, with no transaction open.
"""

from __future__ import annotations

import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from operator import lt
from pathlib import Path
from typing import Final, NamedTuple

from confluent_kafka import Message

from tests.ecosystem.instance import Command, Instance
from tests.ecosystem.output import Output
from tests.ecosystem.site import Site
from tests.ecosystem.sizes import FULL, INSTANCES, MISHAPS, PAUSE_S
from tests.waiting import until

LIMIT_S: Final = 120.0
FED: Final = 100
"""How many values are fed at once."""
DEATHS: Final = ("die", "replace")
"""An instance is killed. It starts again with its directory, as after a crash, or with a new one, as on another machine."""


class Told(NamedTuple):
    """What a campaign leaves. `aborted`: the records in the output that no reader of committed records is given."""

    output: list[Message]
    aborted: int


def campaign(
    program: str,
    site: Site,
    command: Command,
    directory: Path,
    *,
    output: str,
    partitions: int,
    feed: Callable[[range], object],
    values: int,
    begin: Callable[[], bool] = lambda: True,
    supervised: bool = False,
) -> Told:
    """Run the instances until the output has so many different values. `begin` is called until it has done its work, when the instances are
    starting. `feed` gives them their input, a hundred values at a time; the mishaps begin when the first of them are in the output.

    With `supervised` an instance that ends by itself is started again; otherwise that is an error.
    """
    seed = random.SystemRandom().randrange(10**6)
    drawn = random.Random(seed)
    happened: Counter[str] = Counter()
    everything = (*DEATHS, *site.mishaps)
    stopped = threading.Event()

    def feed_all() -> None:
        for first in range(FED, values, FED):
            if stopped.wait(PAUSE_S):
                return
            feed(range(first, first + FED))

    with ExitStack() as stack:
        reading = Output(site.bootstrap, output, partitions)
        stack.callback(reading.close)
        feeding: list[Future[None]] = []
        feeder = stack.enter_context(ThreadPoolExecutor(1))
        stack.callback(stopped.set)
        running = [Instance(command, directory, number) for number in range(INSTANCES)]
        for each in running:
            stack.callback(each.end, signal.SIGKILL)
            each.start()

        def check() -> None:
            for each in running:
                if each.status is not None:
                    assert supervised, f"an instance ended by itself with status {each.status}, seed {seed}: {each.last_lines()}"
                    happened["ended by itself"] += 1
                    each.end(signal.SIGKILL)
                    each.start()

        def begun() -> bool:
            check()
            return begin()

        def progress() -> int:
            check()
            if feeding and feeding[0].done():
                feeding[0].result()
            return reading.distinct()

        def reached(count: int) -> None:
            """Wait for so many values. Their pace depends on the machine: only a pause of LIMIT_S is an error."""
            known = 0
            while known < count:
                what = f"more than {known} values of {output}, seed {seed}, after {dict(happened)}"
                try:
                    known = until(progress, what, good=partial(lt, known), timeout_s=LIMIT_S)
                except TimeoutError as late:
                    raise TimeoutError("\n".join([str(late), *(each.errors() for each in running)])) from None

        until(begun, "the instances are at work", timeout_s=LIMIT_S, pause_max_s=0.5)
        feed(range(FED))
        reached(1)
        feeding.append(feeder.submit(feed_all))
        for kind in drawn.choices(everything, k=MISHAPS) if FULL else DEATHS[:1]:
            time.sleep(drawn.uniform(0.2, 2))
            check()
            happened[kind] += 1
            if kind in DEATHS:
                victim = drawn.choice(running)
                victim.end(signal.SIGKILL)
                time.sleep(drawn.choice([0, drawn.uniform(0, 2)]) if FULL else 0)
                victim.start(fresh=kind == "replace")
            else:
                site.mishaps[kind](drawn)
        reached(values)
        for each in running:
            each.end(signal.SIGTERM)
        found = reading.read()
        told = Told(found, reading.aborted(len(found)))
        print(f"{program} on {site.name}: {values} values, {dict(happened)}, {told.aborted} aborted records, seed {seed}", flush=True)
        return told
