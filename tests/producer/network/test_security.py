"""A producer on listeners with TLS and SASL: records arrive under every mechanism, as the user that was named."""

from __future__ import annotations

import asyncio
import ssl
from typing import Any

import pytest

from fencepost.broker_stub import BrokerStub, Sasl
from fencepost.producer import AsyncProducer, AuthenticationFailed, Producer
from tests.credentials import MECHANISMS, USERS, ours, principals
from tests.producer.pki import Pki, pki, tls
from tests.producer.stub_helpers import QUICK, until, values

__all__ = ["pki"]


@pytest.mark.parametrize("secure", [False, True], ids=["SASL_PLAINTEXT", "SASL_SSL"])
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_records_arrive_with_every_mechanism(pki: Pki, mechanism: str, secure: bool) -> None:
    """With and without TLS, on every broker, as the user that was named."""
    settings = {**pki.trust, "security_protocol": "SASL_SSL"} if secure else {"security_protocol": "SASL_PLAINTEXT"}
    with (
        BrokerStub(brokers=3, sasl=Sasl(USERS, [mechanism]), tls=tls(pki.server) if secure else None) as stub,
        Producer(bootstrap_servers=stub.bootstrap, **QUICK, **settings, **ours(mechanism)) as producer,
    ):
        stub.create_topic("t", partitions=3)
        for number in range(30):
            assert producer.send("t", b"%d" % number, partition=number % 3).result(20).offset == number // 3
        assert principals(stub) == {"User:alice"}
        for partition in range(3):
            assert values(stub, "t", partition) == [b"%d" % number for number in range(partition, 30, 3)]


def test_tls_alone(pki: Pki) -> None:
    """Large records and many small ones arrive. Their principal is ANONYMOUS."""
    large = [bytes([number]) * 700_000 for number in range(8)]
    with BrokerStub(tls=tls(pki.server)) as stub, Producer(bootstrap_servers=stub.bootstrap, **QUICK, **pki.trust) as producer:
        futures = [producer.send("t", value) for value in (*large, *(b"%d" % number for number in range(5_000)))]
        assert [future.result(20).offset for future in futures] == list(range(5_008))
        assert values(stub, "t")[:8] == large
        assert principals(stub) == {"User:ANONYMOUS"}


@pytest.mark.parametrize("given", ["two files", "one file", "an encrypted key", "a context"])
def test_mutual_tls(pki: Pki, given: str) -> None:
    """The principal comes from the client's certificate, in every form in which the setting takes it."""
    locked = pki.ours.issue("alice", common_name="alice", password="hush")
    context = ssl.create_default_context(cafile=pki.ours.cafile)
    context.load_cert_chain(pki.client.both)
    settings: dict[str, Any] = {
        "two files": {**pki.trust, "ssl_certfile": pki.client.certfile, "ssl_keyfile": pki.client.keyfile},
        "one file": {**pki.trust, "ssl_certfile": pki.client.both},
        "an encrypted key": {**pki.trust, "ssl_certfile": locked.certfile, "ssl_keyfile": locked.keyfile, "ssl_password": "hush"},
        "a context": {"security_protocol": "SSL", "ssl_context": context},
    }[given]
    with (
        BrokerStub(tls=tls(pki.server, client_ca=pki.ours.cafile)) as stub,
        Producer(bootstrap_servers=stub.bootstrap, **QUICK, **settings) as producer,
    ):
        assert producer.send("t", b"x").result(20).offset == 0
        (principal,) = principals(stub)
        assert principal.startswith("User:CN=alice,")


def test_a_name_and_a_number(pki: Pki) -> None:
    """A broker is checked under the name that it is called by: localhost is in the certificate, and so is its number."""
    with BrokerStub(tls=tls(pki.server), host="127.0.0.1") as stub:
        port = stub.addresses[1][1]
        for host in ("localhost", "127.0.0.1"):
            with Producer(bootstrap_servers=f"{host}:{port}", **QUICK, **pki.trust) as producer:
                assert producer.partitions_for("t") == [0]


def test_the_host_name_may_be_left_unchecked(pki: Pki) -> None:
    """ssl_check_hostname=False takes any name, and still only certificates of a trusted CA."""
    with BrokerStub(tls=tls(pki.elsewhere)) as stub:
        settings = {**QUICK, "ssl.endpoint.identification.algorithm": "none"}
        with Producer({"bootstrap.servers": stub.bootstrap, **settings, **pki.trust}) as producer:
            assert producer.send("t", b"x").result(20).offset == 0
        stranger = {"security_protocol": "SSL", "ssl_cafile": pki.theirs.cafile}
        with Producer({"bootstrap.servers": stub.bootstrap, **settings, **stranger}) as producer, pytest.raises(AuthenticationFailed):
            producer.send("t", b"x")


def test_records_without_an_answer_over_tls(pki: Pki) -> None:
    """acks=0: a record is done when the socket has it, encrypted, and so it arrives although the producer closes at once."""
    with BrokerStub(tls=tls(pki.server)) as stub:
        stub.create_topic("t")
        with Producer(bootstrap_servers=stub.bootstrap, acks=0, linger_ms=0, batch_size=50_000, **pki.trust) as producer:
            for number in range(200):
                producer.send("t", b"%05d" % number * 2_000)
        until(lambda: stub.end_offset("t", 0), "all of them", good=lambda count: count == 200)
        assert values(stub, "t") == [b"%05d" % number * 2_000 for number in range(200)]


def test_an_asyncio_producer_has_the_same_settings(pki: Pki) -> None:
    """An asyncio producer takes the settings of TLS and SASL, and its awaited calls raise the errors of the blocking producer."""

    async def run() -> None:
        with BrokerStub(sasl=USERS, tls=tls(pki.server)) as stub:
            settings = {**QUICK, **pki.trust, "security_protocol": "SASL_SSL"}
            async with AsyncProducer(bootstrap_servers=stub.bootstrap, **settings, **ours("SCRAM-SHA-512")) as producer:
                await (await producer.send("t", b"x"))
                assert principals(stub) == {"User:alice"}
            async with AsyncProducer(bootstrap_servers=stub.bootstrap, **settings, **ours("PLAIN", password="wrong")) as producer:
                with pytest.raises(AuthenticationFailed, match="sasl_password"):
                    await producer.send("t", b"x")

    asyncio.run(asyncio.wait_for(run(), 40))
