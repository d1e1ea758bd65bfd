"""The SASL mechanisms by themselves: the bytes that standards and Kafka want, and brokers that are not believed."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import pytest

from fencepost.broker_stub import BrokerStub
from fencepost.broker_stub.security import sasl_mechanisms as mechanisms
from fencepost.broker_stub.security.scram_credentials import ScramCredentials
from fencepost.producer import AuthenticationFailed, Producer, SaslMechanism, Settings
from fencepost.producer.config.reader import read_settings
from fencepost.producer.network.connect_error import ConnectError
from fencepost.producer.network.oauth_tokens import Token, TokenSource
from fencepost.producer.network.sasl import ITERATIONS_MAX, Exchange, oauth_bearer, plain, scram
from fencepost.producer.wire import Api
from tests.credentials import USERS, jwt, ours
from tests.producer.stub_helpers import QUICK, until

NONCE = "rOprNGfwEbeRWgbNEkqO"
SERVER_NONCE = NONCE + "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
SALT = "W22ZaJ0SNY7soEsUEjb6gQ=="


def after(exchange: Exchange, *answers: bytes) -> bytes | None:
    """What the client says last when it is answered like this; None when it is content."""
    said = next(exchange)
    try:
        for answer in answers:
            said = exchange.send(answer)
    except StopIteration:
        return None
    return said


def rfc(**options: Any) -> Exchange:
    return scram(SaslMechanism.SCRAM_SHA_256, "user", "pencil", nonce=NONCE, **options)


def refused(exchange: Exchange, *answers: bytes) -> str:
    """Why the client ends the exchange."""
    with pytest.raises(ConnectError) as refusal:
        after(exchange, *answers)
    assert refusal.value.kind is AuthenticationFailed
    return str(refusal.value)


def test_plain_is_rfc_4616() -> None:
    """No authorization id, then name and password as UTF-8; one answer of any kind ends it."""
    assert after(plain("älice", "pass, wörd")) == "\0älice\0pass, wörd".encode()
    assert after(plain("a", "b"), b"") is None


FIRST = f"r={SERVER_NONCE},s={SALT},i=4096".encode()
FINAL = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def test_scram_is_rfc_7677() -> None:
    """The example of the standard, byte for byte."""
    assert after(rfc()) == f"n,,n=user,r={NONCE}".encode()
    assert after(rfc(), FIRST) == f"c=biws,r={SERVER_NONCE},p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=".encode()
    assert after(rfc(), FIRST, FINAL) is None
    assert after(rfc(), FIRST, FINAL + b",x=y") is None


@pytest.mark.parametrize("mechanism", [SaslMechanism.SCRAM_SHA_256, SaslMechanism.SCRAM_SHA_512], ids=lambda each: each.value)
@pytest.mark.parametrize(("name", "password"), [("alice", "secret"), ("a=b,c", "=,=, "), ("bob", "pªssⅨ wörd"), ("x", "y" * 300)])
def test_scram_agrees_with_the_brokers_side(mechanism: SaslMechanism, name: str, password: str) -> None:
    """Names that have to be escaped, and passwords that SASLprep would change and Kafka does not: each side accepts the other."""
    credentials = ScramCredentials()
    credentials.passwords = {name: password}
    broker = mechanisms.scram(mechanism.value, credentials.of, "nonce")
    next(broker)
    client = scram(mechanism, name, password)
    first = broker.send(next(client))
    with pytest.raises(StopIteration) as end:
        broker.send(client.send(first))
    final, who = end.value.value
    assert who.name == name
    with pytest.raises(StopIteration):
        client.send(final)


def test_every_exchange_has_a_nonce_of_its_own() -> None:
    """An eavesdropper can replay nothing."""
    said = {next(scram(SaslMechanism.SCRAM_SHA_256, "a", "b")) for _ in range(50)}
    assert len(said) == 50
    assert all(len(words) > len(b"n,,n=a,r=") + 20 for words in said)


def first(**changed: str) -> bytes:
    parts = {"r": SERVER_NONCE, "s": SALT, "i": "4096", **changed}
    return ",".join(f"{name}={value}" for name, value in parts.items()).encode()


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (first(r=NONCE), "nonce"),
        (first(r="another" + SERVER_NONCE), "nonce"),
        (first(i="4095"), "4095 iterations"),
        (first(i="1"), "1 iterations"),
        (first(i=str(ITERATIONS_MAX + 1)), f"{ITERATIONS_MAX + 1} iterations"),
        (first(i="9999999999"), "9999999999 iterations"),
        (first(i="99999999999"), "cannot be read"),
        (first(i="-4096"), "cannot be read"),
        (first(s="a"), "not base64"),
        (b"m=x," + first(), "an extension of SCRAM-SHA-256 that this client does not support"),
        (b"", "cannot be read"),
        (b"e=invalid-proof", "cannot be read"),
        (b"\xff\xfe", "not text"),
    ],
)
def test_a_broker_that_asks_for_odd_things(answer: bytes, words: str) -> None:
    """Too few iterations to be safe, so many that they would block the client, a foreign nonce, bytes that are no SCRAM: the client does
    not use the password, and the error says why."""
    began = time.thread_time()
    assert words in refused(rfc(), answer)
    assert time.thread_time() - began < 5


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (b"v=" + base64.b64encode(bytes(32)), "without knowing its password"),
        (b"v=" + FINAL[2:-4], "without knowing its password"),
        (b"v=?", "without knowing its password"),
        ("v=é".encode(), "without knowing its password"),
        (b"", "without knowing its password"),
        (b"e=other-error", "other-error"),
    ],
)
def test_a_broker_that_does_not_know_the_password(answer: bytes, words: str) -> None:
    """The producer sends no records to a broker that accepts every password, or only repeats what the client sent."""
    said = refused(rfc(), FIRST, answer)
    assert words in said
    assert "pencil" not in said


def test_oauthbearer_is_rfc_7628() -> None:
    """The token, with extensions; a complaint is answered as the standard wants it, and acceptance after it is not believed."""
    token = Token("abc", None, {"traceId": "1", "logicalCluster": "lkc"})
    assert after(oauth_bearer(token)) == b"n,,\x01auth=Bearer abc\x01traceId=1\x01logicalCluster=lkc\x01\x01"
    plain_one = Token("abc", None, {})
    assert after(oauth_bearer(plain_one)) == b"n,,\x01auth=Bearer abc\x01\x01"
    assert after(oauth_bearer(plain_one), b"") is None
    assert after(oauth_bearer(plain_one), b'{"status":"invalid_token"}') == b"\x01"
    assert "and then accepted it" in refused(oauth_bearer(plain_one), b'{"status":"invalid_token"}', b"")


# -- tokens --------------------------------------------------------------------------------------------------------------


def settings(provider: Callable[..., object], **more: Any) -> Settings:
    return read_settings(
        {
            "bootstrap_servers": "a:1",
            "security_protocol": "SASL_PLAINTEXT",
            "sasl_mechanism": "OAUTHBEARER",
            "sasl_oauth_token_provider": provider,
            **more,
        }
    )


def tokens(source: TokenSource, count: int = 1) -> list[Token]:
    async def ask() -> list[Token]:
        return [await source.token() for _ in range(count)]

    return asyncio.run(asyncio.wait_for(ask(), 20))


def test_a_provider_is_asked_for_every_authentication() -> None:
    """Without an expiry nothing is kept: the program decides."""
    given = iter("abc")
    source = TokenSource(settings(lambda: next(given)))
    assert [token.value for token in tokens(source, 3)] == ["a", "b", "c"]


def test_a_token_with_an_expiry_is_kept_for_most_of_its_life(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is used again until 80 % of its life have passed, and then asked for anew."""
    now = 1_000_000.0
    monkeypatch.setattr(time, "time", lambda: now)
    asked = []

    def provider() -> tuple[str, float]:
        asked.append(now)
        return f"t{len(asked)}", now + 100

    source = TokenSource(settings(provider))
    seen = []
    for passed in (0, 79, 2, 79, 2):
        now += passed
        seen.append(tokens(source)[0].value)
    assert seen == ["t1", "t1", "t2", "t2", "t3"]


def test_a_wall_clock_that_is_set_back_makes_no_token_last(monkeypatch: pytest.MonkeyPatch) -> None:
    """The life of a token passes on a machine whose clock was set back, too."""
    wall, running = 1_000_000.0, 50.0
    monkeypatch.setattr(time, "time", lambda: wall)
    monkeypatch.setattr(time, "monotonic", lambda: running)
    given = iter("abc")
    source = TokenSource(settings(lambda: (next(given), wall + 100)))
    (first,) = tokens(source)
    wall, running = wall - 86_400, running + 79
    (second,) = tokens(source)
    running += 2
    (third,) = tokens(source)
    assert [each.value for each in (first, second, third)] == ["a", "a", "b"]


@pytest.mark.parametrize(
    ("more", "provider", "expected"),
    [
        ({}, lambda: "none", "none"),
        ({}, lambda config: f"took{config}", "took"),
        ({"sasl_oauthbearer_config": "scope"}, lambda config: f"took{config}", "tookscope"),
        ({"sasl.oauthbearer.config": "scope"}, lambda config="x": f"took{config}", "tookscope"),
        ({}, lambda config="x": f"took{config}", "tookx"),
        ({}, lambda *rest: f"took{len(rest)}", "took0"),
    ],
)
def test_providers_of_both_kinds(more: dict[str, Any], provider: Callable[..., str], expected: str) -> None:
    """One without arguments is called so; librdkafka's oauth_cb gets its configuration, empty where there is none."""
    assert tokens(TokenSource(settings(provider, **more)))[0].value == expected


def test_a_provider_may_be_a_coroutine_function() -> None:
    """As aiokafka's is; it is awaited on the loop."""

    async def provider() -> str:
        await asyncio.sleep(0)
        return threading.current_thread().name

    assert tokens(TokenSource(settings(provider)))[0].value == threading.current_thread().name


def test_a_provider_that_blocks_holds_nothing_up() -> None:
    """It runs on a thread of its own, and so may wait for its issuer while the loop goes on."""
    released = threading.Event()

    def provider() -> str:
        assert released.wait(20)
        return "late"

    async def ask() -> str:
        waiting = asyncio.ensure_future(TokenSource(settings(provider)).token())
        await asyncio.sleep(0)
        released.set()
        return (await waiting).value

    assert asyncio.run(asyncio.wait_for(ask(), 20)) == "late"


def test_what_a_password_costs_holds_nothing_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """The iterations that a broker asks for are made beside the loop, on which others are heard meanwhile."""
    hashing, heard = threading.Event(), threading.Event()
    hashed = hashlib.pbkdf2_hmac

    def patient(*given: Any) -> bytes:
        hashing.set()
        assert heard.wait(20)
        return hashed(*given)

    monkeypatch.setattr("fencepost.producer.network.sasl.hashlib", SimpleNamespace(pbkdf2_hmac=patient, new=hashlib.new))
    settings = {"security_protocol": "SASL_PLAINTEXT", **ours("SCRAM-SHA-256"), **QUICK}
    with (
        BrokerStub(sasl=dict(USERS)) as stub,
        Producer(bootstrap_servers=stub.bootstrap, **settings) as producer,
        ThreadPoolExecutor() as pool,
    ):
        sending = pool.submit(producer.send, "t", b"x")
        until(lambda: hashing.is_set() or sending.done(), "the hashing")
        assert stub.journal.requests(Api.SASL_AUTHENTICATE)
        assert producer._sender.catch_up(10)
        heard.set()
        assert sending.result(20).result(20).offset == 0


def test_all_of_librdkafkas_tuple() -> None:
    """Token, expiry, principal and extensions."""
    (token,) = tokens(TokenSource(settings(lambda: ("abc", time.time() + 60, "alice", {"traceId": "1"}))))
    assert (token.value, token.extensions) == ("abc", {"traceId": "1"})
    (token,) = tokens(TokenSource(settings(lambda: ("abc", None))))
    assert token.expires_at is None


def fail(error: BaseException) -> object:
    raise error


@pytest.mark.parametrize(
    ("provider", "words"),
    [
        (lambda: None, "returned NoneType"),
        (lambda: b"abc", "returned bytes"),
        (lambda: (), "returned tuple"),
        (lambda: "", "an empty str"),
        (lambda: "hush hush", "no bearer token"),
        (lambda: ("abc", "tomorrow"), "an expiry of type str"),
        (lambda: ("abc", time.time() - 60), "a token that expired 60 s ago"),
        (lambda: ("abc", None, "alice", ["a"]), "SASL extensions of type list"),
        (lambda: ("abc", None, "alice", {"auth": "x"}), "a SASL extension 'auth'"),
        (lambda: ("abc", None, "alice", {"a b": "x"}), "a SASL extension 'a b'"),
        (lambda: ("abc", None, "alice", {"a": "\x01"}), "a SASL extension 'a'"),
        (lambda: fail(KeyError("no such client")), "raised KeyError: 'no such client'"),
        (lambda: fail(StopIteration()), "raised RuntimeError: StopIteration()"),
        (lambda: fail(SystemExit(3)), "raised RuntimeError: SystemExit(3)"),
    ],
)
def test_what_is_no_token_is_said_at_once(provider: Callable[..., object], words: str) -> None:
    """With the setting's name, and without what may have been a secret."""
    with pytest.raises(ConnectError) as refusal:
        tokens(TokenSource(settings(provider)))
    assert str(refusal.value).startswith("sasl_oauth_token_provider ")
    assert words in str(refusal.value)
    assert "hush" not in str(refusal.value)


def test_an_issuer_that_cannot_be_reached_may_come_back() -> None:
    """An OSError of the provider is one broken connection, and not the end of all of them."""
    with pytest.raises(OSError, match="sasl_oauth_token_provider raised ConnectionRefusedError: no issuer") as error:
        tokens(TokenSource(settings(lambda: fail(ConnectionRefusedError("no issuer")))))
    assert not isinstance(error.value, ConnectError)


def test_a_token_is_described_and_not_shown() -> None:
    """The description has the token's subject and says that it has expired, if the token is a JWT with these claims."""
    ended = Token(jwt(life_s=-20), None, {})
    assert ended.described() == " of 'alice', which expired 20 s ago"
    assert repr(ended) == f"<a token{ended.described()}>"
    assert Token(jwt(), None, {}).described() == " of 'alice'"
    for opaque in ("abc", "a.b.c", "YWJj.YWJj.YWJj", "W10.W10.W10"):
        assert Token(opaque, None, {}).described() == ""
        assert opaque not in repr(Token(opaque, None, {}))
