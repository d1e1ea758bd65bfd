"""The stub's listeners with TLS and SASL: the principal of a connection, what it may do before and after authentication, and how it ends.

tests/conformance/test_security_answers.py compares the responses with those of Kafka.
"""

from __future__ import annotations

import gc
import logging
import socket
import ssl
import threading
import weakref
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from fencepost.broker_stub import BrokerStub, Sasl, Tls, VirtualClock
from fencepost.broker_stub.requests.client import Client as RequestClient
from fencepost.broker_stub.security.principal import ANONYMOUS, of_certificate
from fencepost.broker_stub.security.sasl import sasl_from
from fencepost.broker_stub.socket_server import connection
from fencepost.broker_stub.socket_server.client_connection import UNPROVEN_BYTES_MAX
from fencepost.producer import wire
from fencepost.producer.wire.messages.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from tests.broker_stub.socket_server.test_server import sockets
from tests.broker_stub.stub_calls import Inside, Talker, batch, metadata_request, only, produce_request
from tests.certificates import Authority, Certificate, authority
from tests.conformance.raw import Closed
from tests.conformance.security_questions import deep, proof
from tests.credentials import MECHANISMS, PASSWORD_MECHANISMS, USERS, jwt, principals
from tests.waiting import until

__all__ = ["authority"]

GOOD = f"\0alice\0{USERS['alice']}".encode()


@pytest.fixture(scope="module")
def certificate(authority: Authority) -> Certificate:
    return authority.issue("localhost", "127.0.0.1")


@pytest.fixture
def secure(certificate: Certificate) -> Iterator[BrokerStub]:
    with BrokerStub(tls=(certificate.certfile, certificate.keyfile)) as stub:
        yield stub


class Client(Talker):
    """A talker that can authenticate, and speak TLS through Python's own sockets."""

    def __init__(self, stub: BrokerStub, context: ssl.SSLContext | None = None) -> None:
        super().__init__(stub)
        if context is not None:
            self._socket = context.wrap_socket(self._socket, server_hostname="localhost")

    def log_in(self, words: bytes = GOOD, *, mechanism: str = "PLAIN") -> SaslAuthenticateResponse:
        handshake = self.ask(SaslHandshakeRequest(mechanism=mechanism), 1)
        assert isinstance(handshake, SaslHandshakeResponse)
        assert handshake.error_code == 0, handshake
        answer = self.ask(SaslAuthenticateRequest(auth_bytes=words), 2)
        assert isinstance(answer, SaslAuthenticateResponse)
        return answer


def test_a_call_has_the_user_of_its_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every request of an authenticated connection has its user. Earlier requests have no user. Without SASL it is ANONYMOUS."""
    seen: list[tuple[int, str]] = []
    with BrokerStub(sasl=USERS) as stub, Client(stub) as client:
        honest = stub.dispatcher.call

        def call(*args: Any, **options: Any) -> Any:
            made = honest(*args, **options)
            seen.append((made.exchange.api, made.principal))
            return made

        monkeypatch.setattr(stub.dispatcher, "call", call)
        client.log_in()
        client.metadata("t")
        assert principals(stub) == {"User:alice"}
    assert seen == [(17, ANONYMOUS), (36, ANONYMOUS), (3, "User:alice")]
    inside = Inside()
    header = wire.RequestHeader(api_key=3, api_version=12, correlation_id=1)
    assert inside.dispatcher.handle(1, 1, header, metadata_request(), inside.replies.append).principal == ANONYMOUS
    named = inside.dispatcher.handle(1, 1, header, metadata_request(), inside.replies.append, client=RequestClient("User:bob"))
    assert named.principal == "User:bob"


def test_a_certificate_names_its_holder_as_java_does() -> None:
    """The distinguished name from the most specific part on, with RFC 2253's short names and escapes."""

    def subject(*pairs: tuple[str, str]) -> dict[str, Any]:
        return {"subject": tuple((pair,) for pair in pairs)}

    assert of_certificate(subject(("countryName", "DE"), ("organizationName", "Ö, Inc."), ("commonName", "alice"))) == (
        "User:CN=alice,O=Ö\\, Inc.,C=DE"
    )
    assert of_certificate(subject(("domainComponent", "org"), ("userId", "#1"), ("serialNumber", " x "))) == (
        "User:serialNumber=\\ x\\ ,UID=\\#1,DC=org"
    )
    assert of_certificate({}) == of_certificate({"subject": ()}) == ANONYMOUS


def test_sessions_end_on_the_stubs_clock() -> None:
    """A virtual clock ends a session when it is moved, and not before; renewed in time it goes on, not more than once a second."""
    clock = VirtualClock()
    with BrokerStub(sasl=Sasl(USERS, session_lifetime_ms=60_000), clock=clock) as stub, Client(stub) as client, Client(stub) as other:
        assert client.log_in().session_lifetime_ms == 60_000
        other.log_in()
        clock.advance(60_000)
        client.metadata("t")
        assert client.log_in().session_lifetime_ms == 60_000
        clock.advance(999)
        answer = client.ask(SaslHandshakeRequest(mechanism="PLAIN"), 1)
        assert isinstance(answer, SaslHandshakeResponse)
        assert answer.error_code == wire.ErrorCode.ILLEGAL_SASL_STATE
        clock.advance(1)
        assert client.log_in().error_code == 0
        clock.advance(60_000)
        client.metadata("t")
        clock.advance(1)
        with pytest.raises(Closed):
            client.metadata("t")
        with pytest.raises(Closed):
            other.metadata("t")


def test_sessions_end_by_the_brokers_config() -> None:
    """connections.max.reauth.ms is told and kept; 0 and less is no end. Given twice, it is a mistake."""
    for config_ms, told_ms in ((60_000, 60_000), (0, 0), (-1, 0)):
        clock = VirtualClock(1_700_000_000_000)
        config = {"connections.max.reauth.ms": config_ms}
        with BrokerStub(sasl=Sasl(dict(USERS), ["PLAIN"]), config=config, clock=clock) as stub, Client(stub) as client:
            assert client.log_in().session_lifetime_ms == told_ms
            clock.advance(60_001)
            if told_ms:
                with pytest.raises(Closed):
                    client.metadata("t")
            else:
                client.metadata("t")
    with pytest.raises(ValueError, match=r"session_lifetime_ms=5 and connections\.max\.reauth\.ms=6 are the same setting"):
        BrokerStub(sasl=Sasl(dict(USERS), session_lifetime_ms=5), config={"connections.max.reauth.ms": 6})


def test_a_token_limits_its_session() -> None:
    """The session ends at the token's end or after connections.max.reauth.ms, at the earlier of the two, by the stub's clock."""
    clock = VirtualClock()
    now_s = clock.now_ms() / 1000
    with BrokerStub(sasl=Sasl(mechanisms=["OAUTHBEARER"], session_lifetime_ms=60_000), clock=clock) as stub:
        for life_s, expected in ((30, 30_000), (90, 60_000), (10**30, 60_000)):
            token = jwt(iat=None, exp=now_s + life_s)
            with Client(stub) as client:
                answer = client.log_in(f"n,,\x01auth=Bearer {token}\x01\x01".encode(), mechanism="OAUTHBEARER")
                assert answer.session_lifetime_ms == expected


@pytest.mark.parametrize(
    ("issued_s", "life_s", "refused"), [(5, 60, False), (-5, 8, True), (15, 60, True)], ids=["since", "expired since", "not yet"]
)
def test_a_token_is_judged_when_it_comes(issued_s: int, life_s: int, refused: bool) -> None:
    """A client gets its token after the handshake, which may take seconds: what counts is the time when it comes."""
    clock = VirtualClock()
    now_s = clock.now_ms() / 1000
    token = jwt(iat=now_s + issued_s, exp=now_s + issued_s + life_s)
    with BrokerStub(sasl=Sasl(mechanisms=["OAUTHBEARER"]), clock=clock) as stub, Client(stub) as client:
        client.ask(SaslHandshakeRequest(mechanism="OAUTHBEARER"), 1)
        clock.advance(10_000)
        answer = client.ask(SaslAuthenticateRequest(auth_bytes=f"n,,\x01auth=Bearer {token}\x01\x01".encode()), 2)
        assert isinstance(answer, SaslAuthenticateResponse)
        assert b"invalid_token" in answer.auth_bytes if refused else answer.auth_bytes == b""


@pytest.mark.parametrize("exp", [10**30, 1e308, 10**400])
def test_a_token_may_claim_to_last_for_ever(exp: float, caplog: pytest.LogCaptureFixture) -> None:
    """A session that would last for centuries ends its connection without an answer, as with Kafka, and nothing fails inside; where
    sessions are limited the token counts."""
    words = f"n,,\x01auth=Bearer {jwt(exp=exp)}\x01\x01".encode()
    taken = Sasl(mechanisms=["OAUTHBEARER"])
    with BrokerStub(sasl=taken) as stub, Client(stub) as client, caplog.at_level(logging.ERROR), pytest.raises(Closed):
        client.log_in(words, mechanism="OAUTHBEARER")
    assert caplog.records == []
    with BrokerStub(sasl=Sasl(mechanisms=["OAUTHBEARER"], session_lifetime_ms=60_000)) as stub, Client(stub) as client:
        assert client.log_in(words, mechanism="OAUTHBEARER").session_lifetime_ms == 60_000
        client.metadata("t")


def test_scram_heeds_no_extension_and_says_so(caplog: pytest.LogCaptureFixture) -> None:
    """A client that requires an extension is refused, in every message and with every proof, because the stub would have to understand it
    (RFC 5802)."""
    beginnings = ["m=x,n=alice,r=abc", "n=alice,r=abc,m=x", "n=alice,r=abc,x=y,m=z", "n=alice,r=abc"]
    with BrokerStub(sasl=USERS) as stub:
        for first in beginnings:
            for shown in (first, first.removeprefix("m=x,")):
                for added in ("", ",m=x", ",x=y"):
                    with Client(stub) as client:
                        client.ask(SaslHandshakeRequest(mechanism="SCRAM-SHA-256"), 1)
                        challenge: Any = client.ask(SaslAuthenticateRequest(auth_bytes=f"n,,{first}".encode()), 2)
                        words = challenge.auth_bytes.decode()
                        nonce = words.split(",")[0].removeprefix("r=")
                        final = proof("sha256", shown, words, USERS["alice"], nonce=nonce + added)
                        answer: Any = client.ask(SaslAuthenticateRequest(auth_bytes=final), 2)
                        good = "m=" not in first + added and not added
                        assert (answer.error_code == 0) is good, (first, shown, added)


def test_a_token_that_is_nested_without_end_is_invalid() -> None:
    """It is complained of like any other that is not good."""
    with BrokerStub(sasl=Sasl(mechanisms=["OAUTHBEARER"])) as stub, Client(stub) as client:
        answer = client.log_in(b"n,,\x01auth=Bearer %s\x01\x01" % deep(jwt(deep="DEEP")).encode(), mechanism="OAUTHBEARER")
        assert b"invalid_token" in answer.auth_bytes


def test_tokens_can_be_left_to_a_callable() -> None:
    """The callable returns a token's user and end. A ValueError refuses the token."""
    clock = VirtualClock()

    def oauth(token: str) -> str | tuple[str, float]:
        if token == "bad":
            raise ValueError
        return ("carol", clock.now_ms() / 1000 + 5) if token == "brief" else "carol"

    with BrokerStub(sasl=Sasl(oauth=oauth), clock=clock) as stub:
        for token, lifetime_ms in (("good", 0), ("brief", 5000)):
            with Client(stub) as client:
                answer = client.log_in(b"n,,\x01auth=Bearer %s\x01\x01" % token.encode(), mechanism="OAUTHBEARER")
                assert (answer.error_code, answer.session_lifetime_ms) == (0, lifetime_ms)
                assert principals(stub) == {"User:carol"}
            until(lambda: not principals(stub), "it is gone")
        with Client(stub) as client:
            assert b"invalid_token" in client.log_in(b"n,,\x01auth=Bearer bad\x01\x01", mechanism="OAUTHBEARER").auth_bytes


@pytest.mark.parametrize("handshakes", [0, 1])
def test_a_frame_that_is_too_large_is_refused_at_its_length(handshakes: int) -> None:
    """Before a client is authenticated nothing of more than 512 KiB is taken from it, and it need not be sent to be refused; once it is,
    also with what it sent at the same time, frames are as large as for others."""
    with BrokerStub(sasl=USERS) as stub:
        stub.create_topic("t")
        for size in (UNPROVEN_BYTES_MAX + 1, 100 << 20):
            with Client(stub) as client:
                for _ in range(handshakes):
                    client.ask(SaslHandshakeRequest(mechanism="PLAIN"), 1)
                client.send_bytes(size.to_bytes(4, "big"))
                assert client.is_closed()
        with Client(stub) as client:
            client.send_bytes(UNPROVEN_BYTES_MAX.to_bytes(4, "big") + bytes(1000))
            assert client.quiet(0.2)
        with Client(stub) as client:
            asked = [
                (SaslHandshakeRequest(mechanism="PLAIN"), 1),
                (SaslAuthenticateRequest(auth_bytes=GOOD), 2),
                (produce_request("t", batch(bytes(700_000))), 12),
            ]
            frames = [wire.encode_request(request, version, correlation_id=1, client_id="c") for request, version in asked]
            client.send_bytes(b"".join(part for parts in frames for part in parts))
            answers: list[Any] = [client.receive(request, version) for request, version in asked]
            assert only(answers[2]).error_code == 0


@pytest.mark.parametrize("tls", [False, True])
def test_a_closed_connection_leaves_nothing_to_a_garbage_collection(tls: bool, secure: BrokerStub, authority: Authority) -> None:
    """What a client sent, and everything that stood for it, is gone when it is."""
    with BrokerStub(sasl=USERS) as plain:
        stub = secure if tls else plain
        server = stub._server
        assert server is not None
        gone: list[weakref.ref[Any]] = []
        gc.disable()
        try:
            with ExitStack() as clients:
                for _ in range(4):
                    client = clients.enter_context(Client(stub, trusting(authority) if tls else None))
                    client.send_bytes((400_000).to_bytes(4, "big") + bytes(300_000))
                until(lambda: len(server._connections), "they are there", good=lambda count: count == 4)
                gone += [weakref.ref(each) for each in server._connections]
                gone += [weakref.ref(each) for broker in stub.cluster.brokers.values() for each in broker.connections]
            until(lambda: sum(ref() is not None for ref in gone), "everything is gone", good=lambda left: left == 0)
        finally:
            gc.enable()


def test_the_journal_keeps_no_large_requests_of_strangers() -> None:
    """A client that is not authenticated cannot fill the stub's memory with requests in the journal."""
    with BrokerStub(sasl=USERS) as stub, Client(stub) as client:
        client.ask(SaslHandshakeRequest(mechanism="PLAIN"), 1)
        client.ask(SaslAuthenticateRequest(auth_bytes=bytes(100_000)), 2)
        assert [each.api for each in stub.journal.requests()] == [wire.Api.SASL_HANDSHAKE]


def test_users_may_come_and_go() -> None:
    """The dictionary counts at the moment of authentication. A connection that is authenticated stays."""
    sasl = Sasl({"alice": "first"})
    with BrokerStub(sasl=sasl) as stub, Client(stub) as early, Client(stub) as late:
        assert early.log_in(b"\0alice\0first").error_code == 0
        sasl.users["alice"] = "second"
        assert late.log_in(b"\0alice\0first").error_code == wire.ErrorCode.SASL_AUTHENTICATION_FAILED
        assert late.is_closed()
        early.metadata("t")
        with Client(stub) as again:
            assert again.log_in(b"\0alice\0second").error_code == 0


FORGED = f"n,,\x01auth=Bearer {jwt('root', iat=None)}\x01\x01".encode()


@pytest.mark.parametrize(
    ("sasl", "offered"),
    [
        (USERS, PASSWORD_MECHANISMS),
        (Sasl(USERS), PASSWORD_MECHANISMS),
        (Sasl({}), PASSWORD_MECHANISMS),
        (Sasl(USERS, ["SCRAM-SHA-512"]), ("SCRAM-SHA-512",)),
        (Sasl(oauth=lambda token: "carol"), ("OAUTHBEARER",)),
        (Sasl(USERS, oauth=lambda token: "carol"), MECHANISMS),
        (Sasl(mechanisms=["OAUTHBEARER"]), ("OAUTHBEARER",)),
    ],
    ids=str,
)
def test_only_what_was_configured_is_offered(sasl: Sasl | dict[str, str], offered: tuple[str, ...]) -> None:
    """Users bring the mechanisms of passwords and `oauth` that of tokens. Any other is refused as Kafka refuses one that is not enabled:
    UNSUPPORTED_SASL_MECHANISM with those that are, and the connection ends."""
    with BrokerStub(sasl=sasl) as stub:
        for mechanism in MECHANISMS:
            with Client(stub) as client:
                answer = client.ask(SaslHandshakeRequest(mechanism=mechanism), 1)
                assert isinstance(answer, SaslHandshakeResponse)
                assert tuple(answer.mechanisms) == offered
                assert (answer.error_code == 0) is (mechanism in offered)
                if mechanism not in offered:
                    assert answer.error_code == wire.ErrorCode.UNSUPPORTED_SASL_MECHANISM
                    assert client.is_closed()


def test_an_unsigned_token_is_refused_where_there_are_users() -> None:
    """Where there are users, a token that says it is root's is not even looked at; it is only where OAUTHBEARER was named."""
    with BrokerStub(sasl=USERS, acls=[], super_users=["root"]) as stub, Client(stub) as client:
        handshake = client.ask(SaslHandshakeRequest(mechanism="OAUTHBEARER"), 1)
        assert isinstance(handshake, SaslHandshakeResponse)
        assert handshake.error_code == wire.ErrorCode.UNSUPPORTED_SASL_MECHANISM
        assert client.is_closed()
    with BrokerStub(sasl=Sasl(USERS, MECHANISMS), acls=[], super_users=["root"]) as stub, Client(stub) as client:
        assert client.log_in(FORGED, mechanism="OAUTHBEARER").error_code == 0
        assert principals(stub) == {"User:root"}


def test_faults_reach_authentication() -> None:
    """An error that a rule puts into a SASL answer is answered, and ends the connection as a refusal does."""
    with BrokerStub(sasl=USERS) as stub:
        stub.faults.on(wire.Api.SASL_AUTHENTICATE).error(wire.ErrorCode.SASL_AUTHENTICATION_FAILED)
        with Client(stub) as client:
            assert client.log_in().error_code == wire.ErrorCode.SASL_AUTHENTICATION_FAILED
            assert client.is_closed()
        with Client(stub) as client:
            assert client.log_in().error_code == 0


def test_passwords_are_not_shown() -> None:
    """Neither the journal's exchanges nor the stub's own objects show a password."""
    with BrokerStub(sasl=USERS) as stub, Client(stub) as client:
        client.log_in()
        shown = repr([(exchange, exchange.request, exchange.response) for exchange in stub.journal.requests()])
        shown += repr(stub.acceptor.sasl)
    assert "alice" in shown
    assert USERS["alice"] not in shown


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"mechanisms": ["PLAIN", "GSSAPI"]}, "not GSSAPI"),
        ({"mechanisms": []}, "not none"),
        ({"mechanisms": ["PLAIN"], "oauth": str}, "does not have OAUTHBEARER"),
        ({"session_lifetime_ms": -1}, "session_lifetime_ms=-1: must be whole milliseconds from 0"),
    ],
)
def test_what_no_listener_can_be(given: dict[str, Any], words: str) -> None:
    """Unknown mechanisms and negative times are refused when they are given."""
    with pytest.raises(ValueError, match=words):
        Sasl(USERS, **given)
    with pytest.raises(TypeError, match="a list of names"):
        Sasl(USERS, "PLAIN")
    assert sasl_from(USERS).users == USERS


def test_certificates_that_cannot_be_used(tmp_path: Path, authority: Authority, certificate: Certificate) -> None:
    """A missing file, one with something else in it, another certificate's key: said when the stub is made."""
    junk = tmp_path / "junk.pem"
    junk.write_text("nothing")
    with pytest.raises(FileNotFoundError, match="no/such/file"):
        BrokerStub(tls=("/no/such/file", certificate.keyfile))
    with pytest.raises(ValueError, match="cannot be used for TLS"):
        BrokerStub(tls=Tls(junk))
    with pytest.raises(ValueError, match="mismatch"):
        BrokerStub(tls=(certificate.certfile, authority.issue("x").keyfile))
    with pytest.raises(ValueError, match="cannot be used for TLS"):
        BrokerStub(tls=Tls(certificate.both, client_ca=junk))
    with pytest.raises(ValueError, match="needs client_ca"):
        BrokerStub(tls=Tls(certificate.both, client_auth="required"))
    with pytest.raises(ValueError, match="client_auth is one of"):
        BrokerStub(tls=Tls(certificate.both, client_ca=authority.cafile, client_auth="maybe"))


# -- TLS -----------------------------------------------------------------------------------------------------------------


def trusting(authority: Authority) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=authority.cafile)


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_pythons_own_tls_is_understood(secure: BrokerStub, authority: Authority, version: ssl.TLSVersion) -> None:
    """Both versions of TLS, frames of any size, and an end that is an end."""
    context = trusting(authority)
    context.minimum_version = context.maximum_version = version
    with Client(secure, context) as client:
        secure.create_topic("t")
        client.metadata("t")
        client.metadata(*(f"topic-{number}-{'x' * 200}" for number in range(3_000)))
        secure.cut_connections()
        assert client.is_closed()


@pytest.mark.parametrize(
    ("client_auth", "own", "expected"),
    [("requested", False, ANONYMOUS), ("requested", True, "User:CN=alice,"), (None, True, "User:CN=alice,")],
)
def test_client_certificates(certificate: Certificate, authority: Authority, client_auth: str | None, own: bool, expected: str) -> None:
    """If a certificate is requested, a client without one is ANONYMOUS. If it is required, which is the default with a client CA, the
    certificate's subject is the principal."""
    context = trusting(authority)
    if own:
        context.load_cert_chain(authority.issue("alice", common_name="alice").both)
    tls = Tls(certificate.both, client_ca=authority.cafile, client_auth=client_auth)
    with BrokerStub(tls=tls) as stub, Client(stub, context) as client:
        client.metadata("t")
        (principal,) = principals(stub)
        assert principal.startswith(expected)


def test_a_context_of_ones_own(certificate: Certificate, authority: Authority) -> None:
    """For other TLS settings the caller gives an SSL context."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate.both)
    with BrokerStub(tls=context) as stub, Client(stub, trusting(authority)) as client:
        assert len(client.metadata("t").brokers) == 1


def test_tls_leaves_nothing_behind(certificate: Certificate, authority: Authority) -> None:
    """After close, with clients in every state, no thread and no descriptor is left, and every client sees the end."""
    threads, before = threading.active_count(), sockets()
    with BrokerStub(tls=(certificate.certfile, certificate.keyfile), sasl=USERS) as stub:
        address = stub.addresses[1]
        with (
            Client(stub, trusting(authority)) as silent,
            Client(stub, trusting(authority)) as known,
            closing(socket.create_connection(address, timeout=10)) as mute,
            closing(socket.create_connection(address, timeout=10)) as halfway,
        ):
            halfway.sendall(b"\x16\x03\x01\x02\x00\x01")
            known.log_in()
            until(lambda: len(stub._server._connections) == 4 if stub._server else False, "four connections")
            stub.close()
            assert silent.is_closed()
            assert known.is_closed()
            for raw in (mute, halfway):
                assert raw.recv(1) == b""
    assert threading.active_count() == threads
    assert sockets() <= before


@pytest.mark.parametrize(
    "junk", [b"GET / HTTP/1.1\r\n\r\n", bytes(5), b"\x00\x00\x00\x10" + bytes(16), b"\x16\x03\x01\x00\x05abcde", b"\xff" * 300]
)
def test_what_is_no_tls_ends_its_connection_and_no_other(secure: BrokerStub, authority: Authority, junk: bytes) -> None:
    """A plaintext client, a browser or noise at a TLS port: closed, without a trace in the cluster and without disturbing its neighbour."""
    before = secure.stats()["connections"]
    with Client(secure, trusting(authority)) as neighbour:
        with closing(socket.create_connection(secure.addresses[1], timeout=10)) as raw:
            raw.sendall(junk)
            while raw.recv(1000):
                pass  # an alert
        neighbour.metadata("t")
    assert secure.stats()["connections"] == before + 1


def test_a_handshake_has_its_time(secure: BrokerStub, authority: Authority, monkeypatch: pytest.MonkeyPatch) -> None:
    """Connections that never say a word are ended, and hundreds of them do not keep others from being served meanwhile."""
    monkeypatch.setattr(connection, "HANDSHAKE_TIMEOUT_S", 0.5)
    mute = [socket.create_connection(secure.addresses[1], timeout=10) for _ in range(300)]
    try:
        with Client(secure, trusting(authority)) as client:
            client.metadata("t")
            for raw in mute:
                try:
                    assert raw.recv(1) == b""
                except ConnectionResetError:
                    continue
            client.metadata("t")
    finally:
        for raw in mute:
            raw.close()


def test_no_users_are_a_mistake() -> None:
    """A dictionary without users would make a cluster that lets no client in. A Sasl may begin without: its users may be added."""
    with pytest.raises(ValueError, match=r"sasl=\{\} names no user"):
        BrokerStub(sasl={})
    BrokerStub(sasl=Sasl()).close()


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"users": {"a": 1}}, "users and their passwords must be text"),
        ({"users": [("a", "b")]}, "users is a list"),
        ({"session_lifetime_ms": True}, "session_lifetime_ms=True: must be whole milliseconds"),
        ({"session_lifetime_ms": 1.5}, "session_lifetime_ms=1.5: must be whole milliseconds"),
        ({"session_lifetime_ms": 10**30}, "session_lifetime_ms=1000"),
    ],
)
def test_what_no_sasl_can_have(wrong: dict[str, Any], words: str) -> None:
    """A Sasl checks its fields when it is made: otherwise each login would fail, and the stub would call it a bug of its own."""
    with pytest.raises((TypeError, ValueError), match=words):
        Sasl(**wrong)
