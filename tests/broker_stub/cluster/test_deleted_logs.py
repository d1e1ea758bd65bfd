"""A log that was deleted does not come back: not after a crash at any point of the deletion, nor at a broker that did not hear of it."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from fencepost.broker_stub import BrokerStub
from fencepost.broker_stub.storage import disk
from fencepost.producer import Producer
from tests.waiting import until

OLD, NEW = [b"old %d" % number * 60_000 for number in range(9)], [b"new"]
SMALL = {"segment.bytes": 1 << 20, "file.delete.delay.ms": 0}


def send(stub: BrokerStub, *values: bytes) -> None:
    with Producer(**stub.settings, linger_ms=0) as producer:
        for value in values:
            producer.send("t", value=value).result(20)


def values(stub: BrokerStub, node: int | None = None) -> list[bytes | None]:
    return [record.value for record in stub.records("t", 0, node=node)]


def of_topic(path: Path) -> list[str]:
    """The directories in that log directory that have the topic's name."""
    return sorted(each.name for each in path.glob("t-0*"))


def crash_while_deleting(monkeypatch: pytest.MonkeyPatch, path: Path, left: int, *, backwards: bool = False) -> list[Path]:
    """Keeps a copy of the data directory for each deletion, as it is when so many files of the log are left: the process could be killed
    there."""
    copies: list[Path] = []
    remove = disk.shutil.rmtree  # type: ignore[attr-defined]

    def half(directory: Path, **rest: Any) -> None:
        files = sorted(directory.iterdir(), reverse=backwards) if directory.is_dir() else []
        for file in files[: max(0, len(files) - left)]:
            file.unlink()
        if files:
            copies.append(Path(shutil.copytree(path, path.with_name(f"copy-{len(copies)}"))))
        remove(directory, **rest)

    monkeypatch.setattr(disk.shutil, "rmtree", half)  # type: ignore[attr-defined]
    return copies


CRASHES = pytest.mark.parametrize(("left", "backwards"), [(0, False), (1, False), (1, True), (5, False), (5, True), (1000, False)])


@CRASHES
def test_a_crash_while_a_topic_is_deleted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, left: int, backwards: bool) -> None:
    """Nothing of its log is left after the next start, and a topic of that name begins empty."""
    with BrokerStub(data_dir=tmp_path / "there") as stub:
        stub.create_topic("t", config=SMALL)
        send(stub, *OLD)
        copies = crash_while_deleting(monkeypatch, tmp_path / "there", left, backwards=backwards)
        stub.delete_topic("t")
    monkeypatch.undo()
    assert len(copies) == 1
    with BrokerStub(data_dir=copies[0]) as stub:
        assert of_topic(copies[0] / "broker-1") == []
        stub.create_topic("t", config=SMALL)
        assert values(stub) == []
        send(stub, *NEW)
        assert values(stub) == NEW


@CRASHES
def test_a_crash_while_a_move_is_cancelled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, left: int, backwards: bool) -> None:
    """The move does not go on with what is left of the future log. Every record is there."""
    with BrokerStub(data_dir=tmp_path / "there", log_dirs=2) as stub:
        stub.create_topic("t", config=SMALL)
        send(stub, *OLD)
        log_dirs = stub.cluster.brokers[1].logs
        stub.cluster.logs.moves.limit(1, 600_000)
        replica = stub.cluster.find("t", 0).on(1)  # type: ignore[union-attr]
        assert replica is not None
        stub._call(lambda: stub.cluster.logs.moves.begin(replica, log_dirs.dirs[1]))
        future = tmp_path / "there" / "broker-1.2"
        until(lambda: len([*future.glob("t-0*/*.log")]), "segments of the future log", good=lambda found: found > 1)
        copies = crash_while_deleting(monkeypatch, tmp_path / "there", left, backwards=backwards)
        stub._call(lambda: stub.cluster.logs.moves.cancel(replica))
    monkeypatch.undo()
    assert len(copies) == 1
    with BrokerStub(data_dir=copies[0], log_dirs=2) as stub:
        assert of_topic(copies[0] / "broker-1.2") == []
        assert values(stub) == OLD


def test_a_full_disk_deletes(tmp_path: Path) -> None:
    """Its space is free again."""
    with BrokerStub(data_dir=tmp_path) as stub:
        stub.create_topic("t")
        stub.fail_disk(1, "full")
        with pytest.raises(OSError, match="No space left"):
            stub._call(lambda: stub.cluster.brokers[1].logs.dirs[0].disk.check_write())
        stub._call(lambda: stub.cluster.brokers[1].logs.delete(("t", 0), stub.cluster.find("t", 0).topic_id))  # type: ignore[union-attr]
        assert of_topic(tmp_path / "broker-1") == []


@pytest.mark.parametrize("again", ["broker", "process", "killed process"])
def test_a_broker_did_not_hear_of_the_deletion(tmp_path: Path, again: str) -> None:
    """It was cut off from the controller while a topic was deleted, and created anew with the same name. Its old log is no log of the new
    topic."""
    with BrokerStub(data_dir=tmp_path / "there", brokers=2) as stub:
        stub.create_topic("t", replication_factor=2, config=SMALL)
        send(stub, *OLD)
        stub.sever(1, "controller")
        stub.delete_topic("t")
        stub.create_topic("t", replication_factor=2, config=SMALL)
        path = tmp_path / "there"
        if again == "broker":
            stub.stop_broker(1)
            stub.mend(1, "controller")
            stub.start_broker(1)
            check(stub)
        elif again == "killed process":
            path = Path(shutil.copytree(path, tmp_path / "copy"))
    with BrokerStub(data_dir=path, brokers=2) as stub:
        if again != "broker":
            check(stub)
        assert values(stub) == NEW


def check(stub: BrokerStub) -> None:
    until(lambda: sorted(stub.isr("t", 0)), "in sync", good=lambda isr: isr == [1, 2])
    assert [values(stub, node) for node in (1, 2)] == [[], []]
    send(stub, *NEW)
    until(lambda: [values(stub, node) for node in (1, 2)], "replicated", good=lambda found: found == [NEW, NEW])
