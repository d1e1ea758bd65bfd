"""What the stub does about each config: the table names a test for each that it obeys, and a warning names the others."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from fencepost.broker_stub.configs.client_metrics_configs import CLIENT_METRICS_CONFIGS
from fencepost.broker_stub.configs.dynamic_broker_configs import DYNAMIC
from fencepost.broker_stub.configs.group_configs import GROUP_CONFIGS
from fencepost.broker_stub.configs.topic_configs import BROKER_CONFIGS, TOPIC_CONFIGS, TOPIC_NAMES
from fencepost.broker_stub.configs.uses import BROKER_USES, CLIENT_METRICS_USES, DYNAMIC_USES, GROUP_USES, TOPIC_USES, Obeyed
from tests.broker_stub.configs.test_broker_configs import CASES
from tests.broker_stub.stub_calls import Inside


def test_every_config_is_obeyed_or_says_that_it_is_not() -> None:
    """The table has every config that the stub accepts. The code of an obeyed config reads it, and its row names a test that exists."""
    root = Path(__file__).parents[3]
    assert TOPIC_USES.keys() == TOPIC_CONFIGS.keys()
    assert BROKER_USES.keys() == BROKER_CONFIGS.keys()
    assert DYNAMIC_USES.keys() == DYNAMIC.keys() - BROKER_CONFIGS.keys() - TOPIC_NAMES.keys()
    assert GROUP_USES.keys() == GROUP_CONFIGS.keys()
    assert CLIENT_METRICS_USES.keys() == CLIENT_METRICS_CONFIGS.keys()
    tables = (
        *("topic_configs.py", "types.py", "uses.py", "config_entries.py", "alter_config_checks.py"),
        *("dynamic_broker_configs.py", "static_broker_configs.py"),
    )
    readers = [each for each in (root / "broker_stub").rglob("*.py") if each.name not in tables]
    read = "\n".join(each.read_text(encoding="utf-8") for each in readers)
    for name, use in [*TOPIC_USES.items(), *BROKER_USES.items()]:
        assert isinstance(use, Obeyed) is (f'"{name}"' in read), f"{name}: {use}"
        if isinstance(use, Obeyed):
            file, _, test = use.shown.partition("::")
            test, _, case = test.removesuffix("]").partition("[")
            assert f"def {test}(" in (root / file).read_text(encoding="utf-8"), f"{name}: {use.shown} is not there"
            assert not case or case in CASES, f"{name}: {use.shown} is not there"
    for use in (*DYNAMIC_USES.values(), *GROUP_USES.values(), *CLIENT_METRICS_USES.values()):
        if isinstance(use, Obeyed):
            file, _, test = use.shown.partition("::")
            assert f"def {test}(" in (root / file).read_text(encoding="utf-8"), f"{use.shown} is not there"


def test_a_config_that_is_only_described_says_so(caplog: pytest.LogCaptureFixture) -> None:
    """Once, with what happens instead, whether it was given to the brokers or to a topic; those that are obeyed say nothing."""
    caplog.set_level(logging.INFO)
    inside = Inside(config={"log.flush.interval.ms": 5, "min.insync.replicas": 1})
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    inside.topic(preallocate="true", flush_ms="8", max_message_bytes="9")
    inside.topic("u", flush_ms="7")
    said = [record.getMessage() for record in caplog.records]
    assert said == [
        "log.flush.interval.ms=5 is kept and described, and not obeyed: "
        "as by a Kafka without log.flush.scheduler.interval.ms, which never looks",
        *sorted(said[1:]),
    ]
    assert [each.split("=")[0] for each in sorted(said[1:])] == ["flush.ms", "preallocate"]
