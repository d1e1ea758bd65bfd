"""Arguments that no stub or proxy can have: one error at construction, with the argument, the value and what it must be."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

from fencepost import Acl, BrokerStub, ErrorCode, FaultProxy, Producer, VirtualClock

LONE_SURROGATE = "\udc80"


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"super_users": "ANONYMOUS"}, r"^super_users='ANONYMOUS': must be a list, such as \['alice'\]$"),
        ({"super_users": [5]}, r"^super_users=\[5\]: must be a list"),
        ({"super_users": None}, r"^super_users=None: must be a list"),
        ({"acls": "ab"}, r"^acls='ab': must be a list, such as \[Acl.allow\("),
        ({"acls": ["ab"]}, r"^acls=\['ab'\]: must be a list, such as"),
        ({"acls": 5}, r"^acls=5: must be a list"),
        ({"cluster_id": 5}, r"^cluster_id=5: must be text of 1 to 32767 bytes"),
        ({"cluster_id": LONE_SURROGATE}, r"^cluster_id='\\udc80': must be text"),
        ({"cluster_id": ""}, r"^cluster_id='': must be text"),
        ({"tls": 5}, r"^tls=5: must be a Tls, a pair of certificate and key file, or an SSLContext$"),
        ({"tls": "x"}, r"^tls='x': must be a Tls"),
        ({"tls": ("x",)}, r"^tls=\('x',\): must be a Tls"),
        ({"sasl": 5}, r"^sasl is a int: it must be a Sasl, or a dictionary of users and their passwords$"),
        ({"sasl": {"alice": 5}}, r"^sasl: the users and their passwords must be text$"),
        ({"journal": -1}, r"^journal=-1: must be the number of exchanges to keep, 0 or more$"),
        ({"journal": math.nan}, r"^journal=nan: must be the number of exchanges"),
        ({"journal": True}, r"^journal=True: must be the number of exchanges"),
        ({"advertised_host": "a\0b"}, r"^advertised_host='a\\x00b': must be a host name or an address, in printable characters$"),
        ({"advertised_host": 7}, r"^advertised_host=7: must be a host name"),
        ({"host": b"x"}, r"^host=b'x': must be a host name"),
        ({"port": "9092"}, r"^port='9092': must be a whole number, or None for the default$"),
        ({"config": "a=b"}, r"^config='a=b': must be a mapping of names to values$"),
        ({"config": {5: "b"}}, r"^config 5: the name must be text, not int$"),
        ({"clock": 5}, r"^clock=5: must be a clock, such as VirtualClock\(\)$"),
        ({"clock": VirtualClock}, r"^clock=<class .*VirtualClock'>: must be a clock"),
        ({"brokers": "3"}, r"^brokers='3': must be a whole number, at most 1000$"),
        ({"brokers": 10**7}, r"^brokers=10000000: must be a whole number, at most 1000$"),
        ({"seed": None}, r"^seed=None: must be a whole number$"),
        ({"emulate": 4.3}, r"^emulate=4.3: must be the name of a release of Kafka, such as '4.3'$"),
        ({"auto_create_topics": "no"}, r"^auto_create_topics='no': must be True or False$"),
        ({"transaction_version": 1.5}, r"^transaction_version=1.5: must be a whole number, or None for the default$"),
        ({"default_partitions": 1.5}, r"^default_partitions=1.5: must be a whole number$"),
        ({"default_partitions": 10**30}, r"^default_partitions=10{30}: one request creates at most 10000 partitions$"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else "",
)
def test_a_stub_refuses_what_it_cannot_have(given: dict[str, Any], reason: str) -> None:
    """A stub never takes an argument that it then misreads, such as the letters of a text as users."""
    with pytest.raises((TypeError, ValueError), match=reason):
        BrokerStub(**given)


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"upstream_bootstrap": 5}, "^upstream_bootstrap=5: must be HOST:PORT, or several with commas$"),
        ({"journal": -1}, "^journal=-1: must be the number of exchanges to keep"),
        ({"host": b"x"}, "^host=b'x': must be a host name"),
        ({"advertised_host": "a\0b"}, r"^advertised_host='a\\x00b': must be a host name"),
    ],
)
def test_a_proxy_refuses_what_it_cannot_have(given: dict[str, Any], reason: str) -> None:
    """A proxy never takes an argument that it then misreads."""
    with pytest.raises((TypeError, ValueError), match=reason):
        FaultProxy(**{"upstream_bootstrap": "localhost:9092", **given})


def test_what_is_no_list_but_can_be_read_once_is_taken() -> None:
    """ACLs and super users may come from a generator."""
    stub = BrokerStub(
        acls=(Acl.allow("alice", "WRITE", topic=name) for name in ("a", "b")), super_users=(name for name in ("ANONYMOUS", "root"))
    )
    assert len(stub.acls) == 2
    with stub, Producer(stub.settings) as producer:
        assert producer.send("orders", b"one").result(20).offset == 0


@pytest.mark.parametrize("count", [10_001, 2**31, 10**30])
@pytest.mark.parametrize("running", [False, True], ids=["before the start", "running"])
def test_a_topic_has_no_more_partitions_than_kafka_creates(count: int, *, running: bool) -> None:
    """Python refuses as many partitions as a request would be refused for, and the stub serves on."""
    stub = BrokerStub()
    if running:
        stub.start()
    try:
        stub.create_topic("t")
        with pytest.raises(ValueError, match=rf"^POLICY_VIOLATION: {count} partitions: one request creates at most 10000\.$"):
            stub.create_topic("big", partitions=count)
        with pytest.raises(
            ValueError, match=f"^topic 't' has 1 partitions, {count + 1} are {count} more: one request creates at most 10000$"
        ):
            stub.add_partitions("t", count + 1)
        assert stub.end_offset("t", 0) == 0
        assert stub.cluster.topics.named("big") is None
    finally:
        stub.close()


def test_as_many_partitions_as_kafka_creates() -> None:
    """10,000 at once are allowed, as over the wire."""
    stub = BrokerStub()
    stub.create_topic("t", partitions=10_000)
    stub.add_partitions("t", 20_000)
    assert stub.leader("t", 19_999) == 1


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        (lambda stub: stub.create_topic("t", partitions=1.5), r"^partitions=1.5: must be a whole number"),
        (lambda stub: stub.create_topic("t", partitions="3"), r"^partitions='3': must be a whole number"),
        (lambda stub: stub.create_topic("t", replication_factor=1.5), r"^replication_factor=1.5: must be a whole number"),
        (lambda stub: stub.create_topic("t", config="a=b"), r"^config='a=b': must be a mapping"),
        (lambda stub: stub.create_topic(5), r"^name=5: must be the name of a topic$"),
        (lambda stub: stub.add_partitions("t", 2.5), r"^total=2.5: must be a whole number$"),
    ],
)
def test_a_topic_is_created_with_what_it_can_have(call: Callable[[BrokerStub], None], reason: str) -> None:
    """The arguments of topics are checked in the caller's thread."""
    with pytest.raises(TypeError, match=reason):
        call(BrokerStub())


def test_a_topic_has_the_defaults_of_its_stub() -> None:
    """`default_partitions` is for every topic without a count of its own, created in Python or by a request."""
    with BrokerStub(brokers=2, default_partitions=6, default_replication_factor=2) as stub, Producer(stub.settings) as producer:
        stub.create_topic("in-python")
        stub.create_topic("counted", partitions=2)
        assert producer.send("by-request", b"one").result(20).offset == 0
        counts = {topic.name: len(topic.partitions) for topic in stub.cluster.topics}
        assert stub.isr("in-python", 5) in ([1, 2], [2, 1])
    assert counts == {"in-python": 6, "counted": 2, "by-request": 6}


def test_num_partitions_beyond_the_limit_creates_no_topic() -> None:
    """As in Kafka, the config is taken, and the creation is refused."""
    stub = BrokerStub(config={"num.partitions": 10_001})
    with pytest.raises(ValueError, match=f"^{ErrorCode.POLICY_VIOLATION.name}: 10001 partitions"):
        stub.create_topic("t")
