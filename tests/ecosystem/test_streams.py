"""Kafka Streams with exactly_once_v2 works on the stub as on Apache Kafka: each number leads to one total, while instances are killed and
brokers restart."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Final

import pytest

from fencepost.broker_stub import BrokerStub
from tests.conformance.fixtures import require, require_kafka
from tests.conformance.java_tools import compiles
from tests.conformance.kafka_home import find_java, kafka_home
from tests.ecosystem.java_programs import ARTIFACTS, compiled, java_command
from tests.ecosystem.site import SESSION_MS, SITES
from tests.ecosystem.sizes import BROKERS, FULL, one_of_all
from tests.ecosystem.totals import KEYS, PARTITIONS, SOURCE, TARGET, totals_hold
from tests.reading import read_messages

PROGRAM: Final = Path(__file__).with_name("Totals.java")
CONFIG: Final = {
    "application.id": "app",
    "num.stream.threads": 2,
    "replication.factor": BROKERS,
    "commit.interval.ms": 100,
    "session.timeout.ms": SESSION_MS,
    "heartbeat.interval.ms": 500,
    "transaction.timeout.ms": 5_000,
    "auto.offset.reset": "earliest",
}

pytestmark = pytest.mark.timeout(900 if FULL else 240)


@one_of_all
@pytest.mark.parametrize("place", SITES)
def test_streams_totals(place: str, tmp_path: Path) -> None:
    """Each number is counted once, in the output and in the changelog of the store."""
    classes = program()
    with SITES[place]() as site:
        configs = [f"{name}={value}" for name, value in {**CONFIG, "bootstrap.servers": site.bootstrap}.items()]

        def command(home: Path) -> list[str]:
            return java_command("Totals", str(home), SOURCE, TARGET, str(KEYS), *configs, directory=home, classes=classes)

        # On a busy machine it may go to ERROR while brokers restart, also with Apache Kafka.
        totals = totals_hold("Kafka Streams", site, command, tmp_path, supervised=True)
        changes = read_messages(site.bootstrap, "app-totals-changelog", range(PARTITIONS))
        assert {(each.key() or b"").decode(): (each.value() or b"").decode() for each in changes} == totals


def test_streams_groups_are_refused(tmp_path: Path) -> None:
    """With group.protocol=streams (KIP-1071) it ends at once, and says that the cluster does not support that."""
    classes = program()
    with BrokerStub() as stub:
        for topic in (SOURCE, TARGET):
            stub.create_topic(topic)
        configs = [f"bootstrap.servers={stub.bootstrap}", "application.id=app", "group.protocol=streams"]
        command = java_command("Totals", str(tmp_path), SOURCE, TARGET, str(KEYS), *configs, directory=tmp_path, classes=classes)
        ended = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert "UnsupportedVersionException: The cluster does not support the STREAMS group protocol" in ended.stdout


def program() -> Path:
    """The classes of the program. Skips the test if there are no jars or no compiler."""
    require_kafka()
    require(lambda: kafka_home(also=ARTIFACTS))
    if not compiles(find_java()):
        pytest.skip(f"{find_java()} has no compiler, which a Java program in one source file needs")
    return compiled(PROGRAM)
