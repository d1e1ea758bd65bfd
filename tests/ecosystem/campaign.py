"""Programs of other exactly-once libraries are killed and started again while records flow, and brokers restart meanwhile.

Each instance of a program runs in a process of its own. The moments are drawn from a seed. At the end a reader of committed records has
read the output to its end, with no transaction open.
"""

from __future__ import annotations

import itertools
import random
import signal
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Final, NamedTuple

from confluent_kafka import Consumer, IsolationLevel, Message, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._listoffsets import OffsetSpec

from tests.conformance.reaper import reaper
from tests.ecosystem.site import Site
from tests.ecosystem.sizes import FULL, INSTANCES, MISHAPS, PAUSE_S
from tests.reading import read_messages
from tests.waiting import until

LIMIT_S: Final = 120.0
FED: Final = 100
"""How many values are fed at once."""
DEATHS: Final = ("die", "replace")
"""An instance is killed. It starts again with its directory, as after a crash, or with a new one, as on another machine."""

Command = Callable[[Path], list[str]]
"""From an instance's directory to its command."""


class Told(NamedTuple):
    """What a campaign leaves. `aborted`: the records in the output that no reader of committed records is given."""

    output: list[Message]
    aborted: int


class Instance:
    """One of the processes of a program, with its directory."""

    def __init__(self, command: Command, directory: Path, number: int) -> None:
        self._command, self._parent, self._number = command, directory, number
        self._fresh = itertools.count(1)
        self._process: subprocess.Popen[bytes] | None = None
        self.log = directory / f"{number}.log"
        self._home = self._new_home()

    def start(self, *, fresh: bool = False) -> None:
        if fresh:
            self._home = self._new_home()
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command(self._home), stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
            )
        reaper.watch_group(self._process.pid)

    def check(self) -> None:
        """An AssertionError if it has ended by itself."""
        assert self._process is not None
        status = self._process.poll()
        assert status is None, f"instance {self._number} ended by itself with status {status}: {self.log.read_text()[-3000:]}"

    def end(self, how: signal.Signals) -> None:
        """Send it the signal and wait for its end."""
        process = self._process
        if process is None:
            return
        self._process = None
        process.send_signal(how)
        try:
            process.wait(LIMIT_S)
        finally:
            process.kill()
            process.wait()
            reaper.forget_group(process.pid)

    def _new_home(self) -> Path:
        home = self._parent / f"{self._number}.{next(self._fresh)}"
        home.mkdir()
        return home


class Output:
    """A topic, read committed while it grows."""

    def __init__(self, bootstrap: str, topic: str, partitions: int) -> None:
        self.topic = topic
        self._bootstrap, self._partitions = bootstrap, partitions
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "watcher",
                "isolation.level": "read_committed",
                "fetch.wait.max.ms": 50,
                "log_level": 0,
            }
        )
        self._consumer.assign([TopicPartition(topic, partition, 0) for partition in range(partitions)])
        self._values: set[bytes] = set()

    def distinct(self) -> int:
        """How many different values it has by now."""
        for message in self._consumer.consume(20_000, 0.3):
            if message.error() is None:
                self._values.add(message.value() or b"")
        return len(self._values)

    def read(self) -> list[Message]:
        """All of it, when no transaction is open in it."""
        admin = AdminClient({"bootstrap.servers": self._bootstrap, "log_level": 0})

        def ends(level: IsolationLevel) -> list[int]:
            latest = OffsetSpec.latest()  # type: ignore[no-untyped-call] # confluent-kafka gives it no types
            asked = {TopicPartition(self.topic, partition): latest for partition in range(self._partitions)}
            answers = admin.list_offsets(asked, isolation_level=level, request_timeout=LIMIT_S)
            return [answers[place].result().offset for place in asked]

        until(
            lambda: (ends(IsolationLevel.READ_COMMITTED), ends(IsolationLevel.READ_UNCOMMITTED)),
            f"the ends of {self.topic} with and without open transactions",
            good=lambda found: found[0] == found[1],
            timeout_s=LIMIT_S,
            pause_max_s=0.5,
        )
        return read_messages(self._bootstrap, self.topic, range(self._partitions))

    def aborted(self, committed: int) -> int:
        """How many records it has besides these committed ones."""
        return len(read_messages(self._bootstrap, self.topic, range(self._partitions), isolation="read_uncommitted")) - committed

    def close(self) -> None:
        self._consumer.close()


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
) -> Told:
    """Run the instances until the output has so many different values. `begin` is called until it has done its work, when the instances are
    starting. `feed` gives them their input, a hundred values at a time; the mishaps begin when the first of them are in the output."""
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
        feeder = stack.enter_context(ThreadPoolExecutor(1))
        stack.callback(stopped.set)
        running = [Instance(command, directory, number) for number in range(INSTANCES)]
        for each in running:
            stack.callback(each.end, signal.SIGKILL)
            each.start()

        def check() -> None:
            for each in running:
                each.check()

        def begun() -> bool:
            check()
            return begin()

        def progress() -> int:
            check()
            return reading.distinct()

        def reached(count: int) -> None:
            until(progress, f"{count} values in {output}, seed {seed}", good=lambda found: found >= count, timeout_s=LIMIT_S)

        until(begun, "the instances are at work", timeout_s=LIMIT_S, pause_max_s=0.5)
        feed(range(FED))
        reached(1)
        fed = feeder.submit(feed_all)
        for kind in drawn.choices(everything, k=MISHAPS) if FULL else DEATHS[:1]:
            time.sleep(drawn.uniform(0.2, 2))
            happened[kind] += 1
            if kind in DEATHS:
                victim = drawn.choice(running)
                victim.end(signal.SIGKILL)
                time.sleep(drawn.choice([0, drawn.uniform(0, 2)]) if FULL else 0)
                victim.start(fresh=kind == "replace")
            else:
                site.mishaps[kind](drawn)
        fed.result(LIMIT_S)
        reached(values)
        for each in running:
            each.end(signal.SIGTERM)
        found = reading.read()
        told = Told(found, reading.aborted(len(found)))
        print(f"{program} on {site.name}: {values} values, {dict(happened)}, {told.aborted} aborted records, seed {seed}", flush=True)
        return told
