"""IPv6: literals in brackets, brokers that advertise them, and names with addresses of both families.

They need ::1, as nearly every machine has it; only where the system has none are they skipped.
"""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest

from fencepost.broker_stub import BrokerStub, FaultProxy
from fencepost.producer import ConfigError, NoUsableBroker, Producer, TopicUnavailable
from fencepost.producer.config.bootstrap_servers import addresses
from fencepost.producer.config.reader import read_settings
from fencepost.producer.foundations.address import Address
from fencepost.producer.wire import Api
from tests.certificates import Authority
from tests.later import jumping, limit_passes
from tests.names import names
from tests.producer.stub_helpers import QUICK, quick, until, values


def has_ipv6() -> bool:
    """Whether the system has ::1 at all: asked of the system, not of anything of ours."""
    try:
        with socket.socket(socket.AF_INET6, socket.SOCK_STREAM) as probe:
            probe.bind(("::1", 0))
    except OSError:
        return False
    return True


needs_ipv6 = pytest.mark.skipif(not has_ipv6(), reason="this system has no ::1")


@needs_ipv6
def test_a_cluster_on_ipv6() -> None:
    """Brokers that listen on ::1 and advertise it: bootstrap has brackets, and records arrive from ours and from confluent-kafka."""
    with BrokerStub(brokers=3, host="::1") as stub:
        assert all(each.startswith("[::1]:") for each in stub.bootstrap.split(","))
        stub.create_topic("t", partitions=3)
        with quick(stub) as producer:
            for partition in range(3):
                assert producer.send("t", b"ours", partition=partition).result(20).offset == 0
        theirs = confluent_kafka.Producer({"bootstrap.servers": stub.bootstrap})
        theirs.produce("t", b"theirs", partition=0)
        assert theirs.flush(20) == 0
        assert values(stub, "t") == [b"ours", b"theirs"]


@needs_ipv6
def test_the_proxy_on_ipv6() -> None:
    """A proxy that listens on ::1, in front of brokers on ::1."""
    with BrokerStub(host="::1") as stub, FaultProxy(stub.bootstrap, host="::1") as proxy:
        assert proxy.bootstrap.startswith("[::1]:")
        proxy.faults.on(Api.PRODUCE).after_append().disconnect().times(1)
        with Producer(bootstrap_servers=proxy.bootstrap, **QUICK) as producer:
            assert producer.send("t", b"x").result(20).offset == 0
        assert values(stub, "t") == [b"x"]


@needs_ipv6
@pytest.mark.parametrize("host", ["::1", "127.0.0.1"])
@pytest.mark.parametrize("order", [["::1", "127.0.0.1"], ["127.0.0.1", "::1"]], ids=["IPv6 first", "IPv4 first"])
def test_a_name_with_both_families(monkeypatch: pytest.MonkeyPatch, host: str, order: list[str]) -> None:
    """The broker listens on one family. The producer reaches it in one attempt, for both orders of the resolver's answer."""
    names(monkeypatch, kafka=order)
    patient: dict[str, Any] = {"reconnect_backoff_ms": 60_000, "reconnect_backoff_max_ms": 60_000}
    with BrokerStub(host=host) as stub, Producer(bootstrap_servers=f"kafka:{stub.addresses[1][1]}", **patient) as producer:
        assert producer.send("t", b"x").result(20).offset == 0


@needs_ipv6
@pytest.mark.parametrize("named", [True, False], ids=["in the certificate", "not in the certificate"])
def test_tls_to_an_ipv6_literal(tmp_path: Path, named: bool) -> None:
    """A certificate is checked against the address itself, without brackets; one for another is refused, and the message says so."""
    authority = Authority(tmp_path)
    certificate = authority.issue("::1" if named else "::2")
    with BrokerStub(host="::1", tls=(certificate.certfile, certificate.keyfile)) as stub:
        trust: dict[str, Any] = {**QUICK, "security_protocol": "SSL", "ssl_cafile": authority.cafile}
        with Producer(bootstrap_servers=f"SSL://{stub.bootstrap}", **trust) as producer:
            if named:
                assert producer.send("t", b"x").result(20).offset == 0
            else:
                with pytest.raises(NoUsableBroker, match=r"\[::1\]:.*certificate"):
                    producer.send("t", b"x")


@needs_ipv6
def test_messages_have_brackets() -> None:
    """What cannot be reached is named as it is written."""
    with jumping() as jump, BrokerStub(host="::1") as stub:
        bootstrap = stub.bootstrap
        stub.stop_broker(1)
        with Producer(bootstrap_servers=bootstrap, **QUICK) as producer:
            tried = producer._sender.engine.trouble
            late = limit_passes(jump, 20_000, producer, lambda: producer.send("t", b"x"), lambda: bootstrap in tried())
            assert isinstance(late, TopicUnavailable)
            assert f"{bootstrap}: " in str(late)
        stub.start_broker(1)
        with Producer(bootstrap_servers=bootstrap, **QUICK) as producer:
            producer.send("t", b"x").result(20)
            stub.stop_broker(1)
            until(lambda: "refused" in producer._sender.engine.trouble().lower(), "a connection has been refused")
            waiting = producer.send("t", b"y")
            jump(120_000, producer)
            assert bootstrap in str(waiting.exception(20))


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("[::1]:9092", Address("::1", 9092)),
        ("[fe80::1%eth0]:9092", Address("fe80::1%eth0", 9092)),
        ("[2001:db8::ff00:42:8329]:1", Address("2001:db8::ff00:42:8329", 1)),
        ("plaintext://kafka:9092", Address("kafka", 9092)),
        ("PLAINTEXT://[::1]:9092", Address("::1", 9092)),
    ],
)
def test_addresses_that_are_understood(written: str, read: Address) -> None:
    """A literal in brackets, with its zone, and a protocol in front that is the one in use."""
    settings = read_settings({"bootstrap_servers": written})
    assert addresses(settings) == [read]
    assert str(read) in written


@pytest.mark.parametrize(
    ("written", "words"),
    [
        ("::1:9092", "without brackets: write '[address]:port'"),
        ("::1", "without brackets"),
        ("[::1]", "IPv6 address]:port"),
        ("[::1]9092", "IPv6 address"),
        ("[kafka]:9092", "IPv6 address"),
        ("[::1:9092", "IPv6 address"),
        ("a:b:9092", "IPv6 address"),
        ("[::1]:0", "port from 1 to 65535"),
        ("SSL://kafka:9092", "says SSL, but security_protocol=PLAINTEXT"),
        ("SASL_SSL://kafka:9092", "set security_protocol to what the listener speaks"),
        ("http://kafka:9092", "'http', which is no security protocol"),
        ("INTERNAL://kafka:9092", "'INTERNAL', which is no security protocol"),
    ],
)
def test_addresses_that_are_not(written: str, words: str) -> None:
    """The error has the value, and what to write instead. A protocol that is not the one in use is always an error, because a caller that
    writes SSL:// expects encryption."""
    with pytest.raises(ConfigError) as refused:
        read_settings({"bootstrap_servers": written})
    assert words in str(refused.value)
    assert repr(written) in str(refused.value)


def test_a_protocol_that_is_the_one_in_use() -> None:
    """SSL:// is accepted where SSL is spoken."""
    settings = read_settings({"bootstrap_servers": "SSL://kafka:9093,kafka:9094", "security_protocol": "SSL"})
    assert addresses(settings) == [Address("kafka", 9093), Address("kafka", 9094)]


def test_dns_lookup_has_one_value() -> None:
    """Kafka's default is what is done; its other value, which would be passed over, is refused."""
    assert read_settings({"bootstrap.servers": "a:1", "client.dns.lookup": "use_all_dns_ips"}).client_dns_lookup == "use_all_dns_ips"
    with pytest.raises(ConfigError, match="the producer tries every address of a name"):
        read_settings({"bootstrap.servers": "a:1", "client.dns.lookup": "resolve_canonical_bootstrap_servers_only"})
