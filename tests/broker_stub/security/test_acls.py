"""Permissions on the stub: what a tester says in Python, what clients are then refused, and what our producer makes of it. What the answers
are word by word is compared with Apache Kafka in tests/conformance."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError
from confluent_kafka import Producer as ConfluentProducer
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._acl import AclBinding, AclBindingFilter, AclOperation, AclPermissionType
from confluent_kafka.admin._resource import ResourcePatternType, ResourceType
from kafka import KafkaProducer
from kafka.errors import TopicAuthorizationFailedError

from fencepost.broker_stub import Acl, BrokerStub, Tls
from fencepost.broker_stub.configs.topic_configs import STANDARD_AUTHORIZER
from fencepost.broker_stub.security.acls import Filter, operation_named
from fencepost.broker_stub.security.authorizer import Authorizer
from fencepost.broker_stub.security.operations import Operation, Pattern, Resource
from fencepost.producer import DeliveryFatal, Fatal, Persisted, Producer, RecordRefused
from fencepost.producer.wire import ErrorCode
from tests.broker_stub.stub_calls import Talker, batch
from tests.certificates import Authority
from tests.credentials import ours

USERS = {"alice": "secret", "bob": "secret", "root": "secret"}
DEADLINE_S = 20.0


def guarded(**options: Any) -> BrokerStub:
    return BrokerStub(sasl=USERS, acls=[], super_users=["root"], **options)


def as_user(stub: BrokerStub, user: str, **more: Any) -> dict[str, Any]:
    """Settings of librdkafka."""
    return {
        "bootstrap.servers": stub.bootstrap,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": user,
        "sasl.password": USERS[user],
        **more,
    }


def producer(stub: BrokerStub, user: str = "alice", **more: Any) -> Producer:
    settings = ours("PLAIN", user, USERS[user])
    return Producer(bootstrap_servers=stub.bootstrap, security_protocol="SASL_PLAINTEXT", max_block_ms=10_000, **settings, **more)


def test_what_a_tester_may_say() -> None:
    """Names of users with and without their type, operations in any spelling; ACLs are given to the stub, made later and taken back."""
    first = Acl.allow("User:alice", "IdempotentWrite", cluster=True)
    with BrokerStub(acls=[first]) as stub:
        made = stub.allow("alice", "WRITE", "describe configs", topic="orders-", prefixed=True)
        made += stub.deny("*", "ALL", group="*", host="10.0.0.1")
        made += stub.allow("CN=me,O=us", "READ", transactional_id="t")
        assert stub.acls == [first, *made]
        assert [acl.principal for acl in stub.acls] == ["User:alice"] * 3 + ["User:*", "User:CN=me,O=us"]
        stub.revoke(made)
        stub.revoke(made)
        assert stub.acls == [first]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (lambda: Acl.allow("alice", "WRIT", topic="t"), "'WRIT' is no operation of an ACL; these are: ALL, READ, WRITE"),
        (lambda: Acl.allow("alice", "ANY", topic="t"), "'ANY' is no operation"),
        (lambda: Acl.allow("", "READ", topic="t"), "needs a principal"),
        (lambda: Acl.allow("alice", "READ"), "is about one of topic=.* not nothing"),
        (lambda: Acl.allow("alice", "READ", topic="t", group="g"), "not topic, group"),
        (lambda: Acl.allow("alice", "READ", topics="t"), "not topics"),
        (lambda: Acl.allow("alice", "READ", topic=""), "topic='' is no name"),
        (lambda: Acl.allow("alice", "READ", cluster="mine"), "cluster=True"),
        (lambda: BrokerStub(acls=[]).allow("alice", topic="t"), "name at least one operation"),
        (lambda: BrokerStub().allow("alice", "READ", topic="t"), r"permits everything: create it with BrokerStub\(acls="),
        (lambda: BrokerStub(config={"super.users": "root"}), "invalid value 'root' for broker config 'super.users'"),
        (lambda: BrokerStub(config={"authorizer.class.name": "mine"}), "invalid value 'mine'"),
    ],
)
def test_what_cannot_be_is_refused(wrong: Callable[[], object], said: str) -> None:
    """A mistake is an error with the value and what it can be."""
    with pytest.raises(ValueError, match=said):
        wrong()


def test_kafkas_own_configs_say_the_same() -> None:
    """`authorizer.class.name` turns it on, `super.users` may do everything, and `allow.everyone.if.no.acl.found` is about resources that
    no ACL names."""
    config = {"authorizer.class.name": STANDARD_AUTHORIZER, "super.users": "User:root; User:ops"}
    with BrokerStub(config=config) as stub, Talker(stub) as nobody:
        stub.create_topic("open")
        assert stub.cluster.authorizer is not None
        assert stub.cluster.authorizer.super_users == {"User:root", "User:ops"}
        assert nobody.produce("open", batch()).error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    config["allow.everyone.if.no.acl.found"] = "true"
    with BrokerStub(config=config) as stub, Talker(stub) as nobody:
        for name in ("open", "closed", "denied"):
            stub.create_topic(name)
        stub.allow("alice", "WRITE", topic="closed")
        stub.deny("ANONYMOUS", "READ", topic="denied")
        assert nobody.produce("open", batch()).error_code == 0
        assert nobody.produce("closed", batch()).error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
        assert nobody.fetch("denied").error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED


@pytest.mark.parametrize("name", [Operation.IDEMPOTENT_WRITE, "IDEMPOTENT_WRITE", "IdempotentWrite", "idempotent write"])
def test_operation_goes_by_member_or_by_any_spelling(name: str | Operation) -> None:
    """An ACL's operation is the enum's member, or its name as Kafka's tools, Java or users write it."""
    assert operation_named(name) is Operation.IDEMPOTENT_WRITE


def test_whether_anything_is_allowed_depends_on_the_host() -> None:
    """A grant for one address does not count for another one, and neither does a denial. InitProducerId asks whether the client may write
    to any topic."""
    here, there = "10.0.0.1", "10.0.0.2"

    def may(*acls: Acl) -> tuple[bool, bool]:
        authorizer = Authorizer(acls)
        asked = ("User:alice", Operation.WRITE, Resource.TOPIC)
        hosts = [authorizer.allows_any(asked[0], host, *asked[1:]) for host in (here, there)]
        assert hosts == [any(authorizer.allows(asked[0], host, *asked[1:], name) for name in ("t", "tt", "u")) for host in (here, there)]
        return hosts[0], hosts[1]

    assert may(Acl.allow("alice", "write", topic="t", host=here)) == (True, False)
    assert may(Acl.allow("alice", "write", topic="t", prefixed=True, host=there)) == (False, True)
    assert may(Acl.allow("bob", "write", topic="t", host=here), Acl.allow("alice", "write", topic="t", host=there)) == (False, True)
    everywhere = Acl.allow("alice", "write", topic="t")
    assert may(everywhere, Acl.deny("alice", "write", topic="t", host=here)) == (False, True)
    assert may(everywhere, Acl.deny("alice", "write", topic="*", host=there)) == (True, False)
    assert may(everywhere, Acl.deny("alice", "write", topic="t", prefixed=True, host=there)) == (True, False)
    assert may(Acl.allow("alice", "write", topic="t", prefixed=True), Acl.deny("alice", "write", topic="t", host=here)) == (True, True)
    assert may(Acl.allow("alice", "write", topic="u"), Acl.deny("alice", "write", topic="t", host=here)) == (True, True)


def test_all_is_every_operation() -> None:
    """A grant or denial of ALL decides about each operation; one of WRITE implies DESCRIBE and nothing else."""
    asked = ("User:alice", "10.0.0.1")
    everything, writing = (Authorizer([Acl.allow("alice", name, topic="t")]) for name in ("all", "write"))
    operations = (Operation.READ, Operation.WRITE, Operation.DESCRIBE)
    assert [everything.allows(*asked, operation, Resource.TOPIC, "t") for operation in operations] == [True, True, True]
    assert [writing.allows(*asked, operation, Resource.TOPIC, "t") for operation in operations] == [False, True, True]
    nothing = Authorizer([Acl.allow("alice", "write", topic="t"), Acl.deny("alice", "all", topic="t")])
    assert not any(nothing.allows(*asked, operation, Resource.TOPIC, "t") for operation in operations)


def test_which_acls_a_filter_means() -> None:
    """A filter leaves open what it does not name; MATCH means every pattern that a name falls under."""
    literal = Acl.allow("alice", "write", topic="orders")
    prefixed = Acl.allow("alice", "write", topic="ord", prefixed=True, host="10.0.0.1")
    other = Acl.allow("bob", "read", topic="bills")
    acls = (literal, prefixed, other)

    def meant(**filter: Any) -> list[Acl]:
        return [acl for acl in acls if Filter(**filter).fits(acl)]

    assert meant() == [*acls]
    assert meant(name="orders") == [literal]
    assert meant(name="orders", pattern=Pattern.MATCH) == [literal, prefixed]
    assert meant(pattern=Pattern.PREFIXED) == [prefixed]
    assert meant(host="10.0.0.1") == [prefixed]
    assert meant(principal="User:bob") == [other]
    assert meant(name="bills", host="10.0.0.1") == []


def test_a_certificate_is_a_principal(tmp_path: Path) -> None:
    """With mutual TLS the ACLs are about the certificate's distinguished name."""
    authority = Authority(tmp_path)
    server, client = authority.issue("localhost", "127.0.0.1"), authority.issue("alice", common_name="alice")
    with BrokerStub(tls=Tls(server.both, client_ca=authority.cafile), acls=[]) as stub:
        stub.create_topic("t")
        settings: dict[str, Any] = {"security_protocol": "SSL", "ssl_cafile": authority.cafile, "ssl_certfile": client.both}
        with Producer(bootstrap_servers=stub.bootstrap, max_block_ms=10_000, **settings) as writer:
            with pytest.raises(RecordRefused, match="TOPIC_AUTHORIZATION_FAILED"):
                writer.send("t", b"x")
            (name,) = {connection.principal for broker in stub.cluster.brokers.values() for connection in tuple(broker.connections)}
            assert name.startswith("User:CN=alice,")
            stub.allow(name, "WRITE", topic="t")
            assert writer.send("t", b"x").result(DEADLINE_S).offset == 0


def test_our_producer_says_what_to_grant() -> None:
    """Topic or cluster, the operation, and what to grant; as soon as it is granted, the next record goes."""
    with guarded() as stub, producer(stub) as writer:
        stub.create_topic("orders")
        with pytest.raises(RecordRefused) as refused:
            writer.send("orders", b"x")
        for word in ("orders", "DESCRIBE", "grant WRITE on the topic", "TOPIC_AUTHORIZATION_FAILED"):
            assert word in str(refused.value)
        stub.allow("alice", "DESCRIBE", topic="orders")
        stub.allow("alice", "IDEMPOTENT_WRITE", cluster=True)
        failure = writer.send("orders", b"x").exception(DEADLINE_S)
        assert isinstance(failure, RecordRefused)
        assert failure.persisted is Persisted.NO
        for word in ("orders-0", "no WRITE permission", "grant WRITE on the topic"):
            assert word in str(failure)
        stub.allow("alice", "WRITE", topic="orders")
        assert writer.send("orders", b"x").result(DEADLINE_S).offset == 0
        assert len(stub.records("orders", 0)) == 1


def test_our_producer_names_the_cluster() -> None:
    """A client that may describe a topic and write to none gets no producer id. The error is fatal, and names a permission that is
    enough."""
    with guarded() as stub:
        stub.create_topic("orders")
        stub.allow("alice", "DESCRIBE", topic="orders")
        writer = producer(stub)
        failure = writer.send("orders", b"x").exception(DEADLINE_S)
        assert isinstance(failure, DeliveryFatal)
        for word in ("CLUSTER_AUTHORIZATION_FAILED", "grant WRITE on its topics", "IDEMPOTENT_WRITE on the cluster"):
            assert word in str(failure)
        with pytest.raises(Fatal, match="IDEMPOTENT_WRITE on the cluster"):
            writer.send("orders", b"y")
        writer.close(DEADLINE_S)


def test_a_topic_on_demand_needs_create() -> None:
    """WRITE alone does not make a topic."""
    with guarded() as stub, producer(stub) as writer:
        stub.allow("alice", "WRITE", topic="new")
        with pytest.raises(RecordRefused, match="CREATE if sending should create it"):
            writer.send("new", b"x")
        stub.allow("alice", "CREATE", topic="new")
        assert writer.send("new", b"x").result(DEADLINE_S).offset == 0


def test_confluent_is_refused_and_let_in() -> None:
    """librdkafka hears the codes that it knows: at the topic, at the group, and of its producer id."""
    with guarded() as stub:
        stub.create_topic("t")
        heard: list[Any] = []
        stub.allow("alice", "WRITE", topic="t")
        for user in ("bob", "alice"):
            client = ConfluentProducer(as_user(stub, user, **{"message.timeout.ms": 5000}))
            client.produce("t", b"x", on_delivery=lambda error, _: heard.append(error and error.code()))
            assert client.flush(DEADLINE_S) == 0
        assert heard == [KafkaError.TOPIC_AUTHORIZATION_FAILED, None]
        assert _consumed(stub, "alice") == KafkaError.GROUP_AUTHORIZATION_FAILED
        stub.allow("alice", "READ", group="g")
        assert _consumed(stub, "alice") == KafkaError.TOPIC_AUTHORIZATION_FAILED
        stub.allow("alice", "READ", topic="t")
        assert _consumed(stub, "alice") == b"x"


def test_kafka_python_is_refused_and_let_in() -> None:
    """kafka-python raises the error of its own for the topic."""
    with guarded() as stub:
        stub.create_topic("t")
        stub.allow("alice", "DESCRIBE", topic="t")
        stub.allow("alice", "IDEMPOTENT_WRITE", cluster=True)
        settings = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "PLAIN", "sasl_plain_username": "alice"}
        client = KafkaProducer(bootstrap_servers=stub.bootstrap, sasl_plain_password=USERS["alice"], enable_idempotence=False, **settings)
        try:
            with pytest.raises(TopicAuthorizationFailedError):
                client.send("t", b"x").get(DEADLINE_S)
            stub.allow("alice", "WRITE", topic="t")
            assert client.send("t", b"x").get(DEADLINE_S).offset == 0
        finally:
            client.close(DEADLINE_S)


def test_administrators_make_acls() -> None:
    """confluent's admin client makes, describes and deletes ACLs if it may; what it makes counts, and Python sees it."""
    binding = AclBinding(
        ResourceType.TOPIC, "t", ResourcePatternType.PREFIXED, "User:alice", "*", AclOperation.WRITE, AclPermissionType.ALLOW
    )
    nothing_else: Any = None
    anything = AclBindingFilter(
        ResourceType.ANY, nothing_else, ResourcePatternType.ANY, nothing_else, nothing_else, AclOperation.ANY, AclPermissionType.ANY
    )
    with guarded() as stub:
        stub.create_topic("t1")
        bob, root = AdminClient(as_user(stub, "bob")), AdminClient(as_user(stub, "root"))
        with pytest.raises(Exception, match="CLUSTER_AUTHORIZATION_FAILED"):
            bob.create_acls([binding])[binding].result(DEADLINE_S)
        root.create_acls([binding])[binding].result(DEADLINE_S)
        assert stub.acls == [Acl.allow("alice", "WRITE", topic="t", prefixed=True)]
        assert root.describe_acls(anything).result(DEADLINE_S) == [binding]
        with producer(stub) as writer:
            assert writer.send("t1", b"x").result(DEADLINE_S).offset == 0
        assert root.delete_acls([anything])[anything].result(DEADLINE_S) == [binding]
        assert stub.acls == []
    with BrokerStub() as stub:
        anybody = AdminClient({"bootstrap.servers": stub.bootstrap})
        with pytest.raises(Exception, match="SECURITY_DISABLED"):
            anybody.create_acls([binding])[binding].result(DEADLINE_S)


def _consumed(stub: BrokerStub, user: str) -> object:
    """The first record that a group member gets, or the code of the first error."""
    consumer = Consumer(as_user(stub, user, **{"group.id": "g", "auto.offset.reset": "earliest", "enable.auto.commit": False}))
    try:
        consumer.subscribe(["t"])
        deadline = time.monotonic() + DEADLINE_S
        while time.monotonic() < deadline:
            message = consumer.poll(1.0)
            if message is not None:
                error = message.error()
                return error.code() if error is not None else message.value()
        return None
    finally:
        consumer.close()
