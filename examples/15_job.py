"""15: a job over a CSV file. The position in the file is committed with the records, so the program can be killed anywhere and run again.

The run is interrupted in the middle here; the second one continues at the row after the last committed one. docs/jobs.md explains the rest.
"""

import csv
import tempfile
from pathlib import Path
from typing import Any

from fencepost import BrokerStub, FileSource, Job, OutputRecord

FLIGHTS = 10_000


class PowerCut(BaseException):
    """The crash."""


def record_of(row: dict[str, Any], *, power_cut: bool = False) -> OutputRecord | None:
    if power_cut and row["number"] == "7500":
        raise PowerCut
    if row["cancelled"] == "yes":
        return None  # read, and left out
    return OutputRecord(key=row["plane"].encode(), value=row["number"].encode())


with BrokerStub(brokers=3) as broker, tempfile.TemporaryDirectory() as directory:
    broker.create_topic("flights", partitions=1)
    file = Path(directory) / "flights.csv"
    with file.open("w", newline="") as target:
        csv.writer(target).writerows(
            [["number", "plane", "cancelled"], *([n, f"N{n % 50}", "yes" if n % 100 == 0 else "no"] for n in range(FLIGHTS))]
        )

    try:
        Job(
            "flights",
            FileSource(file),
            bootstrap_servers=broker.bootstrap,
            topic="flights",
            transform=lambda row: record_of(row, power_cut=True),
            batch_size=1_000,
        ).run()
    except PowerCut:
        print(f"power cut; the reader sees {len(broker.records('flights', 0))} records")

    job = Job("flights", FileSource(file), bootstrap_servers=broker.bootstrap, topic="flights", transform=record_of)
    print(job.run())
    print("position:", job.position["files"][str(file)][:2])
    numbers = [int(record.value or b"") for record in broker.records("flights", 0)]
    assert numbers == [n for n in range(FLIGHTS) if n % 100]  # each once, in the order of the file
