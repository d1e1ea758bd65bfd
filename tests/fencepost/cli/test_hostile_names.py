"""Names, headers, keys, reasons and errors of others reach a terminal only as printable text, with every command."""

from __future__ import annotations

import ast
import json
import re
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any, Final

import pytest
import typer
from typer.testing import CliRunner

import fencepost.cli
from fencepost import Producer
from fencepost.broker_stub import BrokerStub
from fencepost.cli.app import app
from fencepost.cli.output import json_line, printable
from fencepost.producer.config.reader import read_settings
from fencepost.producer.wire.records import encode_batch
from fencepost.txn.jobs.positions import Positions, entry_of
from fencepost.txn.producer import TransactionalProducer
from tests.fencepost.cli.hostile_names import HARMLESS, HOSTILE, hostile_relay
from tests.fencepost.cli.shell import run
from tests.fencepost.cli.test_ledger import write
from tests.waiting import until

pytestmark = pytest.mark.timeout(300)

WAIT_S = 30.0
SOURCES = Path(fencepost.cli.__file__).parent
TALKERS = {"output.py", "console.py"}
"""Who may write: the one place, and the same for rich."""

Ran = tuple[tuple[object, ...], str]


def test_all_that_a_terminal_might_obey_is_escaped() -> None:
    """Of every character there is, only printable ones come out; JSON reads as what it was."""
    every = "".join(map(chr, (*range(0xD800), *range(0xE000, sys.maxunicode + 1, 7))))
    assert printable(every).isprintable()
    assert json_line({every: [every]}).isprintable()
    assert json.loads(json_line({every: [every]})) == {every: [every]}
    assert printable("\ud800").isprintable()
    assert printable("a\x1b[31m\u202e\x9b") == "a\\x1b[31m\\u202e\\x9b"


def test_only_one_place_prints() -> None:
    """In the sources of the command line only one place prints, and only one draws with rich."""
    for source in SOURCES.glob("*.py"):
        if source.name in TALKERS:
            continue
        for node in ast.walk(ast.parse(source.read_text())):
            called = node.func if isinstance(node, ast.Call) else None
            name = called.id if isinstance(called, ast.Name) else called.attr if isinstance(called, ast.Attribute) else ""
            where = f"{source.name}:{getattr(node, 'lineno', 0)}"
            assert name not in ("Console", "echo", "secho"), where
            assert name != "print" or isinstance(called, ast.Attribute), where
            if isinstance(node, ast.Attribute) and node.attr in ("stdout", "stderr") and isinstance(node.value, ast.Name):
                assert node.value.id != "sys" or source.name == "error_lines.py", where


PAUSES_AND_CLOCKS: Final = (("pause", 1), ("resume", 1), ("clock", 1, 5), ("loading", 1, 5), ("slow-disk", 1, 5))


class HostileControl(BaseHTTPRequestHandler):
    """A control whose rules and errors are hostile."""

    def do_GET(self) -> None:
        rule = {"id": 1, "on": [HOSTILE], "at": HOSTILE, "action": HOSTILE, "topic": HOSTILE, "hits": 0, "holding": 0}
        broker = {
            "stopped": 1,
            "started": 1,
            "address": HOSTILE,
            "node": 1,
            "fault": HOSTILE,
            "paused": HOSTILE,
            "resumed": HOSTILE,
            "ahead_ms": HOSTILE,
            "ms": HOSTILE,
        }
        place = {"corrupted": {"topic": HOSTILE, "partition": 0, "offset": 0}}
        self.answer(
            200,
            {
                "faults": [rule],
                "released": HOSTILE,
                "severed": [[1, HOSTILE]],
                "severed_one_way": [[1, HOSTILE]],
                "slow": [[1, 2, HOSTILE]],
                **broker,
                **place,
                **rule,
            },
        )

    do_DELETE = do_GET

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        if self.path == "/faults":
            self.answer(400, {"error": f"no {HOSTILE}"})
        else:
            self.do_GET()

    def answer(self, status: int, body: dict[str, Any]) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *arguments: Any) -> None:
        """Says nothing."""


@pytest.fixture(scope="module")
def control() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), HostileControl) as server:
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        serving.join(WAIT_S)


@pytest.fixture(scope="module")
def stub() -> Iterator[BrokerStub]:
    """With an open transaction, records and an entry of the ledger, all of hostile names."""
    with BrokerStub() as stub:
        stub.create_topic("t")
        stub.create_topic(HARMLESS, config={"retention.ms": "1000000000"})
        with Producer(bootstrap_servers=stub.bootstrap) as producer:
            producer.send("t", HOSTILE.encode() + b"\xff", key=HOSTILE.encode(), headers=[(HOSTILE, HOSTILE.encode())]).result(WAIT_S)
            producer.send(HARMLESS, b"one").result(WAIT_S)
        write(stub, HOSTILE)
        write(stub, f"{HOSTILE}bad", b"{")
        positions = Positions(read_settings({"bootstrap_servers": stub.bootstrap}))
        for job in (HOSTILE, "j"):
            entry = entry_of(job, {HOSTILE: [HOSTILE]}, source=HOSTILE, records=1, topic=HOSTILE, transactional_id=HOSTILE)
            positions.replace(job, entry, HOSTILE, WAIT_S)
        with member_of(stub, HOSTILE):
            yield stub


@contextmanager
def member_of(stub: BrokerStub, group: str) -> Iterator[None]:
    """A member of the group, with a client id of the same name; and a group of a similar name that has only offsets."""
    from confluent_kafka import Consumer, TopicPartition

    settings: dict[str, Any] = {"bootstrap.servers": stub.bootstrap, "client.id": group, "log_level": 0}
    past = Consumer({**settings, "group.id": f"{group}past"})
    past.commit(offsets=[TopicPartition(HARMLESS, 0, 1)], asynchronous=False)
    past.close()
    consumer = Consumer({**settings, "group.id": group})
    consumer.subscribe([HARMLESS])
    until(lambda: consumer.poll(0.05) or consumer.assignment(), "the consumer is a member of its group", timeout_s=WAIT_S)
    try:
        yield
    finally:
        consumer.close()


def prepared(stub: BrokerStub, name: str) -> str:
    with TransactionalProducer(bootstrap_servers=stub.bootstrap, transactional_id=name) as producer, producer.transaction() as tx:
        tx.send("t", b"one")
        return str(tx.prepare(WAIT_S))


def log_file(directory: Path) -> Path:
    """A segment with a hostile record, in a directory of a hostile name."""
    file = directory / f"{HOSTILE}-0" / "00000000000000000000.log"
    file.parent.mkdir(exist_ok=True)
    headers = [(HOSTILE, HOSTILE.encode())]
    file.write_bytes(encode_batch([(0, HOSTILE.encode(), HOSTILE.encode(), headers)], base_offset=0, leader_epoch=0))
    return file


def group_file(directory: Path) -> Path:
    """A group of hostile names, in a file of one."""
    file = directory / f"{HOSTILE}.members"
    file.write_text(json.dumps({"topics": {HOSTILE: 2}, "members": [{"id": HOSTILE, "subscribed": [HOSTILE], "owned": {HOSTILE: [0]}}]}))
    return file


def every_command(stub: BrokerStub, relay: str, control: str, directory: Path) -> Iterator[tuple[object, ...]]:
    """Each command, where it meets a hostile name in every way that it has."""
    at, there, by = ("--bootstrap", stub.bootstrap), ("--bootstrap", relay), ("--control", control)
    bad_json, bad_csv = directory / f"{HOSTILE}.json", directory / f"{HOSTILE}.csv"
    bad_json.write_text(json.dumps({HOSTILE: 1}) + "\n")
    bad_csv.write_text(f"{HOSTILE}\n1,2\n")
    yield "produce", *at, "--topic", "t", "--key-field", "a", bad_json
    yield "produce", *at, "--topic", "t", "--key-field", HOSTILE[::-1], bad_csv
    yield "produce", *at, "--topic", "t", bad_csv
    yield "produce", *at, "--topic", "t", directory / HOSTILE / "none"
    yield "produce", *there, "--topic", HOSTILE, bad_json
    yield "produce", *at, "--topic", "t", "--job", "k", bad_json
    yield "produce", *at, "--topic", "t", "--job", HOSTILE, bad_json
    yield "produce", *at, "--topic", "t", "--config", f"{HOSTILE}=1", bad_json
    for json_too in ((), ("--json",)):
        yield "consume", *at, "--topic", "t", "--from-beginning", "--exit-eof", *json_too
        yield "consume", *there, "--topic", HOSTILE, "--from-beginning", "--exit-eof", *json_too
        yield "topics", "list", *there, *json_too
        yield "topics", "describe", HOSTILE, *there, *json_too
        yield "groups", "list", *there, *json_too
        yield "groups", "describe", HOSTILE, *there, *json_too
        yield "groups", "describe", f"{HOSTILE}none", *there, *json_too
        yield "groups", "offsets", f"{HOSTILE}past", *there, *json_too
        yield "groups", "reset", f"{HOSTILE}past", "--to-latest", "--all-topics", *there, *json_too
        yield "groups", "reset", f"{HOSTILE}past", "--to-latest", "--topic", f"{HOSTILE}:7", *there, *json_too
        yield "groups", "plan", HOSTILE, "--join", HOSTILE, *there, *json_too
        yield "groups", "plan", "--members", group_file(directory), *json_too
        yield "txn", "list", *there, *json_too
        yield "txn", "describe", HOSTILE, *at, *json_too
        yield "txn", "describe", f"{HOSTILE}none", *at, *json_too
        yield "txn", "find-hanging", *there, "--max-transaction-timeout", 0, *json_too
        yield "jobs", "list", *at, *json_too
        yield "jobs", "describe", HOSTILE, *at, *json_too
        yield "jobs", "describe", "j", *at, *json_too
        yield "jobs", "reset", "j", "--to", json.dumps(HOSTILE), *at, *json_too
        yield "ledger", "list", *at, *json_too
        yield "ledger", "show", HOSTILE, *at, *json_too
        yield "ledger", "show", f"{HOSTILE}bad", *at, *json_too
        yield "doctor", relay, "--topic", HOSTILE, *json_too
        yield "fault", "list", *by, *json_too
        yield "fault", "release", 1, *by, *json_too
        yield "fault", "remove", 1, *by, *json_too
        yield "fault", "sever", 1, 2, *by, *json_too
        yield "fault", "mend", 1, 2, *by, *json_too
        yield "fault", "slow", 1, 2, 100, *by, *json_too
        for broken in (("stop", 1), ("start", 1), ("power", 1), *PAUSES_AND_CLOCKS, ("disk", 1, "full"), ("corrupt", HOSTILE, 0, 0)):
            yield "fault", *broken, *by, *json_too
        yield "log", "dump", "--records", log_file(directory), *json_too
        yield "log", "verify", log_file(directory).parent, *json_too
        for what in ("status", "commit", "abort"):
            yield "txn", what, prepared(stub, f"{HOSTILE}{what}{len(json_too)}"), *at, *json_too
    yield "consume", *there, "--topic", f"{HOSTILE}none", "--exit-eof"
    yield "topics", "create", HOSTILE[::-1], *at
    yield "topics", "create", "u", "--config", f"{HOSTILE}=1", *at
    yield "topics", "delete", f"{HOSTILE}none", *there
    yield "groups", "reset", HOSTILE, "--to-latest", "--all-topics", *there
    yield "groups", "reset", "g", "--to-datetime", HOSTILE, "--all-topics", *at
    yield "groups", "reset", "g", "--from-file", bad_csv, *at
    yield "groups", "plan", HOSTILE, "--leave", HOSTILE[::-1], *there
    yield "groups", "plan", "--members", bad_json
    yield "txn", "list", "--state", HOSTILE, *at
    yield "txn", "find-hanging", "--topic", f"{HOSTILE}none", *there
    token = json.loads(prepared(stub, f"{HOSTILE}open"))
    yield "txn", "commit", json.dumps({**token, "v": HOSTILE}), *at
    yield "txn", "abort-hanging", "--topic", "t", "--partition", 0, "--start-offset", 99, *at
    yield "txn", "abort-hanging", "--topic", f"{HOSTILE}none", "--partition", 0, "--start-offset", 99, *there
    yield "txn", "commit-hanging", "--topic", f"{HOSTILE}none", "--partition", 0, "--start-offset", 99, *there
    yield "ledger", "reset", HOSTILE, *at
    yield "ledger", "reset", HOSTILE, *at, "--yes"
    yield "fault", "add", "--action", "drop", *by
    yield "broker", "--port", 0, "--config", HOSTILE
    yield "broker", "--port", 0, "--config", f"{HOSTILE}=1", "--emulate", HOSTILE
    yield "proxy", HOSTILE
    yield "demo", "--rows", 2_000, "--bootstrap", f"{HOSTILE}:1"
    yield "demo", HOSTILE
    yield "spark-demo", f"--{HOSTILE}"
    yield (HOSTILE,)


def test_no_command_passes_a_control_on(stub: BrokerStub, control: str, tmp_path: Path) -> None:
    """Standard output and standard error of every command have printable characters only, and hostile names are told escaped."""
    surroundings = {"COLUMNS": "300", "NO_COLOR": "1", "TERM": "dumb", "FENCEPOST_BOOTSTRAP": "", "KAFKA_BOOTSTRAP_SERVERS": ""}
    met: set[str] = set()
    silent: list[str] = []
    with hostile_relay(int(stub.bootstrap.rpartition(":")[2])) as relay:
        for command in every_command(stub, relay, control, tmp_path):
            words = [str(each) for each in command]
            ran = CliRunner().invoke(app, words, env=surroundings)
            assert ran.exception is None or isinstance(ran.exception, SystemExit), (words, ran.exception)
            assert not [each for each in ran.output if not (each.isprintable() or each == "\n")], (words, ran.output)
            for line in ran.stdout.splitlines() if "--json" in words else ():
                json.loads(line)
            met.add(" ".join(words[: 2 if words[0] in ("topics", "groups", "txn", "ledger", "jobs", "fault", "log") else 1]))
            if "x1b" not in ran.output and "u001b" not in ran.output:
                silent.append(" ".join(words))
    assert met - {HOSTILE} == set(names_of(typer.main.get_command(app)))
    # What has nothing to quote, as a value that is printed alone, a place that is not there, or a text where a number belongs.
    assert len(silent) <= 23, silent


def names_of(group: Any, before: str = "") -> Iterator[str]:
    for name in group.list_commands(None):
        command = group.get_command(None, name)
        yield from names_of(command, f"{before}{name} ") if hasattr(command, "commands") else (f"{before}{name}",)


def test_colours_are_ours_alone(stub: BrokerStub) -> None:
    """Where a table has colours, they are the only thing that a terminal obeys."""
    with hostile_relay(int(stub.bootstrap.rpartition(":")[2])) as relay:
        ran = run("doctor", relay, "--topic", HOSTILE, FORCE_COLOR="1", NO_COLOR="", TERM="xterm-256color")
    plain = re.sub(r"\x1b\[[0-9;]*m", "", ran.stdout)
    assert plain != ran.stdout
    assert not [each for each in plain if not (each.isprintable() or each == "\n")], plain
    assert "\\x1b[31m\\x9b\\u202e" in plain


def test_a_traceback_is_printable_too(tmp_path: Path) -> None:
    """An unexpected error is shown with the text of others escaped."""
    from fencepost.cli.output import crash_text

    lines = crash_text(ValueError, ValueError(HOSTILE), None)
    assert "\\x1b[31m" in lines
    assert not [each for each in lines if not (each.isprintable() or each == "\n")]
