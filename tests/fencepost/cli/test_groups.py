"""`fencepost groups list`, `describe` and `offsets`: what they show, and how they end."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fencepost.broker_stub import BrokerStub
from fencepost.producer.wire import Api, ErrorCode
from tests.fencepost.cli.group_stub import groups, stub_with_groups
from tests.fencepost.cli.shell import invoke

pytestmark = pytest.mark.timeout(200)


@pytest.fixture(scope="module")
def stub() -> Iterator[BrokerStub]:
    with stub_with_groups() as running:
        yield running


def test_every_group(stub: BrokerStub) -> None:
    """State, type, protocol and coordinator; with filters only some."""
    live = {"group": "live", "state": "Stable", "type": "classic", "protocol": "consumer", "coordinator": 1}
    past = {"group": "past", "state": "Empty", "type": "classic", "protocol": None, "coordinator": 1}
    assert groups(stub, "list", "--json").objects == [live, past]
    assert groups(stub, "list", "--json", "--state", "stable").objects == [live]
    assert groups(stub, "list", "--json", "--state", "EMPTY", "--type", "Classic").objects == [past]
    assert groups(stub, "list", "--type", "consumer") == (0, "", "none\n")
    head, _, first, second = (line.split() for line in groups(stub, "list").out.splitlines() if line.strip())
    assert (head, first, second) == (
        ["group", "state", "type", "protocol", "coordinator"],
        ["live", "Stable", "classic", "consumer", "1"],
        ["past", "Empty", "classic", "-", "1"],
    )


@pytest.mark.parametrize(
    ("option", "given", "known"),
    [
        ("--state", "banana", "Empty, PreparingRebalance, CompletingRebalance, Stable, Dead, Assigning, Reconciling, NotReady"),
        ("--type", "simple", "classic, consumer, share, streams"),
    ],
)
def test_an_unknown_filter_is_refused(stub: BrokerStub, option: str, given: str, known: str) -> None:
    """A misspelt state or type does not look like a cluster without groups."""
    ran = groups(stub, "list", option, given)
    assert ran == (2, "", f"fencepost groups list: {option} {given}: {option} is one of {known}\n")


def test_the_members(stub: BrokerStub) -> None:
    """Each with client, host, subscription and partitions, and the lag from the committed offset. Static members sort by instance id."""
    (found,) = groups(stub, "describe", "live", "--json").objects
    first, second = found.pop("members")
    assert found == {"group": "live", "state": "Stable", "type": "classic", "protocol": "consumer", "assignor": "range", "coordinator": 1}
    assert (first["client_id"], first["instance_id"], first["host"], first["subscribed"]) == ("first", None, "127.0.0.1", ["t"])
    assert (second["client_id"], second["instance_id"]) == ("second", "two")
    # librdkafka's range sorts the members by member id.
    assert first["partitions"] == [
        {"topic": "t", "partition": 0, "offset": 3, "end": 10, "lag": 7},
        {"topic": "t", "partition": 1, "offset": None, "end": 10, "lag": None},
    ]
    assert second["partitions"] == [{"topic": "t", "partition": 2, "offset": None, "end": 10, "lag": None}]
    table = groups(stub, "describe", "live").out
    assert table.startswith("group live, state Stable, type classic, protocol consumer, assignor range, coordinator 1\n")
    assert len([line for line in table.splitlines() if "127.0.0.1" in line]) == 3


def test_the_offsets(stub: BrokerStub) -> None:
    """Of every partition that has one, also without members; with the end of the partition and the lag."""
    rows = groups(stub, "offsets", "past", "--json").objects
    assert [(row["topic"], row["partition"], row["offset"], row["end"], row["lag"]) for row in rows] == [
        ("t", 0, 4, 10, 6),
        ("t", 1, 10, 10, 0),
        ("u", 0, 2, 5, 3),
    ]
    assert len([line for line in groups(stub, "offsets", "past").out.splitlines() if line.strip()]) == 5


@pytest.mark.parametrize("command", ["describe", "offsets"])
def test_a_group_that_does_not_exist(stub: BrokerStub, command: str) -> None:
    """One line, and exit code 1."""
    ran = groups(stub, command, "none")
    assert (ran.code, ran.out) == (1, "")
    assert ran.err == f"fencepost groups {command}: no coordinator knows group 'none'; `fencepost groups list` shows those that exist\n"


def test_a_group_without_members(stub: BrokerStub) -> None:
    """It has no rows. A line says which command shows the lag that its dead members left."""
    ran = groups(stub, "describe", "past")
    assert (ran.code, ran.out) == (0, "group past, state Empty, type classic, coordinator 1\n")
    assert ran.err == "no members: `fencepost groups offsets past` shows the offsets and the lag\n"


def test_an_offset_in_a_topic_that_is_gone(stub: BrokerStub) -> None:
    """While the brokers do not know a topic, its end and the lag are unknown, and a line says why."""
    stub.faults.on(Api.METADATA).where(topic="u").error(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION).times(1)
    ran = groups(stub, "offsets", "past", "--json")
    assert [(row["topic"], row["end"], row["lag"]) for row in ran.objects][-1] == ("u", None, None)
    assert ran.err == "fencepost groups offsets: topic 'u': UNKNOWN_TOPIC_OR_PARTITION\n"


@pytest.mark.parametrize("api", [Api.FIND_COORDINATOR, Api.LIST_GROUPS, Api.DESCRIBE_GROUPS, Api.OFFSET_FETCH])
def test_a_coordinator_that_is_loading(stub: BrokerStub, api: Api) -> None:
    """An error that passes is asked about again."""
    code = ErrorCode.COORDINATOR_NOT_AVAILABLE if api is Api.FIND_COORDINATOR else ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    fault = stub.faults.on(api).error(code).times(1)
    assert groups(stub, *(("list",) if api is Api.LIST_GROUPS else ("describe", "live"))).code == 0
    assert fault.hits == 1


def test_no_permission(stub: BrokerStub) -> None:
    """It is said at once, with the group's name."""
    stub.faults.on(Api.DESCRIBE_GROUPS).error(ErrorCode.GROUP_AUTHORIZATION_FAILED).times(1)
    ran = groups(stub, "describe", "live")
    assert ran.code == 2
    assert "group 'live': DESCRIBE_GROUPS was refused with GROUP_AUTHORIZATION_FAILED" in ran.err


def test_an_address_without_a_broker() -> None:
    """One line, and exit code 2."""
    ran = invoke("groups", "list", "--bootstrap", "127.0.0.1:1", "--timeout", 0.3)
    assert (ran.code, len(ran.err.splitlines())) == (2, 1)
    assert "no answer within 0.3 s" in ran.err
