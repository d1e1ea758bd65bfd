"""`fencepost produce`: every format arrives, every record that does not arrive is named, and every wait has an end."""

from __future__ import annotations

import json
import re
import secrets
import signal
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fencepost.broker_stub import BrokerStub
from fencepost.cli import producing
from fencepost.producer.wire import Api, ErrorCode
from tests.conformance.fixtures import kafka
from tests.conformance.kafka import KafkaCluster
from tests.conformance.survival.reader import Admin, read_topic
from tests.fencepost.cli.shell import complaint, produce, run, running
from tests.waiting import until

__all__ = ["kafka"]

TopicRows = list[tuple[bytes | None, bytes | None]]


@pytest.fixture
def stub() -> Iterator[BrokerStub]:
    with BrokerStub() as running_stub:
        yield running_stub


def rows(stub: BrokerStub, topic: str = "t") -> TopicRows:
    """(key, value) of everything in partition 0."""
    return [(r.key if r.key is None else bytes(r.key), r.value if r.value is None else bytes(r.value)) for r in stub.records(topic, 0)]


def reasons(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.with_name(f"{path.name}.reasons").read_text().splitlines()]


# -- formats -----------------------------------------------------------------------------------------------------------------


def test_lines(stub: BrokerStub, tmp_path: Path) -> None:
    """Each line is a value, byte for byte, empty ones and a last one without a newline too; the report says how many there were."""
    file = tmp_path / "in.txt"
    file.write_bytes(b"one\n\n\xff\xfe two\r\nlast")
    ran = produce(stub, file, apart=True)
    assert (ran.returncode, ran.stdout) == (0, "")
    assert f"{file}: 4 records acknowledged, in " in ran.stderr
    assert rows(stub) == [(None, b"one"), (None, b""), (None, b"\xff\xfe two\r"), (None, b"last")]
    assert produce(stub, "--quiet", "-", given=b"five\n").stderr == ""
    assert rows(stub)[-1] == (None, b"five")
    assert "standard input: 1 record acknowledged, in " in produce(stub, "-", given=b"six\n").stderr


def test_many_lines_from_a_pipe(stub: BrokerStub) -> None:
    """More than a block's worth arrives whole and in order."""
    lines = [b"%d " % number + b"x" * (number % 200) for number in range(50_000)]
    ran = produce(stub, "-", given=b"\n".join(lines), apart=True)
    assert ran.returncode == 0, ran.stderr
    assert [value for _, value in rows(stub)] == lines


def test_json_lines(stub: BrokerStub, tmp_path: Path) -> None:
    """Without fields a line is a value; with them strings are their text, null is none, and everything else the JSON that it is."""
    file = tmp_path / "in.jsonl"
    file.write_bytes(
        b'{"id": "k\\u00e9", "v": {"a": [1, 2.50]}, "h": "x"}\n\n{"id": 7, "v": null, "h": null}\n{"h": 1, "id": null, "v": "text"}\n'
    )
    assert produce(stub, file).returncode == 0
    assert rows(stub)[1] == (None, b'{"id": 7, "v": null, "h": null}')
    ran = produce(stub, file, "--key-field", "id", "--value-field", "v", "--header-field", "h")
    assert ran.returncode == 0, ran.stderr
    assert rows(stub)[3:] == [("ké".encode(), b'{"a": [1, 2.50]}'), (b"7", None), (None, b"text")]
    assert [list(record.headers) for record in stub.records("t", 0)][3:] == [[("h", b"x")], [("h", None)], [("h", b"1")]]


def test_csv(stub: BrokerStub, tmp_path: Path) -> None:
    """Quotes, newlines in cells and a byte order mark are read as the csv module reads them; a whole row is sent as a JSON object."""
    file = tmp_path / "in.csv"
    file.write_bytes(b'\xef\xbb\xbfid,name\r\n1,"a ""b"",\r\nc"\r\n\r\n2,\r\n')
    assert produce(stub, file, "--key-field", "id").returncode == 0
    assert [(key, json.loads(value or b"")) for key, value in rows(stub)] == [
        (b"1", {"id": "1", "name": 'a "b",\r\nc'}),
        (b"2", {"id": "2", "name": ""}),
    ]
    assert produce(stub, file, "--key-field", "id", "--value-field", "name").returncode == 0
    assert rows(stub)[2:] == [(b"1", b'a "b",\r\nc'), (b"2", b"")]


def test_parquet(stub: BrokerStub, tmp_path: Path) -> None:
    """Columns go through `send_arrow`, headers as pairs; a column that cannot be sent is named."""
    file = tmp_path / "in.parquet"
    pairs = pa.array([[("h", b"1")], None, []], pa.map_(pa.string(), pa.binary()))
    pq.write_table(pa.table({"id": ["a", None, "c"], "value": [b"1", b"2", None], "h": pairs, "n": [1, 2, 3]}), file)
    ran = produce(stub, file, "--key-field", "id", "--header-field", "h")
    assert ran.returncode == 0, ran.stderr
    assert rows(stub) == [(b"a", b"1"), (None, b"2"), (b"c", None)]
    assert list(stub.records("t", 0)[0].headers) == [("h", b"1")]
    assert "must be a string or binary column, not int64" in complaint(produce(stub, file, "--value-field", "n"))
    assert "--key-field x: the file has no such column, but id, value, h, n" in complaint(produce(stub, file, "--key-field", "x"))
    assert "cannot be read from standard input" in complaint(produce(stub, "--format", "parquet", "-", given=b""))
    file.write_bytes(b"no")
    assert "cannot be read as a Parquet file" in complaint(produce(stub, file))


# -- what does not get there -------------------------------------------------------------------------------------------------


def test_bad_lines_are_named_and_the_others_sent(stub: BrokerStub, tmp_path: Path) -> None:
    """Each bad line is told with its number and reason and kept as it was; exit code 1. Mended, the file can be sent as it is."""
    file, failed = tmp_path / "in.json", tmp_path / "failed.json"
    file.write_bytes(b'{"id": 1}\n{"id": \n{"other": 2}\n{"id": 3}\n[]\n')
    ran = produce(stub, file, "--key-field", "id", "--failed-to", failed)
    assert ran.returncode == 1
    assert "2 records acknowledged, 3 failed" in ran.stderr
    assert "  line 2: " in ran.stderr
    assert "  line 3: there is no field 'id'; the fields are other (not in the log)" in ran.stderr
    assert "  line 5: " in ran.stderr
    assert f"the failed records are in {failed}, the reasons in {failed}.reasons" in ran.stderr
    assert [key for key, _ in rows(stub)] == [b"1", b"3"]
    assert failed.read_bytes() == b'{"id": \n{"other": 2}\n[]\n'
    assert [(each["number"], each["persisted"]) for each in reasons(failed)] == [(2, "NO"), (3, "NO"), (5, "NO")]


def test_bad_rows_of_csv(stub: BrokerStub, tmp_path: Path) -> None:
    """A row with too many cells and one that never ends are named by the line where they begin, and kept below the header."""
    file, failed = tmp_path / "in.csv", tmp_path / "failed.csv"
    file.write_bytes(b'id,v\n1,"x\ny"\n2,a,b\n3,z\n4,"no end\n')
    ran = produce(stub, file, "--key-field", "id", "--value-field", "v", "--failed-to", failed)
    assert ran.returncode == 1
    assert "  line 4: 3 cells where the first line names 2 columns" in ran.stderr
    assert "  line 6: unexpected end of data" in ran.stderr
    assert rows(stub) == [(b"1", b"x\ny"), (b"3", b"z")]
    assert failed.read_bytes() == b'id,v\n2,a,b\n4,"no end\n'


def test_a_csv_row_that_is_not_utf_8(stub: BrokerStub, tmp_path: Path) -> None:
    """As JSON it cannot be sent, and the byte is named; one of its columns can, as it is."""
    file = tmp_path / "in.csv"
    file.write_bytes(b"k,v\n1,caf\xe9\n2,tea\n")
    ran = produce(stub, file)
    assert ran.returncode == 1
    assert "  line 2: byte 0xe9 is not UTF-8, which JSON needs; --value-field sends a column as it is (not in the log)" in ran.stderr
    assert produce(stub, file, "--value-field", "v").returncode == 0
    assert rows(stub) == [(None, b'{"k":"2","v":"tea"}'), (None, b"caf\xe9"), (None, b"tea")]


def test_a_record_that_is_too_large(stub: BrokerStub, tmp_path: Path) -> None:
    """It alone fails, with the setting that it exceeds; those around it are acknowledged."""
    file, failed = tmp_path / "in.txt", tmp_path / "failed.txt"
    file.write_bytes(b"before\n" + b"x" * 3_000 + b"\nafter\n")
    ran = produce(stub, file, "--failed-to", failed, "--config", "max.request.size=2000")
    assert ran.returncode == 1
    assert "  line 2: a record of up to 3082 bytes exceeds max_request_size=2000 (not in the log)" in ran.stderr
    assert [value for _, value in rows(stub)] == [b"before", b"after"]
    assert failed.read_bytes() == b"x" * 3_000 + b"\n"


@pytest.mark.parametrize("suffix", ["txt", "parquet"])
def test_records_that_the_broker_refuses(stub: BrokerStub, tmp_path: Path, suffix: str) -> None:
    """They are kept as they came, so that a second run sends just them; afterwards the topic has every record once."""
    file, failed = tmp_path / f"in.{suffix}", tmp_path / f"failed.{suffix}"
    values = [b"%d" % number for number in range(10)]
    if suffix == "parquet":
        pq.write_table(pa.table({"value": pa.array(values), "more": list(range(10))}), file)
    else:
        file.write_bytes(b"\n".join(values))
    # In however many batches they come.
    stub.faults.on(Api.PRODUCE).forever().error(ErrorCode.INVALID_RECORD)
    ran = produce(stub, file, "--failed-to", failed)
    stub.faults.clear()
    first, last, unit = (0, 9, "rows") if suffix == "parquet" else (1, 10, "lines")
    assert ran.returncode == 1
    assert "0 records acknowledged, 10 failed" in ran.stderr
    assert f"  {unit} {first} to {last}: t-0: refused by the broker" in ran.stderr
    assert rows(stub) == []
    assert [each["number"] for each in reasons(failed)] == list(range(first, last + 1))
    assert produce(stub, failed).returncode == 0
    assert [value for _, value in rows(stub)] == values


def test_records_that_may_be_in_the_log_are_said_to(stub: BrokerStub, tmp_path: Path) -> None:
    """When replies are lost until the delivery timeout, the records are in the log or not; the report says so, and so do the reasons."""
    stub.create_topic("t")
    stub.faults.on(Api.PRODUCE).forever().drop_reply()
    stub.faults.on(Api.DESCRIBE_PRODUCERS).forever().drop()
    failed = tmp_path / "failed"
    settings = [
        each for name, ms in {"request.timeout.ms": 300, "delivery.timeout.ms": 1_800}.items() for each in ("--config", f"{name}={ms}")
    ]
    ran = produce(stub, "--failed-to", failed, *settings, "-", given=b"one\ntwo\n")
    assert ran.returncode == 1
    assert "(may be in the log)" in ran.stderr
    assert "2 of the failed records may be in the log: sending them again may double them" in ran.stderr
    assert [each["persisted"] for each in reasons(failed)] == ["MAYBE", "MAYBE"]


def test_a_run_without_failures_leaves_no_file(stub: BrokerStub, tmp_path: Path) -> None:
    """--failed-to makes its files when something fails."""
    assert produce(stub, "--failed-to", tmp_path / "failed", "-", given=b"x\n").returncode == 0
    assert list(tmp_path.iterdir()) == []


def test_a_buffer_that_stays_full(stub: BrokerStub, tmp_path: Path) -> None:
    """When nothing more is accepted for max.block.ms it stops reading, says from which line on, and keeps what it had read."""
    stub.create_topic("t")
    stub.faults.on(Api.PRODUCE).forever().hold()
    file, failed = tmp_path / "in.txt", tmp_path / "failed.txt"
    lines = [b"%d" % number + b"x" * 100 for number in range(20_000)]
    file.write_bytes(b"\n".join(lines))
    settings = {"buffer.memory": 50_000, "max.request.size": 10_000, "max.block.ms": 1_000, "request.timeout.ms": 1_000}
    given = [each for name, value in {**settings, "delivery.timeout.ms": 3_000}.items() for each in ("--config", f"{name}={value}")]
    ran = produce(stub, "--failed-to", failed, *given, file)
    assert ran.returncode == 1
    assert "stopped: nothing could be accepted for 1 s" in ran.stderr
    stopped = int(ran.stderr.split("nothing from line ")[1].split()[0])
    assert 1 < stopped <= len(lines)
    assert sorted(failed.read_bytes().splitlines()) == sorted(lines[: stopped - 1])


# -- signals -----------------------------------------------------------------------------------------------------------------


def test_a_pipe_is_sent_as_it_comes_and_ctrl_c_ends_it(stub: BrokerStub) -> None:
    """Lines are in the log while the pipe stays open. Ctrl-C delivers what was read, but for a line that was not ended, and reports."""
    with running("produce", "--bootstrap", stub.bootstrap, "--topic", "t", "-") as process:
        assert process.stdin is not None
        process.stdin.write(b"one\ntwo\nhal")
        process.stdin.flush()
        until(lambda: "t" in [topic.name for topic in stub.cluster.topics] and len(rows(stub)) == 2, "two records")
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=20)
    assert process.returncode == 128 + signal.SIGINT
    assert b"standard input: 2 records acknowledged, in " in errors
    assert b"stopped: interrupted; nothing from line 3 on was read" in errors
    assert [value for _, value in rows(stub)] == [b"one", b"two"]


def test_ctrl_c_waits_no_longer_than_it_may(stub: BrokerStub, tmp_path: Path) -> None:
    """With a broker that does not answer it ends after exit.flush.ms, or at once when asked twice, and names what has no outcome."""
    stub.create_topic("t")
    hold = stub.faults.on(Api.PRODUCE).forever().hold()
    for presses, patience_ms in ((1, 300), (2, 60_000)):
        failed = tmp_path / f"failed{presses}"
        options = ("--config", f"exit.flush.ms={patience_ms}", "--failed-to", failed)
        with running("produce", "--bootstrap", stub.bootstrap, "--topic", "t", *options, "-") as process:
            assert process.stdin is not None
            process.stdin.write(b"one\n")
            process.stdin.flush()
            hold.wait(presses, 20)
            process.send_signal(signal.SIGINT)
            assert process.stderr is not None
            assert process.stderr.readline().startswith(b"stopping: ")
            if presses == 2:
                process.send_signal(signal.SIGINT)
            _, errors = process.communicate(timeout=20)
        assert process.returncode == 128 + signal.SIGINT
        assert b"0 records acknowledged, 1 failed" in errors
        assert failed.read_bytes() == b"one\n"
        assert reasons(failed)[0]["persisted"] == "MAYBE"


# -- mistakes ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("job", [(), ("--job", "lines")], ids=["without a job", "with a job"])
def test_progress_without_a_terminal(stub: BrokerStub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, job: tuple[str, ...]) -> None:
    """It is a line from time to time: how much is read, acknowledged, and how fast. With --quiet there is none."""
    monkeypatch.setattr(producing, "LINE_S", 0.0)
    file = tmp_path / "numbers"
    file.write_text("".join(f"{number}\n" for number in range(20_000)))
    stub.faults.on(Api.PRODUCE).on_call(2).delay(1_000)
    ran = produce(stub, *job, file)
    assert ran.returncode == 0, ran
    lines = [line for line in ran.stderr.splitlines() if "records/s" in line and "read, " in line]
    assert lines
    for line in lines:
        assert re.fullmatch(r"fencepost produce: \d+% read, [\d,]+ acknowledged, [\d,]+ records/s", line), line
    more = tmp_path / "more"
    more.write_text(file.read_text())
    assert "% read" not in produce(stub, *job[:1], *(f"{each}-quiet" for each in job[1:]), "--quiet", more).stderr


def test_mistakes_are_one_line(stub: BrokerStub, tmp_path: Path) -> None:
    """Wrong options, files and settings end with exit code 2 and one line that names the option; nothing is sent."""
    assert complaint(run("produce", "--topic", "t", "-")) == (
        "fencepost produce: no broker address: give --bootstrap HOST:PORT or --profile NAME,"
        " or set FENCEPOST_BOOTSTRAP or KAFKA_BOOTSTRAP_SERVERS"
    )
    assert "nowhere.txt cannot be read: No such file" in complaint(produce(stub, tmp_path / "nowhere.txt"))
    assert "is a directory" in complaint(produce(stub, tmp_path))
    assert "did you mean 'linger.ms'?" in complaint(produce(stub, "--config", "linger.m=5", "-", given=b""))
    assert "--config 'linger.ms' is not NAME=VALUE" in complaint(produce(stub, "--config", "linger.ms", "-", given=b""))
    assert "add --format json or csv" in complaint(produce(stub, "--key-field", "id", "-", given=b""))
    assert "--key-field x: the first line has no such column, but a, b" in complaint(
        produce(stub, "--key-field", "x", "--format", "csv", "-", given=b"a,b\n")
    )
    assert "names the column 'a' twice" in complaint(produce(stub, "--format", "csv", "-", given=b"a,a\n"))
    assert "there is no directory" in complaint(produce(stub, "--failed-to", tmp_path / "no" / "file", "-", given=b""))
    assert "not 'host:port'" in complaint(run("produce", "--topic", "t", "--bootstrap", "nowhere", "-"))
    assert all(exchange.api != Api.PRODUCE for exchange in stub.journal.requests())


def test_no_broker(stub: BrokerStub) -> None:
    """A closed port is reported within the time limit, before any input is read."""
    stub.stop_broker(1)
    ran = produce(stub, "--config", "max.block.ms=500", "-", given=b"x\n")
    assert stub.bootstrap in complaint(ran)


def test_the_address_may_come_from_the_environment(stub: BrokerStub) -> None:
    """FENCEPOST_BOOTSTRAP goes before KAFKA_BOOTSTRAP_SERVERS, and --bootstrap before both."""
    assert run("produce", "--topic", "t", "-", given=b"1\n", KAFKA_BOOTSTRAP_SERVERS=stub.bootstrap).returncode == 0
    wrong = {"KAFKA_BOOTSTRAP_SERVERS": "127.0.0.1:1"}
    assert run("produce", "--topic", "t", "-", given=b"2\n", FENCEPOST_BOOTSTRAP=stub.bootstrap, **wrong).returncode == 0
    assert [value for _, value in rows(stub)] == [b"1", b"2"]


@pytest.mark.timeout(300)
def test_on_kafka(kafka: KafkaCluster, tmp_path: Path) -> None:
    """What confluent-kafka reads from a real topic are the rows of the file, once each."""
    topic = f"cli-produce-{secrets.token_hex(4)}"
    Admin(kafka.bootstrap).create(topic, partitions=3)
    file = tmp_path / "in.csv"
    file.write_text("id,name\n" + "".join(f"{number % 7},n{number}\n" for number in range(5_000)))
    ran = run("produce", "--bootstrap", kafka.bootstrap, "--topic", topic, "--key-field", "id", "--value-field", "name", file)
    assert ran.returncode == 0, ran.stderr
    found = [(message.key(), message.value()) for message in read_topic(kafka.bootstrap, topic)]
    assert sorted(found) == sorted((b"%d" % (number % 7), b"n%d" % number) for number in range(5_000))
