"""Arguments that no stub or proxy can have: one error at construction, with the argument, the value and what it must be."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import pytest

from fencepost import Acl, BrokerStub, Control, ErrorCode, FaultProxy, Producer, VirtualClock

LONE_SURROGATE = "\udc80"

untyped_control: Any = Control


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
        ({"default_partitions": 1.5}, r"^default_partitions=1.5: must be a whole number, or None for the default$"),
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
            ValueError, match=f"^topic 't' has 1 partition, {count + 1} are {count} more: one request creates at most 10000$"
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
        (lambda stub: stub.add_partitions(5, 2), r"^name=5: must be the name of a topic$"),
        (lambda stub: stub.delete_topic(5), r"^name=5: must be the name of a topic$"),
        (lambda stub: stub.records("t", True), r"^partition=True: must be a whole number from 0 to 2147483647$"),
        (lambda stub: stub.records("t", "0"), r"^partition='0': must be a whole number"),
        (lambda stub: stub.records(b"t", 0), r"^topic=b't': must be the name of a topic$"),
        (lambda stub: stub.end_offset("t", 1.0), r"^partition=1.0: must be a whole number"),
        (lambda stub: stub.leader("t", None), r"^partition=None: must be a whole number"),
        (lambda stub: stub.isr("t", True), r"^partition=True: must be a whole number"),
        (lambda stub: stub.move_leader("t", True), r"^partition=True: must be a whole number"),
        (lambda stub: stub.move_leader("t", 0, to="1"), r"^to='1': must be a whole number, a broker's$"),
        (lambda stub: stub.stop_broker(True), r"^node=True: must be a whole number, a broker's$"),
        (lambda stub: stub.stop_broker(1, clean="no"), r"^clean='no': must be True or False$"),
        (lambda stub: stub.start_broker("1"), r"^node='1': must be a whole number"),
        (lambda stub: stub.start_broker(1, port=True), r"^port=True: must be a whole number, or None"),
        (lambda stub: stub.start_broker(1, port="x"), r"^port='x': must be a whole number, or None"),
        (lambda stub: stub.restart_broker(1, port="x"), r"^port='x': must be a whole number, or None"),
        (lambda stub: stub.sever(1, 2.5), r"^other=2.5: must be a whole number, a broker's, or \"controller\"$"),
        (lambda stub: stub.sever(1, 2, one_way="yes"), r"^one_way='yes': must be True or False$"),
        (lambda stub: stub.mend(True, 2), r"^one=True: must be a whole number"),
        (lambda stub: stub.cut_connections(True), r"^node=True: must be a whole number"),
        (lambda stub: stub.advance("1"), r"^ms='1': must be whole milliseconds$"),
        (lambda stub: stub.close(timeout="1"), r"^timeout='1': must be a number of seconds, 0 or more$"),
        (lambda stub: stub.journal.requests(node="1"), r"^node='1': must be a whole number"),
        (lambda stub: stub.journal.requests(client_id=b"x"), r"^client_id=b'x': must be a client id"),
        (
            lambda stub: stub.faults.on().at("reply"),
            r"^at\('reply'\): a Point; before\(\), after_append\(\) and reply\(\) are short for it$",
        ),
        (lambda stub: stub.allow(5, "READ", topic="t"), r"^principal=5: must be the name of a user$"),
        (lambda stub: stub.allow("alice", True, topic="t"), r"^operation=True: must be the name of an operation, such as WRITE$"),
        (lambda stub: stub.deny("alice", "READ", topic="t", host=5), r"^host=5: must be a host name"),
        (lambda stub: stub.allow("alice", "READ", topic="t", prefixed="no"), r"^prefixed='no': must be True or False$"),
        (lambda stub: stub.revoke("x"), r"^acls='x': must be a list, such as \[Acl.allow\("),
        (lambda stub: stub.revoke([5]), r"^acls=\[5\]: must be a list"),
        (lambda stub: stub.quota(user=5, producer_byte_rate=1), r"^user=5: must be the name of a user$"),
        (lambda stub: stub.quota(client_id=True, producer_byte_rate=1), r"^client_id=True: must be a client id"),
        (lambda stub: untyped_control(stub, port="x"), r"^port='x': must be a whole number"),
        (lambda stub: untyped_control(stub, host=5), r"^host=5: must be a host name"),
        (lambda stub: untyped_control(5), r"^target=5: must be a BrokerStub or a FaultProxy$"),
    ],
)
@pytest.mark.parametrize("running", [False, True], ids=["before the start", "running"])
def test_a_method_refuses_what_it_cannot_take(call: Callable[[BrokerStub], None], reason: str, *, running: bool) -> None:
    """True is no broker 1 and no partition 1. The error names the parameter, the value and what it must be, and nothing has happened."""
    stub = BrokerStub(brokers=2, clock=VirtualClock())
    stub.create_topic("t", partitions=2)
    with stub if running else nullcontext():
        with pytest.raises(TypeError, match=reason):
            call(stub)
        assert [broker.alive for broker in stub.cluster.brokers.values()] == [True, True]


@pytest.mark.parametrize("port", [-1, 65_536])
def test_a_broker_starts_on_a_port_that_there_is(port: int) -> None:
    """`restart_broker` stops no broker that it could not start again."""
    with BrokerStub() as stub:
        for call in (stub.start_broker, stub.restart_broker):
            with pytest.raises(ValueError, match=rf"^port={port}: must be from 0, for a free one, to 65535$"):
                call(1, port=port)
        assert stub.cluster.brokers[1].alive


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
