"""The real Kafka of the tests: it restarts on the same address, and nothing of it remains."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conformance.fixtures import ClusterFactory, require_kafka
from tests.conformance.kafka import KafkaCluster, new_cluster_id
from tests.drawn import drawn
from tests.once import once_is_enough
from tests.waiting import until

pytestmark = [pytest.mark.timeout(600), once_is_enough("starts and stops Kafka itself")]

TOLD = drawn(2, of="stories of the Kafka of the tests")

ROOT = Path(__file__).resolve().parents[2]
# These programs import the tests' own modules from the working directory, which a safe path leaves out.
FROM_THE_CHECKOUT = {name: value for name, value in os.environ.items() if name != "PYTHONSAFEPATH"}


@TOLD
def test_a_broker_stops_dies_and_returns_on_the_same_address(kafka_cluster: ClusterFactory) -> None:
    """A stopped or killed broker restarts on its port and data. Closing ends it and removes them."""
    cluster = kafka_cluster(features={"transaction.version": 0})
    address = cluster.bootstrap
    shown = cluster.tool("org.apache.kafka.tools.FeatureCommand", "--bootstrap-server", address, "describe")
    assert "transaction.version" in shown
    (level,) = [line for line in shown.splitlines() if "transaction.version" in line]
    assert "FinalizedVersionLevel: 0" in level
    cluster.restart_broker(1, clean=True)
    cluster.restart_broker(1, clean=False)
    assert cluster.bootstrap == address
    process = cluster.brokers[1].process
    assert process is not None
    cluster.close()
    assert process.poll() is not None
    assert not cluster.directory.exists()


@TOLD
def test_three_brokers_survive_one_of_them(kafka_cluster: ClusterFactory) -> None:
    """Each of three brokers sees all of them. The others continue while one is down."""
    cluster = kafka_cluster(brokers=3)
    assert len(cluster.addresses) == 3
    cluster.kill_broker(1)
    cluster.start_broker(1)
    assert all(broker.alive for broker in cluster.brokers.values())


@TOLD
def test_nothing_is_left_when_the_test_run_is_killed() -> None:
    """SIGKILL of the process that started a broker ends the broker and removes its data within seconds."""
    require_kafka()
    program = (
        "from tests.conformance.kafka import KafkaCluster; import sys; c = KafkaCluster().start(); "
        "print(c.brokers[1].process.pid, c.directory, flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program],
        cwd=ROOT,
        env=FROM_THE_CHECKOUT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as child:
        assert child.stdout is not None
        pid, directory = child.stdout.readline().split()
        assert Path(directory).exists()
        child.kill()
    until(lambda: not (_runs(int(pid)) or Path(directory).exists()), "the broker's end")


@TOLD
def test_the_command_prints_the_address_and_ends_on_sigterm() -> None:
    """`run_kafka` prints one line, HOST:PORT, and SIGTERM ends it with exit code 0."""
    require_kafka()
    with subprocess.Popen(
        [sys.executable, "-m", "tests.conformance.run_kafka"],
        cwd=ROOT,
        env=FROM_THE_CHECKOUT,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as command:
        assert command.stdout is not None
        host, _, port = command.stdout.readline().strip().partition(":")
        assert host == "127.0.0.1"
        assert int(port) > 0
        command.send_signal(signal.SIGTERM)
        assert command.wait(30) == 0


def test_a_cluster_id_is_never_taken_for_an_option() -> None:
    """Kafka's format tool refuses an id with a leading dash; one random id in 64 would have one."""
    identities = [new_cluster_id() for _ in range(2_000)]
    assert not [identity for identity in identities if identity.startswith("-")]
    assert {len(identity) for identity in identities} == {22}


def test_a_missing_java_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    """If Kafka cannot start, the reason is one line that names what was looked for."""
    from tests.conformance import kafka_home

    monkeypatch.setattr(kafka_home, "_java_candidates", lambda: iter([Path("/nonexistent/java")]))
    kafka_home.find_java.cache_clear()
    try:
        with pytest.raises(kafka_home.KafkaUnavailable, match=r"no Java 17\+ found") as caught:
            KafkaCluster()
        assert "\n" not in str(caught.value)
    finally:
        kafka_home.find_java.cache_clear()


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
