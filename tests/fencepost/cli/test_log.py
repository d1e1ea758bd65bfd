"""`fencepost log` on files made by hand: what it prints, its exit codes, and damaged files."""

from __future__ import annotations

import os
import random
import shutil
from pathlib import Path

import pytest

from fencepost.broker_stub import BrokerStub
from fencepost.broker_stub.cluster.log_dir import CLEAN_SHUTDOWN
from fencepost.broker_stub.log.producer_snapshot import write_snapshot
from fencepost.broker_stub.storage.disk import DiskDirectory
from fencepost.producer import Producer
from fencepost.producer.wire.records import ControlType, encode_batch, encode_marker
from tests.broker_stub.log.random_history import History
from tests.fencepost.cli.shell import invoke

NAME = "00000000000000000000"


def _log(producer_id: int = 7) -> bytes:
    """Two records of a transaction, and its marker."""
    data = bytearray(
        encode_batch([(5, b"k\x1b", b"v"), (6, None, None)], producer_id=producer_id, producer_epoch=0, base_sequence=0, transactional=True)
    )
    marker = bytearray(encode_marker(ControlType.ABORT, producer_id=producer_id, producer_epoch=0, coordinator_epoch=3, timestamp=8))
    marker[:8] = (2).to_bytes(8)
    return bytes(data + marker)


def test_json(tmp_path: Path) -> None:
    """Each batch, record and marker is one object."""
    path = tmp_path / f"{NAME}.log"
    path.write_bytes(_log())
    first, one, two, second, marker = invoke("log", "dump", "--records", "--json", path).objects
    assert (first["baseOffset"], first["lastOffset"], first["isvalid"], first["deleteHorizonMs"]) == (0, 1, True, None)
    assert (one["key"], one["payload"], one["CreateTime"], one["sequence"]) == ("k\x1b", "v", 5, 0)
    assert (two["keySize"], two["valueSize"]) == (-1, -1)
    assert (second["position"], second["isControl"]) == (first["size"], True)
    assert (marker["endTxnMarker"], marker["coordinatorEpoch"]) == ("ABORT", 3)


def test_exit_codes(tmp_path: Path) -> None:
    """A torn tail is named after the whole batches (1). A missing file and an unknown name are the caller's mistakes (2)."""
    path = tmp_path / f"{NAME}.log"
    path.write_bytes(_log()[:-1])
    torn = invoke("log", "dump", path)
    assert torn.code == 1
    assert torn.out.count("baseOffset") == 1
    assert "bytes, 77 are left in the file" in torn.err
    assert invoke("log", "dump", tmp_path / "1.log").code == 2
    assert invoke("log", "dump", tmp_path / "notes.txt").code == 2
    assert invoke("log", "verify", tmp_path / "no").code == 2
    empty = tmp_path / "empty"
    empty.mkdir()
    assert invoke("log", "verify", empty).code == 2


def test_random_damage(tmp_path: Path) -> None:
    """A damaged log ends `dump` and `verify` with an exit code, never with a traceback."""
    seed = random.SystemRandom().randrange(2**32)
    print(f"seed {seed}")
    dice = random.Random(seed)
    path = tmp_path / f"{NAME}.log"
    for _ in range(30):
        data = bytearray(_log())
        for _ in range(dice.randrange(1, 4)):
            data[dice.randrange(len(data))] = dice.randrange(256)
        path.write_bytes(data[: dice.randrange(len(data) + 1)])
        assert invoke("log", "dump", "--records", path).code in (0, 1)
        assert invoke("log", "verify", tmp_path).code in (0, 1)


def test_segments_overlap(tmp_path: Path) -> None:
    """Two segments with the same offsets, and transactions of two producers that begin at one offset, are findings."""
    (tmp_path / f"{NAME}.log").write_bytes(_log())
    (tmp_path / f"{1:020}.log").write_bytes(_log(8))
    ran = invoke("log", "verify", tmp_path)
    assert ran.code == 1
    assert "position 0: the segment begins at offset 1, and the one before it ends at 2" in ran.out
    assert "segments overlap, so producer snapshots" in ran.out


def test_an_offset_that_no_index_can_have(tmp_path: Path) -> None:
    """The checksum of a batch does not cover its offset, and offsets may have gaps."""
    damaged = bytearray(_log())
    marker = 12 + int.from_bytes(damaged[8:12])
    damaged[marker + 2] ^= 1
    (tmp_path / f"{NAME}.log").write_bytes(damaged)
    ran = invoke("log", "verify", tmp_path)
    assert ran.code == 1
    assert f"position {marker}: offset 1099511627778 is more than 2147483647 above the segment's first offset" in ran.out


def test_an_index_without_its_log(tmp_path: Path) -> None:
    """The first or the last segment is missing, and its index files are there."""
    (tmp_path / f"{NAME}.log").write_bytes(_log())
    (tmp_path / f"{100:020}.timeindex").write_bytes(b"")
    ran = invoke("log", "verify", tmp_path)
    assert ran.code == 1
    assert f"{100:020}.timeindex, position 0: there is no {100:020}.log for it. Kafka deletes the file" in ran.out


@pytest.mark.parametrize("killed", [False, True])
@pytest.mark.parametrize("compacted", [False, True])
def test_no_findings_in_a_sound_log(tmp_path: Path, compacted: bool, killed: bool) -> None:
    """After random appends, transactions, truncations, compactions, deletions and starts, and perhaps a kill."""
    seed = random.SystemRandom().randrange(2**32)
    print(f"seed {seed}")
    for number in range(12):
        rng = random.Random(f"{seed} {number}")
        path = tmp_path / f"t-{number}"
        history = History(rng, DiskDirectory(path, later=lambda _, run: run()), compacted=compacted)
        for _ in range(rng.randrange(1, 4)):
            if history.log.log_end_offset:
                history.load(clean_shutdown=True)
                history.resume_producers()
            for _ in range(rng.randrange(10, 60)):
                history.act()
                if rng.random() < 0.02:
                    history.log.advance_log_start(rng.randrange(history.log.log_start_offset, history.log.high_watermark + 1))
        if not killed:
            history.log.close()
        history.directory.close()
    if not killed:
        (tmp_path / CLEAN_SHUTDOWN).touch()
    ran = invoke("log", "verify", tmp_path)
    assert (ran.code, ran.err) == (0, ""), ran.out


def test_a_killed_broker(tmp_path: Path) -> None:
    """Its active segments have no index files, which is said and no finding. After a clean shutdown it is one."""
    with BrokerStub(data_dir=tmp_path) as stub:
        stub.create_topic("t")
        with Producer(**stub.settings) as producer:
            producer.send("t", b"x").result(20)
        shutil.copytree(tmp_path / "broker-1", tmp_path / "killed")
    ran = invoke("log", "verify", tmp_path / "killed")
    assert ran.code == 0
    assert f"t-0/{NAME}.log: the active segment has no index files, as after a kill; the next start makes them\n" in ran.out
    assert "1 partition, 0 findings" in ran.out
    assert invoke("log", "verify", tmp_path / "broker-1").out == "1 partition, 0 findings\n"
    (tmp_path / "broker-1" / "t-0" / f"{NAME}.index").unlink()
    ran = invoke("log", "verify", tmp_path / "broker-1")
    assert ran.code == 1
    assert f"{NAME}.index, position 0: the file is missing" in ran.out


def test_a_time_index_without_its_last_entry(tmp_path: Path) -> None:
    """A closed segment's last entry is its largest timestamp. The active one may lack it."""
    for base in (0, 1):
        batch = bytearray(encode_batch([(5, b"k", b"v")], producer_id=-1, producer_epoch=-1, base_sequence=-1))
        batch[:8] = base.to_bytes(8)
        (tmp_path / f"{base:020}.log").write_bytes(batch)
        (tmp_path / f"{base:020}.index").touch()
        (tmp_path / f"{base:020}.timeindex").touch()
    (tmp_path / f"{1:020}.snapshot").write_bytes(write_snapshot({}))
    ran = invoke("log", "verify", tmp_path)
    assert ran.code == 1
    assert f"{NAME}.timeindex, position 0: there is no entry, and the largest timestamp of the segment is 5" in ran.out
    assert "1 partition, 1 finding\n" in ran.out


@pytest.mark.parametrize("damage", ["", "nonsense"])
def test_a_damaged_topic_id(tmp_path: Path, damage: str) -> None:
    """`verify` reads partition.metadata."""
    (tmp_path / f"{NAME}.log").write_bytes(_log())
    (tmp_path / "partition.metadata").write_text(damage)
    ran = invoke("log", "verify", tmp_path)
    assert ran.code == 1
    assert f"partition.metadata, position 1: {damage!r} is no `name: value`. Kafka cannot read the topic's id" in ran.out


def test_a_name_beyond_the_last_offset(tmp_path: Path) -> None:
    """Both commands name the file."""
    path = tmp_path / "99999999999999999999.log"
    path.write_bytes(_log())
    for ran in (invoke("log", "dump", path), invoke("log", "verify", tmp_path)):
        assert ran.code != 0
        assert "'99999999999999999999.log' does not start with an offset" in ran.err


def test_an_interrupted_compaction(tmp_path: Path) -> None:
    """The files are those of two segments at once until the next start, so they are not compared."""
    (tmp_path / f"{NAME}.log").write_bytes(_log())
    (tmp_path / f"{NAME}.log.swap").write_bytes(_log())
    ran = invoke("log", "verify", tmp_path)
    assert ran.code == 0
    assert "a compaction was interrupted, and the next start ends it, so nothing is checked" in ran.out


def test_a_directory_is_verified_and_not_dumped(tmp_path: Path) -> None:
    """The error says what each of the two commands takes."""
    dumped = invoke("log", "dump", tmp_path)
    assert dumped.code == 2
    assert "it is a directory: give .log, index or checkpoint files; `log verify` takes a directory" in " ".join(dumped.err.split())


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="a system without named pipes")
@pytest.mark.parametrize("name", [f"{NAME}.log", f"{NAME}.index", f"{NAME}.snapshot", "leader-epoch-checkpoint", "partition.metadata"])
def test_a_named_pipe(tmp_path: Path, name: str) -> None:
    """No command waits for another end of it."""
    (tmp_path / f"{NAME}.log").write_bytes(_log())
    (tmp_path / name).unlink(missing_ok=True)
    os.mkfifo(tmp_path / name)
    dumped = invoke("log", "dump", tmp_path / name)
    assert dumped.code == 2
    assert f"{name}: it is no regular file" in dumped.err
    ran = invoke("log", "verify", tmp_path)
    assert ran.code == 1
    assert f"{name}, position 0: it is no regular file. The broker cannot use it." in ran.out
