"""Jobs over the flights in processes of their own, which are killed at random moments and started again.

The moments are drawn from a seed. Some come while a process starts, most while it writes. Afterwards a reader with read_committed must find
each flight exactly once, and in the order of the source in each partition.
"""

from __future__ import annotations

import json
import os
import random
import sqlite3
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from fencepost.demo.flights import load_flights, row_of
from tests.conformance.other_process import OtherProcess
from tests.conformance.survival.reader import Admin
from tests.reading import read_messages
from tests.txn.jobs.pages_server import PagesServer

PARTITIONS: Final = 3
EARLY: Final = 0.25
"""How many of the kills come while the process starts."""
STARTING_S: Final = 0.6
WORKING_S: Final = 1.0
FULL: Final = os.environ.get("FENCEPOST_JOB_KILLS") == "full"
KINDS: Final = ("file", "database", "pages", "command")

WORKER: Final = """
import os, sqlite3, sys, time
from fencepost import DatabaseCursor, FileSource, HttpPages, Job

bootstrap, name, kind, place, topic, pace, ends = sys.argv[1:]
seen = 0

def slowly(item):
    global seen
    if not seen:
        os.write(1, b"begun\\n")
    seen += 1
    if seen % int(pace) == 0:
        time.sleep(0.001)
    value = item if isinstance(item, bytes) else item["value"].encode() if isinstance(item, dict) else item.encode()
    return value.split(b",")[3], value

sources = {
    "file": lambda: FileSource(place),
    "database": lambda: DatabaseCursor(
        lambda: sqlite3.connect(place), "SELECT id, value FROM flights WHERE id > ? ORDER BY id LIMIT 3000", key="id", start=-1
    ),
    "pages": lambda: HttpPages(lambda page: f"{place}?page={page or 0}", lambda page: (page["records"], page["next"])),
}
job = Job(
    name, sources[kind](), bootstrap_servers=bootstrap, topic=topic, transform=slowly, batch_size=2_000, batch_ms=50,
    producer={"linger_ms": 0},
)
job.run()
os.write(1, b"done\\n")
"""
COMMAND: Final = """
import os, sys, time
from fencepost.cli import main
from fencepost.txn.jobs.transactions import Transactions

bootstrap, name, kind, place, topic, pace, ends = sys.argv[1:]
finish, begun = Transactions.finish, []

async def slowly(self):
    if self.batch is not None and ends == "no":
        if not begun:
            os.write(1, b"begun\\n")
        begun.append(None)
        time.sleep(0.2)
    return await finish(self)

Transactions.finish = slowly
sys.argv = ["fencepost", "produce", "--job", name, "--bootstrap", bootstrap, "--topic", topic, "--quiet", place]
try:
    main()
except SystemExit as end:
    os.write(1, b"done\\n" if not end.code else b"failed\\n")
"""


class Found(NamedTuple):
    """What a campaign found. `early`: kills of processes that had not begun. `lost`, `doubled`: rows without a record, and with several.
    `out_of_order`: records before which a later one of the source is in the same partition. `aborted`: records of aborted transactions."""

    kind: str
    rows: int
    kills: int
    early: int
    lost: int
    doubled: int
    strange: int
    out_of_order: int
    aborted: int


@contextmanager
def source_of(kind: str, flights: list[bytes], directory: Path) -> Iterator[str]:
    """The place of a source that has the flights."""
    if kind in ("file", "command"):
        file = directory / "flights.txt"
        file.write_bytes(b"".join(each + b"\n" for each in flights))
        yield str(file)
    elif kind == "database":
        path = directory / "flights.db"
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.execute("CREATE TABLE flights (id INTEGER PRIMARY KEY, value TEXT)")
            connection.executemany("INSERT INTO flights VALUES (?, ?)", enumerate(each.decode() for each in flights))
        yield str(path)
    else:
        with PagesServer([each.decode() for each in flights], 3_000) as server:
            yield server.url


def campaign(bootstrap: str, kind: str, directory: Path, *, rows: int, kills: int, seed: int, say: Callable[[str], None]) -> Found:
    """Kill the process and start it again, and count at the end."""
    drawn = random.Random(seed)
    name = f"{kind}-kills-{seed}"
    Admin(bootstrap).create(name, partitions=PARTITIONS)
    # So slow that most kills find work: each life of a process lasts about a second.
    pace = max(1, rows // (kills * 700))
    early = 0
    with source_of(kind, [flight.value for flight in load_flights(rows)], directory) as place:

        def start(*, ends: bool = False) -> OtherProcess:
            program = COMMAND if kind == "command" else WORKER
            return OtherProcess(program, bootstrap, name, kind, place, name, str(rows + 1 if ends else pace), "yes" if ends else "no")

        running = start()
        try:
            for _ in range(kills):
                if drawn.random() < EARLY:
                    early += 1
                    time.sleep(drawn.uniform(0, STARTING_S))
                else:
                    running.line()
                    time.sleep(drawn.uniform(0, WORKING_S))
                running.kill()
                running.__exit__(None, None, None)
                running = start()
        finally:
            running.__exit__(None, None, None)
        with start(ends=True) as last:
            assert last.rest()[-1:] == ["done"]
    messages = read_messages(bootstrap, name, range(PARTITIONS))
    committed = [row_of(message.value() or b"") for message in messages]
    newest: dict[int | None, int] = {}
    out_of_order = 0
    for message, row in zip(messages, committed, strict=True):
        out_of_order += row < newest.get(message.partition(), -1)
        newest[message.partition()] = row
    counts = Counter(committed)
    found = Found(
        kind=kind,
        rows=rows,
        kills=kills,
        early=early,
        lost=sum(row not in counts for row in range(rows)),
        doubled=sum(count > 1 for count in counts.values()),
        strange=sum(not 0 <= row < rows for row in counts),
        out_of_order=out_of_order,
        aborted=len(read_messages(bootstrap, name, range(PARTITIONS), isolation="read_uncommitted")) - len(committed),
    )
    say(f"{json.dumps(found._asdict())} with seed {seed}")
    return found
