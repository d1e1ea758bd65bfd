"""`fencepost groups plan`: what each assignor would do, from a file or from a group."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fencepost.broker_stub import BrokerStub
from tests.fencepost.cli.group_stub import groups, stub_with_groups
from tests.fencepost.cli.shell import Ran, invoke

pytestmark = pytest.mark.timeout(200)

OWNED = {"m1": [0, 1, 2], "m2": [3, 4, 5]}


@pytest.fixture(scope="module")
def stub() -> Iterator[BrokerStub]:
    with stub_with_groups() as running:
        yield running


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Two members that share a topic of six partitions."""
    path = tmp_path / "group.json"
    members = [{"id": name, "subscribed": ["t"], "owned": {"t": owned}} for name, owned in OWNED.items()]
    path.write_text(json.dumps({"topics": {"t": 6, "u": [["r1"], ["r2"]]}, "members": members}))
    return path


def plan(file: Path, *arguments: object) -> Ran:
    return invoke("groups", "plan", "--members", file, *arguments)


def by_assignor(ran: Ran) -> dict[str, dict[str, Any]]:
    assert ran.code == 0, ran.err
    return {each["assignor"]: each for each in ran.objects}


def numbers(outcome: dict[str, Any]) -> dict[str, list[int] | None]:
    """The partitions of each member afterwards."""
    return {each["member"]: each["then"] and [number for _, number in each["then"]] for each in outcome["members"]}


def test_a_member_that_joins(file: Path) -> None:
    """The sticky assignors move two partitions, range and round robin more. The cooperative one needs two rounds, and pauses only two."""
    found = by_assignor(plan(file, "--join", "m3", "--json"))
    assert {name: (each["moved"], each["paused"], each["rounds"]) for name, each in found.items()} == {
        "range": (3, 6, 1),
        "roundrobin": (4, 6, 1),
        "sticky": (2, 6, 1),
        "cooperative-sticky": (2, 2, 2),
    }
    assert numbers(found["range"]) == {"m1": [0, 1], "m2": [2, 3], "m3": [4, 5]}
    assert numbers(found["sticky"]) == numbers(found["cooperative-sticky"]) == {"m1": [0, 1], "m2": [3, 4], "m3": [2, 5]}
    assert found["sticky"]["members"][0]["now"] == [["t", 0], ["t", 1], ["t", 2]]


def test_a_member_that_leaves(file: Path) -> None:
    """Its partitions go to the others, and none moves between those."""
    found = by_assignor(plan(file, "--leave", "m1", "--json"))
    assert [each["moved"] for each in found.values()] == [0, 0, 0, 0]
    assert numbers(found["sticky"]) == {"m1": None, "m2": [3, 4, 5, 0, 1, 2]}
    assert found["cooperative-sticky"]["paused"] == 0


def test_the_tables(file: Path) -> None:
    """One table compares the assignors, one has the members' partitions."""
    out = plan(file, "--join", "m3", "--subscribe", "t,u").out
    rows = [line.split() for line in out.splitlines() if line.strip()]
    assert rows[0] == ["assignor", "moved", "paused", "rounds", "most", "least"]
    assert ["sticky", "0", "6", "1", "3", "2"] in rows
    assert [row[0] for row in rows[-3:]] == ["m1", "m2", "m3"]
    assert "t:0,1,2" in out


def test_a_group_of_the_cluster(stub: BrokerStub) -> None:
    """The members and their partitions are the group's. A member is named by member id, instance id or client id."""
    found = by_assignor(groups(stub, "plan", "live", "--leave", "two", "--json"))
    (left,) = [each for each in found["range"]["members"] if each["then"] is None]
    assert left["now"] == [["t", 2]]
    assert by_assignor(groups(stub, "plan", "live", "--leave", "second", "--json")) == found
    assert by_assignor(groups(stub, "plan", "live", "--leave", left["member"], "--json")) == found
    joined = by_assignor(groups(stub, "plan", "live", "--join", "new", "--json"))
    assert joined["sticky"]["moved"] == 1
    more = by_assignor(groups(stub, "plan", "live", "--join", "new", "--subscribe", "t,u", "--json"))
    assert ["u", 0] in more["sticky"]["members"][-1]["then"]
    unchanged = by_assignor(groups(stub, "plan", "live", "--json"))
    assert [unchanged[name]["moved"] for name in ("sticky", "cooperative-sticky")] == [0, 0]
    empty = by_assignor(groups(stub, "plan", "past", "--join", "new", "--subscribe", "u", "--json"))
    assert empty["range"]["members"] == [{"member": "new", "now": [], "then": [["u", 0]]}]


@pytest.mark.parametrize(
    ("arguments", "code", "reason"),
    [
        ((), 2, "give a group's id, or --members FILE"),
        (("none",), 1, "no coordinator knows group 'none'"),
        (("live", "--leave", "x"), 2, "--leave x: there is no such member, only "),
        (("live", "--join", "x", "--subscribe", "none"), 2, "there is no topic 'none'"),
        (("past", "--join", "x"), 2, "give --subscribe: the group is empty"),
    ],
)
def test_mistakes_about_a_group(stub: BrokerStub, arguments: tuple[object, ...], code: int, reason: str) -> None:
    """One line, with what exists or what to give."""
    ran = groups(stub, "plan", *arguments)
    assert (ran.code, ran.out, len(ran.err.splitlines())) == (code, "", 1)
    assert reason in ran.err


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{", "Input data was truncated"),
        ('{"topics": {}, "members": [{"id": "a"}]}', "missing required field `subscribed`"),
        ('{"topics": {}, "members": [], "more": 1}', "unknown field `more`"),
        ('{"topics": {"t": -1}, "members": []}', "fewer than 0 or more than 1,000,000 partitions"),
        ('{"topics": {}, "members": [{"id": "a", "subscribed": []}, {"id": "a", "subscribed": []}]}', "member 'a' is there twice"),
    ],
)
def test_mistakes_in_a_file(tmp_path: Path, text: str, reason: str) -> None:
    """One line with the file's name and what is wrong in it."""
    file = tmp_path / "f.json"
    file.write_text(text)
    ran = plan(file)
    assert (ran.code, ran.out) == (2, "")
    assert f"--members {file}" in ran.err
    assert reason in ran.err


def test_other_mistakes(file: Path) -> None:
    """A file that is not there, a member that is there already, and subscriptions that must be named."""
    assert "No such file or directory" in plan(file.with_name("none")).err
    assert "--join m1: there is such a member already" in plan(file, "--join", "m1").err
    mixed = json.loads(file.read_text())
    mixed["members"][0]["subscribed"] = ["t", "u"]
    file.write_text(json.dumps(mixed))
    assert "give --subscribe: the members subscribe to different topics" in plan(file, "--join", "x").err
