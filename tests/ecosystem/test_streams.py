"""Kafka Streams with exactly_once_v2 works on the stub as on Apache Kafka: each number leads to one total, while instances are killed and
brokers restart."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

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
    require_kafka()
    require(lambda: kafka_home(also=ARTIFACTS))
    if not compiles(find_java()):
        pytest.skip(f"{find_java()} has no compiler, which a Java program in one source file needs")
    classes = compiled(PROGRAM)
    with SITES[place]() as site:
        configs = [f"{name}={value}" for name, value in {**CONFIG, "bootstrap.servers": site.bootstrap}.items()]

        def command(home: Path) -> list[str]:
            return java_command("Totals", str(home), SOURCE, TARGET, str(KEYS), *configs, directory=home, classes=classes)

        # On a busy machine it may go to ERROR while brokers restart, also with Apache Kafka.
        totals = totals_hold("Kafka Streams", site, command, tmp_path, supervised=True)
        changes = read_messages(site.bootstrap, "app-totals-changelog", range(PARTITIONS))
        assert {(each.key() or b"").decode(): (each.value() or b"").decode() for each in changes} == totals
