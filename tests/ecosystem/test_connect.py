"""Kafka Connect with `exactly.once.source.support` works on the stub as on Apache Kafka: each line of a file becomes one record, while
workers are killed and brokers restart."""

from __future__ import annotations

import json
import urllib.request
from pathlib import Path
from typing import Final

import pytest

from tests.conformance.fixtures import require, require_kafka
from tests.conformance.kafka import HOST, free_ports
from tests.conformance.kafka_home import kafka_home
from tests.ecosystem.campaign import campaign
from tests.ecosystem.java_programs import ARTIFACTS, java_command
from tests.ecosystem.site import SESSION_MS, SITES, Site
from tests.ecosystem.sizes import BROKERS, FULL, VALUES, one_of_all
from tests.reading import read_messages

FILES: Final = ("a", "b")
OFFSETS: Final = "worker-offsets"
WORKER: Final = {
    "group.id": "workers",
    "key.converter": "org.apache.kafka.connect.storage.StringConverter",
    "value.converter": "org.apache.kafka.connect.storage.StringConverter",
    "config.storage.topic": "worker-config",
    "offset.storage.topic": OFFSETS,
    "offset.storage.partitions": 4,
    "status.storage.topic": "worker-status",
    "status.storage.partitions": 4,
    "exactly.once.source.support": "enabled",
    **{f"{name}.storage.replication.factor": BROKERS for name in ("config", "offset", "status")},
    "plugin.discovery": "service_load",
    "scheduled.rebalance.max.delay.ms": 0,
    "session.timeout.ms": SESSION_MS,
    "heartbeat.interval.ms": 500,
}
CONNECTOR: Final = {
    "connector.class": "org.apache.kafka.connect.file.FileStreamSourceConnector",
    "topic": "lines",
    "tasks.max": 1,
    # A full batch would leave lines in the connector's buffer until the file grows.
    "batch.size": VALUES,
    "exactly.once.support": "required",
}

pytestmark = pytest.mark.timeout(900 if FULL else 240)


@one_of_all
@pytest.mark.parametrize("place", SITES)
def test_connect_reads_files(place: str, tmp_path: Path) -> None:
    """Each line is one record, in its place, and the offset that Connect has stored for a file is its end."""
    require_kafka()
    require(lambda: kafka_home(also=ARTIFACTS))
    with SITES[place]() as site:
        lines_hold(site, tmp_path)


def lines_hold(site: Site, directory: Path) -> None:
    site.create("lines", 1)
    ports: dict[str, int] = {}

    def command(home: Path) -> list[str]:
        port = ports.setdefault(home.stem, *free_ports(1))
        config = {**WORKER, "bootstrap.servers": site.bootstrap, "listeners": f"http://{HOST}:{port}"}
        (home / "worker.properties").write_text("".join(f"{name}={value}\n" for name, value in config.items()))
        return java_command("org.apache.kafka.connect.cli.ConnectDistributed", str(home / "worker.properties"), directory=home)

    def begin() -> bool:
        return all(put(ports["0"], name, {**CONNECTOR, "file": str(directory / name)}) for name in FILES)

    def feed(numbers: range) -> None:
        for name in FILES:
            with (directory / name).open("a") as file:
                file.writelines(f"{name}{number}\n" for number in numbers[:: len(FILES)])

    for name in FILES:
        (directory / name).touch()
    told = campaign("Kafka Connect", site, command, directory, output="lines", partitions=1, feed=feed, values=VALUES, begin=begin)
    values = [(message.value() or b"").decode() for message in told.output]
    for name in FILES:
        assert [value for value in values if value.startswith(name)] == [f"{name}{number}" for number in range(0, VALUES, len(FILES))]
    assert len(values) == VALUES
    stored = {message.key(): message.value() for message in read_messages(site.bootstrap, OFFSETS, range(4))}
    ends = {json.loads(key or b"")[0]: json.loads(value or b"")["position"] for key, value in stored.items()}
    assert ends == {name: (directory / name).stat().st_size for name in FILES}


def put(port: int, name: str, config: dict[str, object]) -> bool:
    """Create the connector, or change it. Return whether the worker took it: it refuses while it starts, and while workers come or go."""
    request = urllib.request.Request(
        f"http://{HOST}:{port}/connectors/{name}/config", json.dumps(config).encode(), {"Content-Type": "application/json"}, method="PUT"
    )
    try:
        with urllib.request.urlopen(request, timeout=30):
            return True
    except OSError:
        return False
