"""Which replica leads after all brokers were killed, and one of them lost its directory."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from fencepost.broker_stub import BrokerStub, VirtualClock
from fencepost.broker_stub.cluster.log_dir import CLEAN_SHUTDOWN
from fencepost.broker_stub.replication.partition import Partition
from fencepost.producer import Producer
from tests.waiting import until

RECORDS = [b"%d" % number for number in range(20)]
SAFE = {"min.insync.replicas": 2}


def send(stub: BrokerStub, *values: bytes, **settings: Any) -> None:
    with Producer(**{**stub.settings, **settings}) as producer:
        for value in values:
            producer.send("t", value=value)


def values(stub: BrokerStub, node: int | None = None) -> list[bytes | None]:
    return [record.value for record in stub.records("t", 0, node=node)]


def all_killed(tmp_path: Path, config: dict[str, Any] = SAFE) -> tuple[Path, int]:
    """The data directory of three brokers that were killed, and the leader of the partition that is on all of them."""
    with BrokerStub(data_dir=tmp_path / "there", brokers=3) as stub:
        stub.create_topic("t", replication_factor=3, config=config)
        send(stub, *RECORDS)
        leader = stub.leader("t", 0)
        return Path(shutil.copytree(tmp_path / "there", tmp_path / "killed")), leader


def states(path: Path) -> list[dict[str, Any]]:
    """What the controller has decided about the partition since its newest start."""
    records = [record for line in (path / "cluster-metadata.jsonl").read_text().splitlines() for record in json.loads(line)]
    start = max(number for number, record in enumerate(records) if record["type"] == "start")
    return [record for record in records[start:] if record["type"] == "partition"]


def test_after_a_kill_of_all_the_leader_is_in_sync_first(tmp_path: Path) -> None:
    """It leads again, alone at first, as in Kafka. The others join when they have what it has."""
    path, leader = all_killed(tmp_path)
    with BrokerStub(data_dir=path, brokers=3) as stub:
        until(lambda: sorted(stub.isr("t", 0)), "in sync", good=lambda isr: isr == [1, 2, 3])
        assert stub.leader("t", 0) == leader
        until(lambda: [values(stub, node) for node in (1, 2, 3)], "replicated", good=lambda found: found == [RECORDS] * 3)
        assert next(state["isr"] for state in states(path) if state["isr"]) == [leader]
        send(stub, b"more")


@pytest.mark.parametrize("interrupted", [False, True])
@pytest.mark.parametrize("turn", [0, 1, 2])
def test_a_killed_broker_without_its_directory_follows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, turn: int, interrupted: bool
) -> None:
    """The leader, or a follower. Every record is there, also if the first start after that is killed when it has created the new logs."""
    path, leader = all_killed(tmp_path)
    lost = (leader - 1 + turn) % 3 + 1
    shutil.rmtree(path / f"broker-{lost}")
    if interrupted:
        with monkeypatch.context() as patched:
            patched.setattr(Partition, "resume", interrupt)
            with pytest.raises(KeyboardInterrupt):
                BrokerStub(data_dir=path, brokers=3)
        assert (path / f"broker-{lost}" / "t-0" / f"{0:020}.log").exists()
    with BrokerStub(data_dir=path, brokers=3) as stub:
        assert stub.leader("t", 0) != lost
        until(lambda: sorted(stub.isr("t", 0)), "in sync", good=lambda isr: isr == [1, 2, 3])
        send(stub, b"more")
        assert values(stub) == [*RECORDS, b"more"]
        until(lambda: [values(stub, node)[:20] for node in (1, 2, 3)], "replicated", good=lambda found: found == [RECORDS] * 3)


def interrupt(*_: object) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize("what", ["t-0", "t-0/*.log"])
def test_one_log_is_lost_after_a_clean_shutdown(tmp_path: Path, what: str) -> None:
    """The broker counts as clean, but not for that partition."""
    with BrokerStub(data_dir=tmp_path, brokers=2) as stub:
        stub.create_topic("t", replication_factor=2, config=SAFE)
        send(stub, *RECORDS)
        leader = stub.leader("t", 0)
    for found in (tmp_path / f"broker-{leader}").glob(what):
        shutil.rmtree(found) if found.is_dir() else found.unlink()
    with BrokerStub(data_dir=tmp_path, brokers=2) as stub:
        assert stub.leader("t", 0) == 3 - leader
        assert values(stub) == RECORDS


@pytest.mark.parametrize("unclean", [False, True])
def test_the_only_one_in_sync_is_lost(tmp_path: Path, unclean: bool) -> None:
    """Then nothing is known to be complete. As in Kafka it leads with an empty log, unless unclean elections are allowed."""
    clock, config = VirtualClock(), {"min.insync.replicas": 1, "unclean.leader.election.enable": unclean}
    with BrokerStub(data_dir=tmp_path / "there", brokers=2, clock=clock) as stub:
        stub.create_topic("t", replication_factor=2, config=config)
        send(stub, *RECORDS)
        leader = stub.leader("t", 0)
        stub.sever(1, 2)
        send(stub, b"on one", acks=1, enable_idempotence=False)
        stub.advance(60_000)
        assert stub.isr("t", 0) == [leader]
        path = Path(shutil.copytree(tmp_path / "there", tmp_path / "killed"))
    shutil.rmtree(path / f"broker-{leader}")
    with BrokerStub(data_dir=path, brokers=2) as stub:
        assert stub.leader("t", 0) == (3 - leader if unclean else leader)
        assert values(stub) == (RECORDS if unclean else [])


def test_an_eligible_replica_that_is_clean_leads_before_a_killed_one(tmp_path: Path) -> None:
    """The replica in sync was killed with all others; the eligible one had stopped cleanly, and has all that was acknowledged (KIP-966)."""
    clock = VirtualClock()
    with BrokerStub(data_dir=tmp_path, brokers=2, clock=clock) as stub:
        stub.create_topic("t", replication_factor=2, config=SAFE)
        send(stub, *RECORDS)
        leader = stub.leader("t", 0)
        stub.stop_broker(3 - leader)
        assert stub.cluster.find("t", 0).eligible == [3 - leader]  # type: ignore[union-attr]
    (tmp_path / f"broker-{leader}" / CLEAN_SHUTDOWN).unlink()
    with BrokerStub(data_dir=tmp_path, brokers=2) as stub:
        assert stub.leader("t", 0) == 3 - leader
        assert values(stub) == RECORDS
