"""`fencepost groups list` and `describe` with a share group: members that have the same partition, and where the group is."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from fencepost import Producer
from fencepost.broker_stub import BrokerStub
from fencepost.producer import wire
from fencepost.producer.wire import Api, ErrorCode
from fencepost.producer.wire.messages import share_groups, share_offsets
from tests.broker_stub.stub_calls import Talker
from tests.fencepost.cli.group_stub import groups
from tests.waiting import until

MEMBERS = ("m1", "m2")


@pytest.fixture(scope="module")
def stub() -> Iterator[BrokerStub]:
    """Two members of "workers" share the only partition of "jobs", and three of its five records are left. "away" has no members."""
    with BrokerStub() as running, Talker(running) as talker:
        running.create_topic("jobs")
        with Producer(bootstrap_servers=running.bootstrap) as producer:
            for _ in range(5):
                producer.send("jobs", b"x")
        for group in ("workers", "away"):
            until(partial(found, talker, group), "a coordinator", timeout_s=30)
            assert alter(talker, group, 2).error_code == 0
        for member in MEMBERS:
            assert beat(talker, member, 0).error_code == 0
        yield running


def found(talker: Talker, group: str) -> bool:
    answer: Any = talker.ask(wire.FindCoordinatorRequest(coordinator_keys=[group]), 4)
    return bool(answer.coordinators[0].error_code == 0)


def alter(talker: Talker, group: str, offset: int) -> Any:
    parts = [share_offsets.AlterShareGroupOffsetsRequestPartition(partition_index=0, start_offset=offset)]
    topics = [share_offsets.AlterShareGroupOffsetsRequestTopic(topic_name="jobs", partitions=parts)]
    return talker.ask(share_offsets.AlterShareGroupOffsetsRequest(group_id=group, topics=topics), 0)


def beat(talker: Talker, member: str, epoch: int) -> Any:
    request = share_groups.ShareGroupHeartbeatRequest(
        group_id="workers", member_id=member, member_epoch=epoch, subscribed_topic_names=["jobs"]
    )
    return talker.ask(request, 1)


def test_it_is_listed_with_its_type(stub: BrokerStub) -> None:
    """And its state, also without members."""
    away, workers = groups(stub, "list", "--json", "--type", "share").objects
    assert workers == {"group": "workers", "state": "Stable", "type": "share", "protocol": "share", "coordinator": 1}
    assert (away["group"], away["state"]) == ("away", "Empty")


def test_members_of_one_partition(stub: BrokerStub) -> None:
    """The offset and the lag are the group's, and stand beside each member that has the partition."""
    (found,) = groups(stub, "describe", "workers", "--json").objects
    first, second = found.pop("members")
    assert found == {
        "group": "workers",
        "state": "Stable",
        "type": "share",
        "assignor": "simple",
        "coordinator": 1,
        "partitions": [{"topic": "jobs", "partition": 0, "offset": 2, "lag": 3}],
    }
    assert (first["member"], second["member"]) == MEMBERS
    assert first["partitions"] == second["partitions"] == [{"topic": "jobs", "partition": 0}]
    assert (first["host"], first["subscribed"]) == ("127.0.0.1", ["jobs"])
    table = groups(stub, "describe", "workers").out
    assert table.startswith("group workers, state Stable, type share, assignor simple, coordinator 1\n")
    rows = [line.split() for line in table.splitlines() if "jobs" in line]
    assert rows == [[member, "talker", "127.0.0.1", "jobs", "0", "2", "3"] for member in MEMBERS]


def test_a_group_without_members(stub: BrokerStub) -> None:
    """It has its offsets all the same."""
    rows = [line.split() for line in groups(stub, "describe", "away").out.splitlines() if "jobs" in line]
    assert rows == [["-", "-", "-", "jobs", "0", "2", "3"]]


@pytest.mark.parametrize("group", ["workers", "away"])
def test_it_has_no_committed_offsets(stub: BrokerStub, group: str) -> None:
    """`offsets` and `reset` say so, and name what shows or sets the start offsets. Nothing is changed."""
    for command, instead in (
        (("offsets", group), "`fencepost groups describe` shows its start offsets"),
        (("reset", group, "--to-earliest", "--topic", "jobs", "--execute"), "kafka-share-groups.sh --reset-offsets"),
    ):
        ran = groups(stub, *command)
        assert ran.code == 2
        assert f"group {group!r} is a share group: it commits no offsets" in ran.err
        assert instead in ran.err
    assert groups(stub, "describe", group, "--json").objects[0]["partitions"][0]["offset"] == 2


@pytest.mark.parametrize("api", [Api.SHARE_GROUP_DESCRIBE, Api.DESCRIBE_SHARE_GROUP_OFFSETS], ids=lambda api: api.name)
def test_no_permission(stub: BrokerStub, api: Api) -> None:
    """It is said at once, with the group's name."""
    stub.faults.on(api).error(ErrorCode.GROUP_AUTHORIZATION_FAILED).times(1)
    ran = groups(stub, "describe", "workers")
    assert ran.code == 2
    assert f"group 'workers': {api.name} was refused with GROUP_AUTHORIZATION_FAILED" in ran.err
