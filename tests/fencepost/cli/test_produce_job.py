"""`fencepost produce --job`: each record once however often it is run, and a report of what was done before and what is left."""

from __future__ import annotations

import gzip
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from fencepost.broker_stub import BrokerStub
from fencepost.producer.wire import Api
from tests.fencepost.cli.shell import complaint, produce, run, running
from tests.reading import read_values
from tests.waiting import until

pytestmark = pytest.mark.timeout(120)


@pytest.fixture
def stub() -> Iterator[BrokerStub]:
    with BrokerStub() as running_stub:
        running_stub.create_topic("t", partitions=1)
        yield running_stub


def job(stub: BrokerStub, *arguments: object, apart: bool = False) -> subprocess.CompletedProcess[str]:
    return produce(stub, "--job", "j", *arguments, apart=apart)


def values(stub: BrokerStub) -> list[bytes]:
    return read_values(stub.bootstrap, "t")


def test_a_file_that_grows(stub: BrokerStub, tmp_path: Path) -> None:
    """The second run sends what is new, and says what was committed before. A line without a newline is left, with exit code 1."""
    file = tmp_path / "in.txt"
    file.write_bytes(b"one\ntwo\nthr")
    ran = job(stub, file, apart=True)
    assert (ran.returncode, ran.stdout) == (1, "")
    assert f"{file}: 2 records committed, in " in ran.stderr
    assert f"{file}: the record from line 3 on (3 bytes so far) is not finished, so it may still be being written" in ran.stderr
    ran = job(stub, "--complete", file)
    assert ran.returncode == 0, ran.stderr
    assert f"{file}: 1 record committed" in ran.stderr
    assert f"  2 records were committed by earlier runs of job 'j', and not sent again:\n  {file}: lines 1 to 2\n" in ran.stderr
    assert job(stub, "--quiet", "--complete", file).stderr == ""
    assert values(stub) == [b"one", b"two", b"thr"]


def test_several_files_in_every_format(stub: BrokerStub, tmp_path: Path) -> None:
    """With the options of `produce`, and compressed."""
    (tmp_path / "a.csv").write_bytes(b'id,name\n1,"a\nb"\n')
    (tmp_path / "b.jsonl.gz").write_bytes(gzip.compress(b'{"id": "2", "name": "c"}\n'))
    settings = ("--config", "linger.ms=5", "--config", "client.id=me", "--config", "compression.type=zstd")
    ran = job(stub, *settings, "--key-field", "id", "--value-field", "name", tmp_path / "a.csv", tmp_path / "b.jsonl.gz")
    assert ran.returncode == 0, ran.stderr
    assert "2 files: 2 records committed" in ran.stderr
    assert values(stub) == [b"a\nb", b"c"]
    assert produce(stub, "--value-field", "name", tmp_path / "b.jsonl.gz").returncode == 0
    assert values(stub)[2:] == [b"c"]


def test_bad_lines(stub: BrokerStub, tmp_path: Path) -> None:
    """Without a topic for dead letters it stops at the line, which it names; with one it goes on, with exit code 1."""
    file = tmp_path / "in.json"
    file.write_bytes(b'{"a": 1}\n{\n{"a": 2}\n')
    ran = job(stub, file)
    assert ran.returncode == 1
    assert f"{file}: 1 record committed" in ran.stderr
    assert f"stopped: {file}, line 2: " in ran.stderr
    assert "or give --dead-letters TOPIC\n" in ran.stderr
    stub.create_topic("dead", partitions=1)
    ran = job(stub, "--dead-letters", "dead", file)
    assert ran.returncode == 1
    assert "  1 record is in topic 'dead', with the reasons\n" in ran.stderr
    assert values(stub) == [b'{"a": 1}', b'{"a": 2}']
    assert read_values(stub.bootstrap, "dead") == [b"{"]


def test_a_replaced_file(stub: BrokerStub, tmp_path: Path) -> None:
    """It is one line with the file and what to do, and exit code 2: nothing is sent."""
    file = tmp_path / "in.txt"
    file.write_bytes(b"one\ntwo\n")
    assert job(stub, file).returncode == 0
    file.write_bytes(b"uno\ndos\ntres\n")
    words = complaint(job(stub, file))
    assert f"{file} is not the file that the job has read up to byte 8" in words
    assert "jobs reset JOB --to-start" in words
    assert values(stub) == [b"one", b"two"]


def test_ctrl_c_and_again(stub: BrokerStub, tmp_path: Path) -> None:
    """Ctrl-C commits what is read, and says how to go on. Killed and run again, the command sends the rest."""
    file = tmp_path / "in.txt"
    lines = [b"%d" % number + b"x" * 200 for number in range(60_000)]
    file.write_bytes(b"".join(each + b"\n" for each in lines))
    stub.faults.on(Api.END_TXN).forever().delay(100)
    for number in (signal.SIGINT, signal.SIGKILL):
        with running("produce", "--bootstrap", stub.bootstrap, "--topic", "t", "--job", "j", file) as process:
            goal = stub.end_offset("t", 0) + 20_000
            until(lambda goal=goal: stub.end_offset("t", 0) > goal, "it sends", timeout_s=30)  # type: ignore[misc]  # it takes what it is bound to
            process.send_signal(number)
            _, errors = process.communicate(timeout=30)
        if number == signal.SIGINT:
            assert process.returncode == 128 + signal.SIGINT
            assert b"stopped: interrupted; job 'j' continues there when it is run again" in errors
    stub.faults.clear()
    ran = job(stub, file)
    assert ran.returncode == 0, ran.stderr
    assert "committed by earlier runs of job 'j'" in ran.stderr
    assert values(stub) == lines


def test_mistakes(stub: BrokerStub, tmp_path: Path) -> None:
    """Options that do not fit are refused by name."""
    file = tmp_path / "in.txt"
    file.write_bytes(b"x\n")
    assert "2 files are given: name one, or add --job ID" in complaint(produce(stub, file, file))
    assert "--complete is for jobs: add --job ID" in complaint(produce(stub, "--complete", file))
    assert "--dead-letters is for jobs" in complaint(produce(stub, "--dead-letters", "d", file))
    assert "--job cannot read standard input" in complaint(job(stub, "-"))
    assert "give --dead-letters TOPIC" in complaint(job(stub, "--failed-to", tmp_path / "f", file))
    assert "in.txt' is named twice" in complaint(job(stub, file, file))
    assert "none cannot be read: No such file" in complaint(job(stub, tmp_path / "none"))
    assert "for records with fields" in complaint(job(stub, "--key-field", "k", file))
    assert "unknown setting 'transactional.id'" in complaint(job(stub, "--config", "transactional.id=x", file))
    assert "unknown setting" in complaint(job(stub, "--config", "linger.m=5", file))
    assert "job='\\n'" in complaint(produce(stub, "--job", "\n", file))
    assert "no broker address" in complaint(run("produce", "--job", "j", "--topic", "t", file))
    assert values(stub) == []
