"""The README and docs/quickstart.md are true: their programs run as printed, their commands exist."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fencepost.cli.app import app
from tests.once import once_is_enough
from tests.pages import ROOT, page_text, programs
from tests.txn.spark.conftest import provide_java
from tests.txn.spark.java_flags import java_flags

README = (ROOT / "README.md").read_text(encoding="utf-8")
QUICKSTART = page_text("quickstart.md")
CODE_LINES_MAX = 12


def test_the_program_runs_as_printed() -> None:
    """The README's program runs, loses a reply, and ends with each record once."""
    for _ in range(4):
        ran = subprocess.run([sys.executable, "-c", programs(README)[0]], capture_output=True, text=True, timeout=60, check=False)
        assert ran.returncode == 0, ran.stderr
        assert "RecordMetadata(topic='greetings', partition=0, offset=999" in ran.stdout
        assert ran.stderr == ""
        # Where the machine pauses for longer than request_timeout_ms, another batch comes twice.
        if "1 batch came twice and was refused" in ran.stdout:
            break
    else:
        raise AssertionError(ran.stdout)


@pytest.mark.parametrize(
    ("word", "out"),
    [
        ("AsyncProducer", "0 10000 {0: [range(1, 10001)]} {}\n"),
        ("value_serializer", "[(b'berlin', b'{\"id\":7,\"paid\":true}'), (b'berlin', None)]\n"),
        ("dead_letter", "[b'good', b'bad']\n"),
    ],
)
def test_a_program_of_the_quickstart_runs_as_printed(word: str, out: str) -> None:
    """What it sent is in the log, and nothing is on standard error."""
    (program,) = [each for each in programs(QUICKSTART) if word in each]
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=100, check=False)
    assert (ran.returncode, ran.stderr, ran.stdout) == (0, "", out)


@once_is_enough("starts Spark")
@pytest.mark.timeout(400)
def test_the_program_with_spark_runs_as_printed(tmp_path: Path) -> None:
    """A micro-batch with nothing but the stub."""
    provide_java()
    (program,) = [each for each in programs(QUICKSTART) if "pyspark" in each]
    where = {**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    where["PYSPARK_SUBMIT_ARGS"] = f"--driver-java-options '{java_flags()}' pyspark-shell"
    command = [sys.executable, "-c", program]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, env=where, cwd=tmp_path)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout == "1000 rows, visible at once; guard: turns\n"


def test_the_program_is_short() -> None:
    """Twelve lines are enough to write exactly once."""
    assert len([line for line in programs(README)[0].splitlines() if line.strip()]) <= CODE_LINES_MAX


def test_the_messages_of_the_quickstart_are_those_of_the_code() -> None:
    """What its table quotes of logs and errors stands in the sources, and each error class is public."""
    import fencepost

    table = QUICKSTART.split("## When it does not work")[1].split("## ")[0]
    seen = [line.split("|")[1] for line in table.splitlines() if line.startswith("| ")][1:]
    quoted = [text for cell in seen for text in re.findall(r"`([^`]+)`", cell)]
    sources = "".join(path.read_text(encoding="utf-8") for room in ("producer", "txn") for path in (ROOT / room).rglob("*.py"))
    python_says = ["Connection refused", "'RecordFuture' object has no attribute 'offset'"]
    assert set(python_says) <= set(quoted)
    others = [text for text in quoted if text not in python_says]
    assert len(others) >= 5
    assert [text for text in others if not hasattr(fencepost, text) and text not in sources] == []
    with fencepost.BrokerStub() as stub, fencepost.Producer(bootstrap_servers=stub.bootstrap) as producer:
        future = producer.send("t", b"v")
        with pytest.raises(AttributeError, match=python_says[1]):
            future.offset  # type: ignore[attr-defined]  # noqa: B018


def test_the_commands_are_there() -> None:
    """`make demo` and `make test` are targets, and CI runs the README's test command."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"^    make (\w+)", README, re.MULTILINE):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target
    assert "\n    make demo\n" in README
    assert "\n    make test\n" in README
    assert "\nmake test\n" in (ROOT / ".ci" / "run").read_text(encoding="utf-8")


def test_the_shell_lines_have_options_that_exist() -> None:
    """Every `fencepost` line of the README names commands and options that the command line has."""
    lines = re.findall(r"^    fencepost (\w+) (.*?)(?:\s+#.*)?$", README, re.MULTILINE)
    assert {command for command, _ in lines} >= {"broker", "consume", "doctor", "produce", "proxy", "topics", "txn"}
    for command, arguments in lines:
        group = arguments.split()[:1] if command in ("fault", "topics", "txn") else []
        shown = CliRunner().invoke(app, [command, *group, "--help"], env={"COLUMNS": "200"}, catch_exceptions=False)
        assert shown.exit_code == 0
        for option in re.findall(r"--[\w-]+", arguments):
            assert option in shown.stdout
