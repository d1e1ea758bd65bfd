"""Settings that do not fit what is found at an address: said within seconds, with the cause and the setting that it is about, and without
the password; and it is not the end of the producer."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from typing import Any

import pytest

from fencepost.broker_stub import BrokerStub, Sasl
from fencepost.producer import AsyncProducer, AuthenticationFailed, NoUsableBroker, Producer, TopicUnavailable
from fencepost.producer.wire import Api, ApiVersionsResponse, RequestHeader
from fencepost.producer.wire.messages.api_versions import ApiVersion
from tests.credentials import PASSWORD_MECHANISMS, USERS, jwt, ours
from tests.later import jumping, limit_passes
from tests.producer.network.other_servers import banner_server, http_server
from tests.producer.pki import Pki, pki, tls
from tests.producer.scripted_broker import FakeBroker, framed
from tests.producer.stub_helpers import QUICK, until, values

__all__ = ["pki"]

SECONDS = 20.0
"""Far below max_block_ms, also where the machine is very busy."""
"""What "within seconds" is; on a quiet machine it is a fraction of one."""

WRONG = "quite-wrong"

Story = Callable[[Pki], tuple[AbstractContextManager[Any], dict[str, Any]]]
"""A server, and the settings that do not fit it."""


def password(mechanism: str) -> Story:
    return lambda pki: (BrokerStub(sasl=USERS), {"security_protocol": "SASL_PLAINTEXT", **ours(mechanism, password=WRONG)})


def nobody(mechanism: str) -> Story:
    return lambda pki: (BrokerStub(sasl=USERS), {"security_protocol": "SASL_PLAINTEXT", **ours(mechanism, "nobody", WRONG)})


def token(provider: Callable[..., object]) -> Story:
    given = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "OAUTHBEARER", "sasl_oauth_token_provider": provider}
    return lambda pki: (BrokerStub(sasl=Sasl(mechanisms=["OAUTHBEARER"])), given)


def broken_provider() -> str:
    raise KeyError("client_secret")


def alert(level: int, what: int) -> bytes:
    """A TLS record."""
    return bytes([21, 3, 3, 0, 2, level, what])


PLAIN = ours("PLAIN")
HTTP = "an HTTP server answers there, not a Kafka broker: the address is wrong (bootstrap_servers"
SSH = "an SSH server answers there, not a Kafka broker: the address is wrong (bootstrap_servers"
STORIES: dict[str, tuple[Story, type[NoUsableBroker], list[str]]] = {
    "a certificate of an unknown CA": (
        lambda pki: (BrokerStub(tls=tls(pki.server)), {**pki.trust, "ssl_cafile": pki.theirs.cafile}),
        AuthenticationFailed,
        ["certificate is not signed by a trusted CA", "unable to get local issuer", "ssl_cafile=", "ssl.ca.location"],
    ),
    "a certificate of a CA that the system does not know": (
        lambda pki: (BrokerStub(tls=tls(pki.server)), {"security_protocol": "SSL"}),
        AuthenticationFailed,
        ["certificate is not signed by a trusted CA", "the system's: set ssl_cafile"],
    ),
    "a certificate for another host": (
        lambda pki: (BrokerStub(tls=tls(pki.elsewhere)), pki.trust),
        AuthenticationFailed,
        ["certificate is not for '127.0.0.1'", "mismatch", "bootstrap_servers", "ssl_check_hostname", "ssl.endpoint.identification"],
    ),
    "an expired certificate": (
        lambda pki: (BrokerStub(tls=tls(pki.expired)), pki.trust),
        AuthenticationFailed,
        ["certificate is not valid now", "has expired", "ssl.keystore", "clock"],
    ),
    "no client certificate": (
        lambda pki: (BrokerStub(tls=tls(pki.server, client_ca=pki.ours.cafile)), pki.trust),
        AuthenticationFailed,
        ["the broker requires a client certificate", "set ssl_certfile and ssl_keyfile"],
    ),
    "a client certificate of an unknown CA": (
        lambda pki: (BrokerStub(tls=tls(pki.server, client_ca=pki.ours.cafile)), {**pki.trust, "ssl_certfile": pki.stranger.both}),
        AuthenticationFailed,
        ["the broker does not accept the client certificate in ssl_certfile=", "unknown ca"],
    ),
    **{
        f"a wrong password with {mechanism}": (
            password(mechanism),
            AuthenticationFailed,
            [f"sasl_mechanism={mechanism}", "user 'alice'", "SASL_AUTHENTICATION_FAILED", reason, "sasl_username and sasl_password"],
        )
        for mechanism, reason in zip(
            PASSWORD_MECHANISMS, ["Invalid username or password", *["due to invalid credentials"] * 2], strict=True
        )
    },
    **{
        f"an unknown user with {mechanism}": (nobody(mechanism), AuthenticationFailed, [f"sasl_mechanism={mechanism}", "user 'nobody'"])
        for mechanism in PASSWORD_MECHANISMS
    },
    "an expired token": (
        token(lambda: jwt(life_s=-20)),
        AuthenticationFailed,
        ["OAUTHBEARER token of 'alice', which expired 20 s ago", "invalid_token", "sasl_oauth_token_provider"],
    ),
    "an expired token that says so": (
        token(lambda: (jwt(), time.time() - 30)),
        AuthenticationFailed,
        ["sasl_oauth_token_provider returned a token that expired 30 s ago"],
    ),
    "a token provider that fails": (token(broken_provider), AuthenticationFailed, ["sasl_oauth_token_provider raised KeyError"]),
    "a mechanism that the broker does not have": (
        lambda pki: (BrokerStub(sasl=Sasl(USERS, mechanisms=["SCRAM-SHA-512"])), {"security_protocol": "SASL_PLAINTEXT", **PLAIN}),
        AuthenticationFailed,
        ["does not accept sasl_mechanism=PLAIN", "it accepts SCRAM-SHA-512"],
    ),
    "TLS against a plaintext port": (
        lambda pki: (BrokerStub(), pki.trust),
        NoUsableBroker,
        ["the port has no TLS, but security_protocol=SSL", "set it to PLAINTEXT"],
    ),
    "TLS and SASL against a port with SASL only": (
        lambda pki: (BrokerStub(sasl=USERS), {**pki.trust, **PLAIN, "security_protocol": "SASL_SSL"}),
        NoUsableBroker,
        ["the port has no TLS, but security_protocol=SASL_SSL", "set it to SASL_PLAINTEXT"],
    ),
    "plaintext against a TLS port": (
        lambda pki: (BrokerStub(tls=tls(pki.server)), {}),
        NoUsableBroker,
        ["the port requires TLS, but security_protocol=PLAINTEXT", "set it to SSL"],
    ),
    "plaintext against a TLS port that says what it wants": (
        lambda pki: (banner_server(b"\x15\x03\x03\x00\x02\x02\x50", first=False), {"security_protocol": "SASL_PLAINTEXT", **PLAIN}),
        NoUsableBroker,
        ["the port requires TLS, but security_protocol=SASL_PLAINTEXT", "set it to SASL_SSL"],
    ),
    "SASL against a port without": (
        lambda pki: (BrokerStub(), {"security_protocol": "SASL_PLAINTEXT", **PLAIN}),
        NoUsableBroker,
        ["the listener has no SASL", "security_protocol=SASL_PLAINTEXT", "PLAINTEXT"],
    ),
    "nothing against a port with SASL": (
        lambda pki: (BrokerStub(sasl=USERS), {}),
        AuthenticationFailed,
        ["the listener requires SASL (PLAIN, SCRAM-SHA-256", "security_protocol=PLAINTEXT", "set it to SASL_PLAINTEXT, and sasl_mechanism"],
    ),
    "TLS against a port with TLS and SASL": (
        lambda pki: (BrokerStub(sasl=USERS, tls=tls(pki.server)), pki.trust),
        AuthenticationFailed,
        ["the listener requires SASL", "security_protocol=SSL", "set it to SASL_SSL, and sasl_mechanism"],
    ),
    "an HTTP server": (lambda pki: (http_server(), {}), NoUsableBroker, [HTTP]),
    "an HTTP server that answers in lines": (
        lambda pki: (banner_server(b"HTTP/1.1 400 Bad Request\r\n\r\n", first=False), {}),
        NoUsableBroker,
        [HTTP],
    ),
    "TLS against an HTTP server": (lambda pki: (http_server(), pki.trust), NoUsableBroker, [HTTP]),
    "an HTTPS server": (lambda pki: (http_server(pki.server), pki.trust), NoUsableBroker, [HTTP]),
    "an SSH server": (lambda pki: (banner_server(b"SSH-2.0-OpenSSH_9.6\r\n"), {}), NoUsableBroker, [SSH]),
    "TLS against an SSH server": (lambda pki: (banner_server(b"SSH-2.0-OpenSSH_9.6\r\n"), pki.trust), NoUsableBroker, [SSH]),
    "TLS against something else": (
        lambda pki: (banner_server(b"?" * 100), pki.trust),
        NoUsableBroker,
        ["the peer speaks no TLS, but security_protocol=SSL", "bootstrap_servers"],
    ),
    "an alert about a CA without a client certificate": (
        lambda pki: (banner_server(alert(2, 48), first=False), pki.trust),
        AuthenticationFailed,
        [": the broker ended the TLS handshake: unknown ca"],
    ),
}


@pytest.mark.parametrize("name", STORIES)
def test_an_asyncio_producer_says_the_same(pki: Pki, name: str) -> None:
    """`await send` raises the same error with the same words, as soon."""
    story, kind, words = STORIES[name]
    server, settings = story(pki)

    async def send(address: str) -> str:
        async with AsyncProducer(bootstrap_servers=address, **settings) as producer:
            with pytest.raises(NoUsableBroker) as refused:
                async with asyncio.timeout(SECONDS):
                    await producer.send("t", b"x")
            assert type(refused.value) is kind, refused.value
            return str(refused.value)

    with server as found:
        address = found.bootstrap if isinstance(found, BrokerStub) else found
        said = asyncio.run(send(address))
    assert said.startswith(f"{address}: ")
    assert [word for word in words if word not in said] == [], said
    assert WRONG not in said


@pytest.mark.parametrize("name", STORIES)
def test_what_does_not_fit_is_said_within_seconds(pki: Pki, name: str, caplog: pytest.LogCaptureFixture) -> None:
    """`send` raises long before max_block_ms, with the address, the cause and the setting; neither it nor the log has the password."""
    story, kind, words = STORIES[name]
    server, settings = story(pki)
    with server as found:
        address = found.bootstrap if isinstance(found, BrokerStub) else found
        with Producer(bootstrap_servers=address, **settings) as producer:
            began = time.monotonic()
            with pytest.raises(NoUsableBroker) as refused:
                producer.send("t", b"x")
            assert time.monotonic() - began < SECONDS
            said = str(refused.value)
            assert type(refused.value) is kind, said
            assert said.startswith(f"{address}: ")
            assert [word for word in words if word not in said] == [], said
            # It is no different the second time, nor for a call of another kind.
            with pytest.raises(kind):
                producer.partitions_for("t")
    for secret in (WRONG, USERS["alice"]):
        assert secret not in said
        assert secret not in caplog.text
    assert not [record for record in caplog.records if record.exc_info]


def test_a_broker_from_before_saslauthenticate() -> None:
    """One that cannot be authenticated with is named with what it lacks."""

    def answer(header: RequestHeader) -> bytes | None:
        keys = [ApiVersion(api_key=Api.METADATA, max_version=5), ApiVersion(api_key=Api.SASL_HANDSHAKE, max_version=0)]
        return framed(ApiVersionsResponse(api_keys=keys), header.api_version, header)

    with (
        FakeBroker(answer) as fake,
        Producer(bootstrap_servers=fake.address, security_protocol="SASL_PLAINTEXT", **PLAIN) as producer,
        pytest.raises(AuthenticationFailed, match="offers no SASL_HANDSHAKE version 1: SASL needs Kafka"),
    ):
        producer.send("t", b"x")


def test_a_broker_that_falls_silent_is_given_up_where_it_did() -> None:
    """Authentication has the time of the connection's setup, and the message says that it was at that."""
    settings = {"security_protocol": "SASL_PLAINTEXT", "socket_connection_setup_timeout_ms": 300, **PLAIN}
    with BrokerStub(sasl=USERS) as stub, Producer(bootstrap_servers=stub.bootstrap, **{**QUICK, **settings}) as producer:
        held = stub.faults.on(Api.SASL_AUTHENTICATE).hold()
        with ThreadPoolExecutor() as pool:
            sending = pool.submit(producer.send, "t", b"x")
            held.wait(1, 20)
            until(producer._sender.engine.trouble, "the reason", good=lambda said: "0.3 s during SASL authentication" in said)
            held.remove()
            held.release()
            assert sending.result(20).result(20).offset == 0


def test_a_broker_that_hangs_up_while_it_authenticates_is_tried_again() -> None:
    """A connection that is lost in the middle is no refusal."""
    with BrokerStub(sasl=USERS) as stub:
        cut = stub.faults.on(Api.SASL_AUTHENTICATE).disconnect().times(3)
        with Producer(bootstrap_servers=stub.bootstrap, security_protocol="SASL_PLAINTEXT", **QUICK, **PLAIN) as producer:
            assert producer.send("t", b"x").result(20).offset == 0
        assert cut.hits == 3


def test_a_broker_that_takes_leave_during_the_handshake_is_tried_again(pki: Pki) -> None:
    """A broker that is shutting down ends its connections with close_notify, wherever they are: that is no refusal."""
    with (
        banner_server(alert(1, 0), first=False) as address,
        Producer(bootstrap_servers=address, **{**QUICK, "max_block_ms": 1_000}, **pki.trust) as producer,
        pytest.raises(TopicUnavailable, match="the broker closed the connection during the TLS handshake"),
    ):
        producer.send("t", b"x")


def test_every_waiting_thread_gets_the_reason() -> None:
    """Several threads on several topics: each gets the reason, none waits for max_block_ms."""
    with (
        BrokerStub(sasl=USERS) as stub,
        Producer(bootstrap_servers=stub.bootstrap, security_protocol="SASL_PLAINTEXT", **ours("PLAIN", password=WRONG)) as producer,
        ThreadPoolExecutor(8) as pool,
    ):
        began = time.monotonic()
        waiting = [pool.submit(producer.send, f"t{number % 3}", b"x") for number in range(8)]
        assert {type(each.exception(20)) for each in waiting} == {AuthenticationFailed}
        assert time.monotonic() - began < SECONDS


def test_a_refusal_is_not_the_end_of_the_producer() -> None:
    """After the password is corrected, at the client or at the broker, the next call works."""
    sasl = Sasl({"alice": "another"})
    with (
        BrokerStub(sasl=sasl) as stub,
        Producer(bootstrap_servers=stub.bootstrap, security_protocol="SASL_PLAINTEXT", **QUICK, **PLAIN) as producer,
    ):
        with pytest.raises(AuthenticationFailed):
            producer.send("t", b"x")
        sasl.users["alice"] = USERS["alice"]
        assert producer.send("t", b"x").result(20).offset == 0


def test_one_broker_that_can_be_used_is_enough(pki: Pki) -> None:
    """While another address works, or may yet, what one of them refuses is no error."""
    with (
        BrokerStub(sasl={"alice": "another"}) as refusing,
        http_server() as web,
        BrokerStub(sasl=USERS) as good,
    ):
        servers = [refusing.bootstrap, web, "127.0.0.1:1", good.bootstrap]
        for _ in range(5):
            with Producer(bootstrap_servers=servers, security_protocol="SASL_PLAINTEXT", **QUICK, **PLAIN) as producer:
                assert producer.send("t", b"x").exception(20) is None


def test_what_is_said_names_every_address() -> None:
    """Where none can be used, and at least one says why, each is named with its reason, also one that is just not there."""
    with (
        BrokerStub(sasl={"alice": "another"}) as refusing,
        http_server() as web,
        Producer(bootstrap_servers=[refusing.bootstrap, web, "127.0.0.1:1"], security_protocol="SASL_PLAINTEXT", **PLAIN) as producer,
        pytest.raises(AuthenticationFailed) as refused,
    ):
        producer.send("t", b"x")
    said = str(refused.value).split("; 127")
    assert len(said) == 3
    assert "Invalid username or password" in said[0]
    assert "an HTTP server" in said[1]
    assert "Connection refused" in said[2]


def test_addresses_that_are_not_there_are_waited_for() -> None:
    """A broker that is down refuses no credentials and may come back. `send` waits for it for max_block_ms."""
    with jumping() as jump, Producer(bootstrap_servers="127.0.0.1:1", max_block_ms=60_000) as producer:
        tried = producer._sender.engine.trouble
        late = limit_passes(jump, 60_000, producer, lambda: producer.send("t", b"x"), lambda: "Connection refused" in tried())
    assert isinstance(late, TimeoutError)
    assert "Connection refused" in str(late)


def test_credentials_that_are_withdrawn_while_records_are_sent(caplog: pytest.LogCaptureFixture) -> None:
    """Records that were accepted wait for the brokers as they do when those are away, the log says why, once, and they arrive when the
    credentials are good again."""
    sasl = Sasl(dict(USERS))
    with (
        BrokerStub(sasl=sasl) as stub,
        Producer(bootstrap_servers=stub.bootstrap, security_protocol="SASL_PLAINTEXT", **QUICK, **PLAIN) as producer,
    ):
        assert producer.send("t", b"0").result(20).offset == 0
        sasl.users.clear()
        stub.cut_connections()
        futures = [producer.send("t", b"%d" % number) for number in range(1, 10)]
        node = producer._sender.engine.core.nodes.get(1)
        assert node is not None
        until(lambda: node.failures >= 5, "some attempts")
        assert not any(future.done() for future in futures)
        sasl.users.update(USERS)
        assert [future.result(20).offset for future in futures] == list(range(1, 10))
        assert values(stub, "t") == [b"%d" % number for number in range(10)]
    errors = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert len(errors) == 1
    assert "sasl_password" in errors[0].getMessage()
