"""TLS and SASL with Apache Kafka: this producer on Kafka's listeners, through expiring sessions, and Kafka's own tools on the stub's."""

from __future__ import annotations

import secrets
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._acl import AclBinding, AclBindingFilter, AclOperation, AclPermissionType
from confluent_kafka.admin._resource import ResourcePatternType, ResourceType

from fencepost.broker_stub import BrokerStub, FaultProxy, Sasl, Tls
from fencepost.broker_stub.network.tls import client_context
from fencepost.producer import AuthenticationFailed, NoUsableBroker, Producer, RecordFuture, RecordRefused
from fencepost.producer.config.keywords import CompressionName
from fencepost.producer.network import sasl
from fencepost.producer.wire import Api
from fencepost.txn import Pipeline
from tests.certificates import Authority, Certificate, authority
from tests.conformance.fixtures import require_kafka, require_older_kafka
from tests.conformance.kafka import KafkaCluster
from tests.conformance.kafka_home import KAFKA_VERSION, OLDER_VERSION
from tests.conformance.secure import MODULES, SESSION_MS, secure_kafka
from tests.conformance.survival.reader import Admin, read_topic
from tests.credentials import MECHANISMS, PASSWORD_MECHANISMS, USERS, jwt, ours
from tests.drawn import drawn
from tests.producer.stub_helpers import until
from tests.reading import read_values

__all__ = ["authority"]

pytestmark = pytest.mark.timeout(300)

WAIT_S = 60.0
SECONDS = 5.0


@pytest.fixture(scope="module")
def client(authority: Authority) -> Certificate:
    return authority.issue("alice", common_name="alice")


@pytest.fixture(scope="module")
def kafka(authority: Authority) -> Iterator[KafkaCluster]:
    require_kafka()
    with secure_kafka(authority) as cluster:
        yield cluster


@pytest.fixture
def topic(kafka: KafkaCluster) -> str:
    name = f"secure-{secrets.token_hex(4)}"
    Admin(kafka.bootstrap).create(name, partitions=1)
    return name


def settings_for(listener: str, authority: Authority) -> dict[str, Any]:
    """A producer's settings for that listener, without the mechanism."""
    protocol = {"SASL": "SASL_PLAINTEXT", "BRIEF": "SASL_PLAINTEXT", "SASL_TLS": "SASL_SSL", "BRIEF_TLS": "SASL_SSL"}.get(listener, "SSL")
    return {"security_protocol": protocol, **({"ssl_cafile": authority.cafile} if protocol.endswith("SSL") else {})}


def stored(kafka: KafkaCluster, topic: str) -> list[bytes | None]:
    """What another client reads at the listener without TLS and SASL."""
    return [message.value() for message in read_topic(kafka.bootstrap, topic)]


@drawn(2, kind=lambda row: row["mechanism"])
@pytest.mark.parametrize("listener", ["SASL", "SASL_TLS"])
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_every_mechanism(kafka: KafkaCluster, authority: Authority, topic: str, listener: str, mechanism: str) -> None:
    """With and without TLS, each record is there once and in order."""
    settings = {**settings_for(listener, authority), **ours(mechanism)}
    with Producer(bootstrap_servers=kafka.bootstrap_at(listener), **settings) as ours_:
        futures = [ours_.send(topic, b"%d" % number) for number in range(2_000)]
        assert [future.result(WAIT_S).offset for future in futures] == list(range(2_000))
    assert stored(kafka, topic) == [b"%d" % number for number in range(2_000)]


@pytest.mark.parametrize("listener", ["TLS", "MUTUAL", "SASL_TLS"])
def test_a_proxy_in_front(kafka: KafkaCluster, authority: Authority, client: Certificate, topic: str, listener: str) -> None:
    """A proxy speaks TLS to Kafka, with its own certificate where Kafka wants one, and lets SASL through. Replies are lost, and each record
    is there once."""
    upstream = client_context(authority.cafile, client.certfile, client.keyfile) if listener == "MUTUAL" else authority.cafile
    settings: dict[str, Any] = {"security_protocol": "SASL_PLAINTEXT", **ours("SCRAM-SHA-256")} if listener == "SASL_TLS" else {}
    with FaultProxy(kafka.bootstrap_at(listener), upstream_tls=upstream) as proxy:
        proxy.faults.on(Api.PRODUCE).drop_reply().times(3)
        with Producer(bootstrap_servers=proxy.bootstrap, request_timeout_ms=500, linger_ms=0, **settings) as ours_:
            futures = [ours_.send(topic, b"%d" % number) for number in range(500)]
            assert [future.result(WAIT_S).offset for future in futures] == list(range(500))
        assert sorted(proxy.addresses) == ([-1, 1] if listener == "SASL_TLS" else [1])
    assert stored(kafka, topic) == [b"%d" % number for number in range(500)]


CODECS: list[CompressionName] = ["none", "gzip", "snappy", "lz4", "zstd"]
ROWS = 20  # for each codec under each mechanism


@drawn(2)
@pytest.mark.parametrize("version", [KAFKA_VERSION, OLDER_VERSION])
def test_the_console_consumer_reads_every_codec_of_every_mechanism(
    request: pytest.FixtureRequest, authority: Authority, client: Certificate, version: str
) -> None:
    """On Kafka 4.3 and 3.9, with each codec under each mechanism, with and without TLS, and with a client certificate.

    Kafka's console consumer of that release prints each record once and in order, from batches in that codec.
    """
    topic, expected = f"every-{secrets.token_hex(4)}", []
    with ExitStack() as running:
        if version == KAFKA_VERSION:
            cluster: KafkaCluster = request.getfixturevalue("kafka")
        else:
            require_older_kafka()
            cluster = running.enter_context(secure_kafka(authority, version=version))
        Admin(cluster.bootstrap).create(topic, partitions=1)
        ways = [(listener, mechanism, ours(mechanism)) for listener in ("SASL", "SASL_TLS") for mechanism in MECHANISMS]
        ways += [("TLS", "TLS", {}), ("MUTUAL", "mutual", {"ssl_certfile": client.both})]
        for listener, name, own in ways:
            settings = {"bootstrap_servers": cluster.bootstrap_at(listener), **settings_for(listener, authority), **own}
            for codec in CODECS:
                values = [f"{listener} {name} {codec} {number} {'packed ' * 30}" for number in range(ROWS)]
                with Producer(**settings, compression_type=codec) as producer:
                    bulk = producer.send_many(topic, [value.encode() for value in values])
                    assert bulk.result(WAIT_S).acknowledged == ROWS
                expected += values
        shown = cluster.tool(
            "org.apache.kafka.tools.consumer.ConsoleConsumer",
            *("--bootstrap-server", cluster.bootstrap, "--topic", topic, "--partition", "0", "--offset", "earliest"),
            *("--max-messages", str(len(expected)), "--timeout-ms", "30000"),
            timeout=90.0,
        )
        assert shown.splitlines() == expected


def test_older_tools_on_the_stub() -> None:
    """Kafka 3.9's own ProducerPerformance writes to the stub, and its console consumer reads all of it in a group."""
    require_older_kafka()
    lender = KafkaCluster(version=OLDER_VERSION)  # never started; the tools only use its class path
    with closing(lender), BrokerStub() as stub:
        stub.create_topic("t", partitions=2)
        for codec in ("snappy", "zstd"):
            lender.tool(
                "org.apache.kafka.tools.ProducerPerformance",
                *("--topic", "t", "--num-records", "50", "--record-size", "40", "--throughput", "-1"),
                *("--producer-props", f"bootstrap.servers={stub.bootstrap}", f"compression.type={codec}", "linger.ms=50"),
                timeout=90.0,
            )
        sent = [(record.value or b"").decode() for partition in (0, 1) for record in stub.records("t", partition)]
        assert len(sent) == 100
        shown = lender.tool(
            "org.apache.kafka.tools.consumer.ConsoleConsumer",
            *("--bootstrap-server", stub.bootstrap, "--topic", "t", "--group", "older", "--from-beginning"),
            *("--max-messages", str(len(sent)), "--timeout-ms", "30000"),
            timeout=90.0,
        )
    assert sorted(shown.splitlines()) == sorted(sent)


@pytest.mark.parametrize("listener", ["TLS", "MUTUAL", "ELSEWHERE"])
def test_tls(kafka: KafkaCluster, authority: Authority, client: Certificate, topic: str, listener: str) -> None:
    """TLS, TLS with a client certificate, and a host name that is not checked; small records and large ones."""
    settings = settings_for(listener, authority)
    settings |= {"ssl_certfile": client.certfile, "ssl_keyfile": client.keyfile} if listener == "MUTUAL" else {}
    settings |= {"ssl.endpoint.identification.algorithm": "none"} if listener == "ELSEWHERE" else {}
    values = [b"%d" % number for number in range(1_000)] + [bytes([number]) * 600_000 for number in range(5)]
    with Producer({"bootstrap.servers": kafka.bootstrap_at(listener), **settings}) as ours_:
        futures = [ours_.send(topic, value) for value in values]
        assert [future.result(WAIT_S).offset for future in futures] == list(range(len(values)))
    assert stored(kafka, topic) == values


@drawn(4)
@pytest.mark.parametrize(("listener", "mechanism"), [("BRIEF", "OAUTHBEARER"), *(("BRIEF_TLS", each) for each in MECHANISMS)])
def test_sessions_that_end(
    kafka: KafkaCluster, authority: Authority, topic: str, listener: str, mechanism: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A send lasts for several lifetimes of connections.max.reauth.ms. The producer authenticates again each time, and every record is
    there, once and in order.

    On a busy machine a renewal may be late. Then the next connection authenticates.
    """
    sessions: Counter[object] = Counter()
    perform = sasl.Login.perform

    async def performing(self: Any, ask: Any) -> float | None:
        lifetime = await perform(self, ask)
        assert lifetime is not None
        assert 0 < lifetime <= SESSION_MS / 1000
        sessions[self] += 1  # each connection has its own Login
        return lifetime

    monkeypatch.setattr(sasl.Login, "perform", performing)
    settings = {**settings_for(listener, authority), **ours(mechanism)}
    futures: list[RecordFuture] = []
    with Producer(bootstrap_servers=kafka.bootstrap_at(listener), linger_ms=20, **settings) as ours_:
        deadline = time.monotonic() + 40
        while max(sessions.values(), default=0) < 3:
            assert time.monotonic() < deadline, sessions
            futures.append(ours_.send(topic, b"%d" % len(futures)))
            if len(futures) > 100:
                until(futures[-100].done, "an old record is acknowledged")
        assert [future.result(WAIT_S).offset for future in futures] == list(range(len(futures)))
    assert stored(kafka, topic) == [b"%d" % number for number in range(len(futures))]


@drawn(2, kind=lambda row: row["mechanism"] == "OAUTHBEARER")
@pytest.mark.parametrize("listener", ["SASL", "SASL_TLS"])
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_pipeline(kafka: KafkaCluster, authority: Authority, topic: str, listener: str, mechanism: str) -> None:
    """One set of settings serves its producer, and its consumer, which is librdkafka's. Tokens are of the producer's provider."""
    ca = {"ssl.ca.location": authority.cafile} if listener == "SASL_TLS" else {}
    mine = {name.replace("_", "."): value for name, value in ours(mechanism).items()}
    connection = {"security.protocol": "SASL_SSL" if ca else "SASL_PLAINTEXT", **ca, **mine}
    sink = f"{topic}-out"
    Admin(kafka.bootstrap).create(sink, partitions=1)
    values: list[bytes | None] = [b"%d" % number for number in range(100)]
    with Producer(bootstrap_servers=kafka.bootstrap) as plain:
        plain.send_many(topic, values).result(WAIT_S)
    with Pipeline(
        bootstrap_servers=kafka.bootstrap_at(listener),
        source=topic,
        group=topic,
        sink=sink,
        transform=lambda message: message.value(),
        connection=connection,
    ) as pipeline:
        pipeline.run_until_idle(timeout=WAIT_S)
    assert read_values(kafka.bootstrap, sink, [0]) == values


WRONG = {"sasl_password": "quite-wrong"}
PLAIN = {"sasl_mechanism": "PLAIN", "sasl_username": "alice", "sasl_password": USERS["alice"]}
OAUTH = {"sasl_mechanism": "OAUTHBEARER", "sasl_oauth_token_provider": lambda: jwt(life_s=-20)}


@pytest.mark.parametrize(
    ("listener", "more", "kind", "words"),
    [
        ("TLS", {"ssl_cafile": None}, AuthenticationFailed, ["not signed by a trusted CA", "set ssl_cafile"]),
        ("EXPIRED", {}, AuthenticationFailed, ["not valid now", "has expired"]),
        ("ELSEWHERE", {}, AuthenticationFailed, ["not for '127.0.0.1'", "ssl_check_hostname"]),
        ("MUTUAL", {}, AuthenticationFailed, ["the broker requires a client certificate", "ssl_certfile"]),
        ("MUTUAL", {"ssl_certfile": "stranger"}, AuthenticationFailed, ["does not accept the client certificate in ssl_certfile="]),
        *(
            ("SASL_TLS", {**ours(mechanism), **WRONG}, AuthenticationFailed, [f"sasl_mechanism={mechanism}", "'alice'", "sasl_password"])
            for mechanism in PASSWORD_MECHANISMS
        ),
        ("SASL", OAUTH, AuthenticationFailed, ["token of 'alice', which expired", "invalid_token", "sasl_oauth_token_provider"]),
        ("SASL", {"security_protocol": "PLAINTEXT"}, AuthenticationFailed, ["the listener requires SASL", "sasl_mechanism"]),
        ("SASL_TLS", {"security_protocol": "SSL"}, AuthenticationFailed, ["the listener requires SASL", "SASL_SSL"]),
        ("TLS", {"security_protocol": "PLAINTEXT", "ssl_cafile": None}, NoUsableBroker, ["the port requires TLS", "set it to SSL"]),
        ("PLAINTEXT", {}, NoUsableBroker, ["the port has no TLS, but security_protocol=SSL", "set it to PLAINTEXT"]),
        ("PLAINTEXT", {"security_protocol": "SASL_PLAINTEXT", "ssl_cafile": None, **PLAIN}, NoUsableBroker, ["has no SASL"]),
    ],
)
def test_what_does_not_fit_is_said_within_seconds(
    kafka: KafkaCluster,
    authority: Authority,
    tmp_path: Path,
    listener: str,
    more: dict[str, Any],
    kind: type[NoUsableBroker],
    words: list[str],
) -> None:
    """The error quotes Kafka's own text or alert, with the cause and the setting."""
    if "ssl_certfile" in more:
        more = {"ssl_certfile": Authority(tmp_path).issue("mallory").both}
    address = kafka.bootstrap if listener == "PLAINTEXT" else kafka.bootstrap_at(listener)
    with Producer(bootstrap_servers=address, **{**settings_for(listener, authority), **more}) as ours_:
        began = time.monotonic()
        with pytest.raises(NoUsableBroker) as refused:
            ours_.send("t", b"x")
        assert time.monotonic() - began < SECONDS
    said = str(refused.value)
    assert type(refused.value) is kind, said
    assert [word for word in words if word not in said] == [], said
    assert "quite-wrong" not in said


def test_kafka_does_not_prepare_passwords(kafka: KafkaCluster, topic: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kafka's own tool stores a password that SASLprep would change. It works as given, and its prepared form does not.

    Therefore SCRAM uses passwords as they are.
    """
    monkeypatch.setenv("LC_ALL", "C.UTF-8")
    password, prepared = "pªssⅨ wörd", "passIX wörd"
    change = ("--alter", "--add-config", f"SCRAM-SHA-256=[password={password}]", "--entity-type", "users", "--entity-name", "odd")
    kafka.tool("kafka.admin.ConfigCommand", "--bootstrap-server", kafka.bootstrap, *change)
    settings = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "SCRAM-SHA-256", "sasl_username": "odd"}
    with Producer(settings, bootstrap_servers=kafka.bootstrap_at("SASL"), sasl_password=password) as good:
        assert good.send(topic, b"x").result(WAIT_S).offset == 0
    refusing = Producer(settings, bootstrap_servers=kafka.bootstrap_at("SASL"), sasl_password=prepared)
    with refusing as bad, pytest.raises(AuthenticationFailed):
        bad.send(topic, b"x")


# -- Kafka's tools on the stub -----------------------------------------------------------------------------------------------


def java(authority: Authority, client: Certificate, mechanism: str | None, file: Path) -> str:
    """A configuration file for Kafka's tools, for TLS and that mechanism, or for mutual TLS."""
    lines = {"ssl.truststore.type": "PEM", "ssl.truststore.location": authority.cafile}
    if mechanism is None:
        lines |= {"security.protocol": "SSL", "ssl.keystore.type": "PEM", "ssl.keystore.location": client.both}
    else:
        module = {"PLAIN": "plain.PlainLoginModule", "OAUTHBEARER": "oauthbearer.OAuthBearerLoginModule"}
        known = f'username="alice" password="{USERS["alice"]}"'
        login = 'unsecuredLoginStringClaim_sub="alice"' if mechanism == "OAUTHBEARER" else known
        jaas = f"{MODULES}.{module.get(mechanism, 'scram.ScramLoginModule')} required {login};"
        lines |= {"security.protocol": "SASL_SSL", "sasl.mechanism": mechanism, "sasl.jaas.config": jaas}
    file.write_text("".join(f"{name}={value}\n" for name, value in lines.items()))
    return str(file)


@drawn(3)
@pytest.mark.parametrize("mechanism", [*MECHANISMS, None], ids=lambda each: each or "mutual TLS")
def test_kafkas_tools_on_the_stub(
    kafka: KafkaCluster, authority: Authority, client: Certificate, tmp_path: Path, mechanism: str | None
) -> None:
    """ProducerPerformance writes and the console consumer reads, over TLS, under each mechanism and with a client certificate."""
    config = java(authority, client, mechanism, tmp_path / "client.properties")
    server = authority.issue("localhost", "127.0.0.1")
    tls = Tls(server.both, client_ca=authority.cafile if mechanism is None else None)
    with BrokerStub(tls=tls, sasl=Sasl(USERS, MECHANISMS) if mechanism is not None else None) as stub:
        stub.create_topic("t", partitions=1)
        kafka.tool(
            "org.apache.kafka.tools.ProducerPerformance",
            *("--topic", "t", "--num-records", "200", "--record-size", "40", "--throughput", "-1"),
            *("--bootstrap-server", stub.bootstrap, "--command-config", config),
            timeout=90.0,
        )
        sent = [(record.value or b"").decode() for record in stub.records("t", 0)]
        assert len(sent) == 200
        shown = kafka.tool(
            "org.apache.kafka.tools.consumer.ConsoleConsumer",
            *("--bootstrap-server", stub.bootstrap, "--topic", "t", "--partition", "0", "--offset", "earliest"),
            *("--max-messages", "200", "--timeout-ms", "30000", "--command-config", config),
            timeout=90.0,
        )
        assert shown.splitlines() == sent


def test_what_a_producer_without_permission_says(kafka: KafkaCluster, topic: str) -> None:
    """The error names the topic or the cluster, the missing permission, and what to grant. On the stub it is the same."""
    with BrokerStub(sasl=USERS, super_users=["bob"], config={"allow.everyone.if.no.acl.found": "true"}) as stub:
        stub.create_topic(topic)
        said = [_refusals(where, topic) for where in (kafka.bootstrap_at("SASL"), stub.bootstrap)]
    assert said[0] == said[1]
    described, written, fatal, arrived = said[0]
    for refusal, words in (
        (described, (topic, "no DESCRIBE permission on the topic", "grant WRITE on the topic")),
        (written, (f"{topic}-0", "no WRITE permission on the topic", "grant WRITE on the topic")),
        (fatal, ("CLUSTER_AUTHORIZATION_FAILED", "grant WRITE on its topics", "IDEMPOTENT_WRITE on the cluster")),
    ):
        assert [word for word in words if word not in refusal] == []
    assert arrived == "written"


def _refusals(where: str, topic: str) -> list[str]:
    """Alice's errors while bob gives her one permission after the other."""
    plain = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.username": "bob", "sasl.password": USERS["bob"]}
    admin = AdminClient({"bootstrap.servers": where, "log_level": 0, **plain})

    def binding(operation: AclOperation, name: str, *, user: str = "alice", denied: bool = False, cluster: bool = False) -> AclBinding:
        kind = ResourceType.BROKER if cluster else ResourceType.TOPIC
        permission = AclPermissionType.DENY if denied else AclPermissionType.ALLOW
        return AclBinding(kind, name, ResourcePatternType.LITERAL, f"User:{user}", "*", operation, permission)

    def attempt() -> str:
        settings = ours("PLAIN", "alice")
        with Producer(bootstrap_servers=where, security_protocol="SASL_PLAINTEXT", max_block_ms=20_000, **settings) as writer:
            try:
                failure = writer.send(topic, b"x").exception(WAIT_S)
            except RecordRefused as refused:
                failure = refused
            return str(failure) if failure is not None else "written"

    denials = [
        binding(AclOperation.IDEMPOTENT_WRITE, "kafka-cluster", denied=True, cluster=True),
        binding(AclOperation.WRITE, "*", denied=True),
    ]
    _change(admin, [binding(AclOperation.READ, topic, user="bob")])
    said = [attempt()]
    _change(admin, [binding(AclOperation.DESCRIBE, topic)])
    said.append(attempt())
    _change(admin, denials)
    said.append(attempt())
    _change(admin, denials, gone=True)
    _change(admin, [binding(AclOperation.WRITE, topic)])
    return [*said, attempt()]


def _change(admin: AdminClient, acls: list[AclBinding], *, gone: bool = False) -> None:
    """Create or delete the ACLs, and wait until the broker applies that."""
    filters = [
        AclBindingFilter(acl.restype, acl.name, acl.resource_pattern_type, acl.principal, acl.host, acl.operation, acl.permission_type)
        for acl in acls
    ]
    done = admin.delete_acls(filters) if gone else admin.create_acls(acls)
    for future in done.values():
        future.result(WAIT_S)
    for wanted in filters:
        until(partial(_knows, admin, wanted, gone), "the broker knows")


def _knows(admin: AdminClient, wanted: AclBindingFilter, gone: bool) -> bool:
    return bool(admin.describe_acls(wanted).result(WAIT_S)) is not gone
