"""Members of one group join, leave and die without a word, and the topic gets partitions, while records flow.

Each member is a stock consumer in a process of its own. It writes into a file what it owns in which generation (group protocol classic) or
member epoch (consumer), and which offsets it was given, before it commits them. The moments are drawn from a seed. Afterwards each record
must be in one of the files, and no partition may have two owners in one generation.
"""

from __future__ import annotations

import itertools
import json
import random
import signal
import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from confluent_kafka import Consumer, TopicPartition

from fencepost.producer import Producer
from tests.conformance.survival.reader import Admin, end_offsets
from tests.waiting import until

LIMIT_S: Final = 90.0
PARTITIONS: Final = 4
MEMBERS_MAX: Final = 4
SESSION_MS: Final = 6_000
"""The shortest that a broker takes by default."""
BROKER_CONFIG: Final = {
    "group.consumer.session.timeout.ms": str(SESSION_MS),
    "group.consumer.min.session.timeout.ms": str(SESSION_MS),
    "group.consumer.heartbeat.interval.ms": "500",
    "group.consumer.min.heartbeat.interval.ms": "500",
}
"""For the protocol `consumer`, where the brokers decide about sessions."""
CLASSIC: Final[dict[str, object]] = {"session.timeout.ms": SESSION_MS, "heartbeat.interval.ms": 500, "max.poll.interval.ms": SESSION_MS}
CONFIGS: Final[dict[str, dict[str, object]]] = {
    "classic": {**CLASSIC, "partition.assignment.strategy": "range"},
    "cooperative": {**CLASSIC, "partition.assignment.strategy": "cooperative-sticky"},
    "consumer": {"group.protocol": "consumer"},
}
EVENTS: Final = ("join", "join", "die", "die", "leave", "grow")

MEMBER: Final = """
import json, signal, sys
from confluent_kafka import Consumer, KafkaException
from fencepost.txn.group_metadata import read_group

bootstrap, topic, group, config, file = sys.argv[1:]
stopped = []
signal.signal(signal.SIGTERM, lambda *_: stopped.append(True))
consumer = Consumer({
    "bootstrap.servers": bootstrap, "group.id": group, "auto.offset.reset": "earliest", "enable.auto.commit": False,
    "topic.metadata.refresh.interval.ms": 500, "log_level": 0, **json.loads(config),
})
consumer.subscribe([topic])
with open(file, "a", buffering=1) as out:
    before, uncommitted = None, False
    while not stopped:
        messages = [each for each in consumer.consume(200, 0.1) if each.error() is None]
        member = read_group(consumer.consumer_group_metadata())
        owned = sorted(each.partition for each in consumer.assignment())
        places = [(each.partition(), each.offset()) for each in messages]
        if (member.generation_id, owned) != before or places:
            before = member.generation_id, owned
            out.write(json.dumps([member.generation_id, member.member_id, owned, places]) + "\\n")
        uncommitted = uncommitted or bool(messages)
        if uncommitted:
            try:
                consumer.commit(asynchronous=False)
                uncommitted = False
            except KafkaException:
                pass  # The group moves on: it tries again, or another member reads them again.
consumer.close()
"""


class Found(NamedTuple):
    """What a campaign found. `unread`: records that no member was given. `shared`: a generation, a partition, and its several owners."""

    records: int
    partitions: int
    events: dict[str, int]
    generations: int
    unread: int
    again: int
    shared: list[tuple[int, int, list[str]]]


class Members:
    """The processes of a group."""

    def __init__(self, bootstrap: str, topic: str, group: str, config: dict[str, object], directory: Path) -> None:
        self._arguments = (bootstrap, topic, group, json.dumps(config))
        self._directory = directory
        self._names = itertools.count(1)
        self.running: list[tuple[subprocess.Popen[bytes], Path]] = []

    def join(self) -> None:
        file = self._directory / f"member-{next(self._names)}"
        self.running.append((subprocess.Popen([sys.executable, "-c", MEMBER, *self._arguments, str(file)]), file))

    def all_have_joined(self) -> bool:
        """Whether each of those that run has been in a generation. A process may take seconds to start."""
        return all(
            file.exists() and any(line[:2] not in ("[0", "[-") for line in file.read_text().splitlines()) for _, file in self.running
        )

    def end(self, place: int, how: signal.Signals) -> None:
        process, _ = self.running.pop(place)
        process.send_signal(how)
        # SIGTERM kills a process that is still starting.
        assert process.wait(LIMIT_S) in (-how, 0)

    def close(self) -> None:
        for process, _ in self.running:
            process.kill()
            process.wait(LIMIT_S)


def campaign(
    bootstrap: str, protocol: str, directory: Path, *, records: int, events: int, replicas: int, seed: int, say: Callable[[str], None]
) -> Found:
    """Let so many records flow while so many things happen, and count at the end."""
    drawn = random.Random(seed)
    name = f"flow-{protocol}-{seed}"
    say(f"{name}: {records} records, {events} events, seed {seed}")
    admin = Admin(bootstrap)
    admin.create(name, partitions=PARTITIONS, replicas=replicas)
    partitions = PARTITIONS
    happened: defaultdict[str, int] = defaultdict(int)
    with ExitStack() as stack:
        members = Members(bootstrap, name, name, CONFIGS[protocol], directory)
        stack.callback(members.close)
        members.join()
        until(members.all_have_joined, "the first member has joined", timeout_s=LIMIT_S)
        written = stack.enter_context(flow(bootstrap, name, records, pause_s=0.02))
        for _ in range(events):
            time.sleep(drawn.uniform(0.2, 2.5))
            event = drawn.choice(EVENTS)
            match event:
                case "join" if len(members.running) < MEMBERS_MAX:
                    members.join()
                case "die" | "leave" if members.running:
                    members.end(drawn.randrange(len(members.running)), signal.SIGKILL if event == "die" else signal.SIGTERM)
                case "grow":
                    partitions += 1
                    admin.grow(name, partitions)
                    written.partitions = partitions
                case _:
                    continue
            happened[event] += 1
        if not members.running:
            members.join()
        until(members.all_have_joined, "all members have joined", timeout_s=LIMIT_S)
        written.wait()
        asking = Consumer({"bootstrap.servers": bootstrap, "group.id": name, "log_level": 0})
        stack.callback(asking.close)
        until(
            lambda: behind(asking, name),
            "how many records are not committed",
            good=lambda left: left == 0,
            timeout_s=LIMIT_S,
            pause_max_s=0.5,
        )
        offsets = {partition: last for partition, (_, last) in end_offsets(asking, name).items()}
        while members.running:
            members.end(0, signal.SIGTERM)
    found = counted(directory, offsets, happened)
    say(f"{name}: {found}")
    return found


class Flow:
    """Sends the records in small lists, dealt to the partitions that there are at the time."""

    def __init__(self, bootstrap: str, topic: str, records: int, pause_s: float) -> None:
        self.partitions = PARTITIONS
        self._bootstrap, self._topic, self._records, self._pause_s = bootstrap, topic, records, pause_s
        self._stopped = threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            with Producer(bootstrap_servers=self._bootstrap, metadata_max_age_ms=500) as producer:
                for first in range(0, self._records, 100):
                    if self._stopped.wait(self._pause_s):
                        return
                    rows = [b"%d" % row for row in range(first, min(first + 100, self._records))]
                    partition = first // 100 % self.partitions
                    if partition >= len(producer.partitions_for(self._topic)):
                        partition = 0  # It has not heard of the new partition yet.
                    producer.send_many(self._topic, rows, partition=partition).result(LIMIT_S)
        except BaseException as error:  # noqa: BLE001 - `wait` raises it
            self._error = error

    def wait(self) -> None:
        """Until all are acknowledged."""
        self._thread.join(LIMIT_S)
        assert not self._thread.is_alive()
        if self._error is not None:
            raise self._error

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join(LIMIT_S)


@contextmanager
def flow(bootstrap: str, topic: str, records: int, *, pause_s: float) -> Iterator[Flow]:
    """A `Flow` that ends with the block."""
    made = Flow(bootstrap, topic, records, pause_s)
    try:
        yield made
    finally:
        made.stop()


def behind(consumer: Consumer, topic: str) -> int:
    """How many records the consumer's group has not committed."""
    ends = end_offsets(consumer, topic)
    committed = consumer.committed([TopicPartition(topic, partition) for partition in ends], timeout=LIMIT_S)
    return sum(ends[place.partition][1] - max(0, place.offset) for place in committed)


def counted(directory: Path, offsets: dict[int, int], events: dict[str, int]) -> Found:
    """Read the files of the members."""
    owners: defaultdict[tuple[int, int], set[str]] = defaultdict(set)
    read: defaultdict[tuple[int, int], int] = defaultdict(int)
    for file in directory.iterdir():
        for line in file.read_text().splitlines(keepends=True):
            if not line.endswith("\n"):
                continue  # It was killed while it wrote.
            generation, member, owned, places = json.loads(line)
            if generation > 0:
                for partition in owned:
                    owners[generation, partition].add(member)
            for partition, offset in places:
                read[partition, offset] += 1
    everything = {(partition, offset) for partition, end in offsets.items() for offset in range(end)}
    return Found(
        records=len(everything),
        partitions=len(offsets),
        events=dict(events),
        generations=len({generation for generation, _ in owners}),
        unread=len(everything - read.keys()),
        again=sum(count - 1 for count in read.values()),
        shared=[(*key, sorted(found)) for key, found in sorted(owners.items()) if len(found) > 1],
    )
