"""docs/testing.md is true: its tests run as printed, and pass."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from fencepost import Api, BrokerStub, ErrorCode, Persisted, Producer, RecordRefused
from fencepost.broker_stub.faults.rules import Fault, Faults, Rule
from tests.pages import page_text, programs

PAGE = page_text("testing.md")


def test_the_tests_of_the_page_pass(tmp_path: Path) -> None:
    """Each of them, with nothing but pytest and fencepost."""
    program = "\n\n".join(programs(PAGE))
    (tmp_path / "test_page.py").write_text(program)
    plugins = ["-p", "no:cacheprovider", "-p", "no:hypothesispytest"]
    command = [sys.executable, "-m", "pytest", "-q", *plugins, "-c", os.devnull, "--rootdir", str(tmp_path), "test_page.py"]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=100, check=False)
    assert ran.returncode == 0, ran.stdout
    assert f"{program.count('def test_')} passed" in ran.stdout


def test_the_program_about_retention_on_a_slow_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """The record has the producer's time. So the clock is advanced by more than the time that is left to the machine before it is sent."""
    (program,) = (each for each in programs(PAGE) if '"retention.ms"' in each)
    create = BrokerStub.create_topic

    def slowly(*arguments: Any, **more: Any) -> Any:
        created = create(*arguments, **more)
        time.sleep(1.5)
        return created

    monkeypatch.setattr(BrokerStub, "create_topic", slowly)
    exec(program, {})


@pytest.mark.parametrize("code", ["OUT_OF_ORDER_SEQUENCE_NUMBER", "UNKNOWN_PRODUCER_ID", "INVALID_PRODUCER_EPOCH"])
def test_a_rule_that_denies_a_sequence_doubles_a_record(code: str) -> None:
    """What the page says of rules that state what no broker could."""
    assert code in PAGE
    with BrokerStub() as stub, Producer(stub.settings) as producer:
        stub.faults.on(Api.PRODUCE).after_append().error(ErrorCode[code])
        assert producer.send("orders", b"one").result(20).offset == 1
        assert [record.value for record in stub.records("orders", 0)] == [b"one", b"one"]


@pytest.mark.parametrize("point", ["after_append", "reply"])
def test_a_rule_that_denies_a_write_fails_a_record_that_is_there(point: str) -> None:
    """With `after_append` or `reply`, a record that the broker appended fails with the rule's code, and the failure says NO."""
    with BrokerStub() as stub, Producer(stub.settings) as producer:
        rule = stub.faults.on(Api.PRODUCE)
        (rule.after_append() if point == "after_append" else rule.reply()).error(ErrorCode.MESSAGE_TOO_LARGE)
        refused = producer.send("orders", b"one").exception(20)
        assert isinstance(refused, RecordRefused)
        assert refused.persisted is Persisted.NO
        assert [record.value for record in stub.records("orders", 0)] == [b"one"]


def test_the_words_of_the_table_are_methods() -> None:
    """What the page says of faults exists."""
    table = PAGE.split("## Faults")[1].split("## Time")[0]
    names = set(re.findall(r"`(?:faults\.)?(\w+)(?:\(|`)", "\n".join(line for line in table.splitlines() if line.startswith("|"))))
    assert {"on", "where", "drop_reply", "hits"} <= names
    assert [name for name in names if not any(hasattr(kind, name) for kind in (Faults, Rule, Fault))] == []
