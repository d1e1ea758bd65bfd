"""Fault rules as plain data: they mean what the methods mean, can be given again as they are told, and are refused with a reason."""

from __future__ import annotations

from typing import Any

import pytest

from fencepost.broker_stub.faults.rules import Faults
from fencepost.broker_stub.faults.specs import ACTIONS, FIELDS, add_fault
from fencepost.producer.wire import Api, ErrorCode

DROP = {"action": "drop"}


def words(spec: object, **known: Any) -> str:
    """Why it was refused; nothing was installed."""
    faults = Faults(**known)
    with pytest.raises((TypeError, ValueError)) as refused:
        add_fault(faults, spec)
    assert faults.installed == ()
    return str(refused.value)


@pytest.mark.parametrize(
    ("spec", "rule"),
    [
        ({"on": "PRODUCE", "action": "drop_reply", "times": 3}, lambda faults: faults.on(Api.PRODUCE).drop_reply().times(3)),
        ({"on": ["Produce", 1], "action": "drop"}, lambda faults: faults.on(Api.PRODUCE, Api.FETCH).drop()),
        ({"on": "init-producer-id", "txn": "x", **DROP}, lambda faults: faults.on(Api.INIT_PRODUCER_ID).where(txn="x").drop()),
        ({"action": "disconnect", "at": "reply", "node": 2}, lambda faults: faults.on().where(node=2).reply().disconnect()),
        (
            {"on": "PRODUCE", "topic": "t", "partition": 0, "action": "error", "code": "not_enough_replicas", "forever": True},
            lambda faults: faults.on(Api.PRODUCE).where(topic="t", partition=0).error(ErrorCode.NOT_ENOUGH_REPLICAS).forever(),
        ),
        ({"action": "error", "code": -1}, lambda faults: faults.on().error(ErrorCode.UNKNOWN_SERVER_ERROR)),
        ({"action": "error", "code": "777"}, lambda faults: faults.on().error(777)),
        ({"action": "delay", "ms": 5, "on_call": 2}, lambda faults: faults.on().delay(5).on_call(2)),
        ({"action": "throttle", "ms": 5, "topic": None}, lambda faults: faults.on().throttle(5)),
        ({"action": "hold", "client_id": "c", "forever": False}, lambda faults: faults.on().where(client_id="c").hold()),
        ({"action": "duplicate", "probability": 0.5, "seed": 7}, lambda faults: faults.on().duplicate().probability(0.5, 7)),
        ({"action": "duplicate", "probability": 1}, lambda faults: faults.on().duplicate().probability(1, 0)),
        ({"on": "FIND_COORDINATOR", "group": "g", **DROP}, lambda faults: faults.on(Api.FIND_COORDINATOR).where(group="g").drop()),
        (
            {"on": ["PRODUCE", "HEARTBEAT"], "group": "g", **DROP},
            lambda faults: faults.on(Api.PRODUCE, Api.HEARTBEAT).where(group="g").drop(),
        ),
    ],
    ids=lambda value: None if callable(value) else str(value)[:60],
)
def test_a_spec_is_the_rule_that_python_would_write(spec: dict[str, Any], rule: Any) -> None:
    """The installed rule is the same, and what is told of it makes the same rule again."""
    first, second, third = Faults(), Faults(), Faults()
    given, written = add_fault(first, spec), rule(second)
    assert given.as_data() == written.as_data()
    assert str(given) == str(written)
    again = {name: value for name, value in given.as_data().items() if name in FIELDS}
    assert add_fault(third, again).as_data() == given.as_data()


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        (None, ["a rule is an object", "action", "None"]),
        ([], ["a rule is an object"]),
        ({}, ["action=None", *ACTIONS]),
        ({"actoin": "drop"}, ["'actoin'", "did you mean action?"]),
        ({"action": "dorp"}, ["'dorp'", "did you mean drop?"]),
        ({"action": ["drop"]}, ["['drop']"]),
        ({"on": "PRODUSE", **DROP}, ["'PRODUSE'", "did you mean PRODUCE?", "INIT_PRODUCER_ID"]),
        ({"on": 70_000, **DROP}, ["on=70000 is no API"]),
        ({"on": True, **DROP}, ["on=True is no API"]),
        ({"on": {"a": 1}, **DROP}, ["is no API"]),
        ({"at": "after", **DROP}, ["'after'", "before, after_append, reply"]),
        ({"at": None, **DROP}, ["at=None", "before, after_append, reply"]),
        ({"at": "reply", "action": "drop_reply"}, ["drop_reply at reply", "for another point say drop"]),
        ({"action": "error"}, ["error needs code", "NOT_ENOUGH_REPLICAS"]),
        ({"action": "error", "code": "NOT_ENOUGH_REPLICA"}, ["did you mean NOT_ENOUGH_REPLICAS?"]),
        ({"action": "error", "code": 40_000}, ["40000", "-32768 to 32767"]),
        ({"action": "error", "code": "NONE"}, ["code=", "NONE", "-32768 to 32767"]),
        ({"action": "error", "code": None}, ["code=None"]),
        ({"action": "delay"}, ["delay needs ms"]),
        ({"action": "delay", "ms": -1}, ["ms=-1"]),
        ({"action": "delay", "ms": 1.5}, ["ms=1.5"]),
        ({"action": "drop", "ms": 1}, ["ms=1: drop has none"]),
        ({"action": "drop", "code": 1}, ["code=1: drop has none"]),
        ({"times": 0, **DROP}, ["times=0", "from 1 to"]),
        ({"times": None, **DROP}, ["times=None", "from 1 to"]),
        ({"times": False, **DROP}, ["times=False", "from 1 to"]),
        ({"forever": None, **DROP}, ["forever=None"]),
        ({"on": None, **DROP}, ["on=None is no API"]),
        ({"on_call": True, **DROP}, ["on_call=True"]),
        ({"times": 1, "forever": True, **DROP}, ["times and forever exclude each other"]),
        ({"forever": 1, **DROP}, ["forever=1"]),
        ({"probability": 2, **DROP}, ["probability=2", "0 to 1"]),
        ({"probability": float("nan"), **DROP}, ["probability=nan"]),
        ({"probability": 0.5, "seed": "x", **DROP}, ["seed='x'"]),
        ({"seed": 3, **DROP}, ["seed=3", "only probability"]),
        ({"partition": -1, **DROP}, ["partition=-1"]),
        ({"partition": True, **DROP}, ["partition=True"]),
        ({"topic": 5, **DROP}, ["topic=5: must be the name of a topic"]),
        ({"on": "PRODUCE", "group": "g", **DROP}, ["group='g'", "PRODUCE name no group", "JOIN_GROUP"]),
        ({"on": "FETCH", "txn": "x", **DROP}, ["txn='x'", "FETCH name no txn", "INIT_PRODUCER_ID"]),
        ({"on": "METADATA", "partition": 0, **DROP}, ["METADATA name no partition", "PRODUCE"]),
        ({"on": "HEARTBEAT", "topic": "t", **DROP}, ["HEARTBEAT name no topic"]),
        ({"topic": "x" * 1000, "action": "y" * 1000}, ["..."]),
    ],
    ids=lambda value: str(value)[:60],
)
def test_what_is_no_rule_is_refused(spec: object, said: list[str]) -> None:
    """The value is named, and what would do; also where a rule could never fire."""
    refusal = words(spec)
    assert [each for each in said if each not in refusal] == [], refusal
    assert len(refusal) < 2000


def test_a_stub_refuses_what_is_not_there() -> None:
    """An API that it does not serve and a broker that it does not have."""
    assert "END_TXN: this stub does not serve it" in words({"on": "END_TXN", **DROP}, served={0, 1})
    assert "node=9: there is no such broker, only 1, 2" in words({"node": 9, **DROP}, nodes={2, 1})
