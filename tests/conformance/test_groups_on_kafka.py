"""`fencepost groups` on Apache Kafka: groups of the classic protocol with and without members, and groups of the newer one."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from confluent_kafka import Consumer

from fencepost import Producer
from tests.conformance.kafka import KafkaCluster
from tests.fencepost.cli.shell import Ran, invoke
from tests.waiting import until

pytestmark = pytest.mark.timeout(300)

WAIT_S = 60.0
PARTITIONS = 3


class Site:
    """A topic and a group of their own."""

    def __init__(self, kafka: KafkaCluster) -> None:
        self.bootstrap = kafka.bootstrap
        self.name = f"groups-{uuid.uuid4().hex[:8]}"
        assert invoke("topics", "create", self.name, "--partitions", PARTITIONS, "--bootstrap", self.bootstrap).code == 0
        with Producer(bootstrap_servers=self.bootstrap) as producer:
            for number in range(10 * PARTITIONS):
                producer.send(self.name, b"x", partition=number % PARTITIONS)
            producer.flush(WAIT_S)

    def groups(self, *arguments: object) -> Ran:
        return invoke("groups", *arguments, "--bootstrap", self.bootstrap, "--timeout", WAIT_S)

    def offsets(self) -> dict[int, int]:
        return {row["partition"]: row["offset"] for row in self.groups("offsets", self.name, "--json").objects}

    @contextmanager
    def member(self, **settings: Any) -> Iterator[None]:
        """A consumer with all partitions, which polls in a thread. It commits what it has read when it closes."""
        given: dict[str, Any] = {"bootstrap.servers": self.bootstrap, "group.id": self.name, "auto.offset.reset": "earliest", **settings}
        consumer = Consumer(given)
        consumer.subscribe([self.name])
        stop = threading.Event()

        def poll() -> None:
            while not stop.is_set():
                consumer.poll(0.05)

        polling = threading.Thread(target=poll)
        try:
            until(lambda: consumer.poll(0.05) and len(consumer.assignment()) == PARTITIONS, "the consumer reads", timeout_s=WAIT_S)
            polling.start()
            yield
        finally:
            stop.set()
            if polling.ident is not None:
                polling.join(WAIT_S)
            consumer.close()


@pytest.fixture
def site(kafka: KafkaCluster) -> Site:
    return Site(kafka)


def test_a_classic_group(site: Site) -> None:
    """Listed, described with its member, planned with another one, refused a reset; and reset when it has no members."""
    with site.member():
        assert [each["state"] for each in site.groups("list", "--json").objects if each["group"] == site.name] == ["Stable"]
        (found,) = site.groups("describe", site.name, "--json").objects
        (member,) = found["members"]
        assert (found["type"], found["protocol"], found["assignor"], member["subscribed"]) == ("classic", "consumer", "range", [site.name])
        assert [(each["partition"], each["end"]) for each in member["partitions"]] == [(number, 10) for number in range(PARTITIONS)]
        plan = {each["assignor"]: each["moved"] for each in site.groups("plan", site.name, "--join", "new", "--json").objects}
        assert plan["sticky"] == plan["cooperative-sticky"] == 1
        refused = site.groups("reset", site.name, "--to-earliest", "--topic", site.name, "--execute")
        assert (refused.code, "is active: Stable with 1 member" in refused.err) == (2, True)
    done = site.groups("reset", site.name, "--to-offset", 4, "--topic", f"{site.name}:0,2", "--execute", "--json")
    assert (done.code, [row["offset"] for row in done.objects]) == (0, [4, 4])
    assert {number: offset for number, offset in site.offsets().items() if number != 1} == {0: 4, 2: 4}
    assert site.groups("describe", site.name, "--json").objects[0]["state"] == "Empty"


def test_a_group_of_the_newer_protocol(site: Site) -> None:
    """It is listed with its type. Its offsets are shown, and reset when it has no members."""
    with site.member(**{"group.protocol": "consumer"}):
        listed = [(each["state"], each["type"]) for each in site.groups("list", "--json").objects if each["group"] == site.name]
        assert listed == [("Stable", "consumer")]
        (found,) = site.groups("describe", site.name, "--json").objects
        (member,) = found["members"]
        assert (found["state"], found["type"], found["protocol"], found["assignor"]) == ("Stable", "consumer", "consumer", "uniform")
        assert (member["subscribed"], member["pattern"]) == ([site.name], None)
        assert [(each["partition"], each["end"]) for each in member["partitions"]] == [(number, 10) for number in range(PARTITIONS)]
        refused = site.groups("reset", site.name, "--to-earliest", "--topic", site.name, "--execute")
        assert (refused.code, "is active: Stable" in refused.err) == (2, True)
        assert "its coordinator assigns the partitions" in site.groups("plan", site.name).err
    assert site.groups("reset", site.name, "--to-latest", "--topic", site.name, "--execute").code == 0
    assert site.offsets() == dict.fromkeys(range(PARTITIONS), 10)


def test_a_group_that_does_not_exist(site: Site) -> None:
    """Exit code 1 for what would show it. A reset creates it."""
    assert [site.groups(command, site.name).code for command in ("describe", "offsets", "plan")] == [1, 1, 1]
    assert site.groups("reset", site.name, "--to-earliest", "--topic", site.name, "--execute").code == 0
    assert site.offsets() == dict.fromkeys(range(PARTITIONS), 0)
