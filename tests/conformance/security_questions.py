"""Requests to a broker with SASL, and its responses in short form, the same for Kafka and the stub.

Each question uses its own connection to one listener: SASL, BRIEF (whose sessions end after SESSION_MS) or PLAINTEXT.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Callable
from contextlib import suppress

from fencepost.producer.wire import ApiVersionsRequest, ApiVersionsResponse, Message, MetadataRequest, MetadataRequestTopic, error_name
from fencepost.producer.wire.messages.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from tests.conformance.raw import Closed, RawConnection, Silent
from tests.conformance.secure import SESSION_MS
from tests.credentials import USERS, jwt

Address = tuple[str, int]
PASSWORD = USERS["alice"]
GOOD_PLAIN = f"\0alice\0{PASSWORD}".encode()


class Talk(RawConnection):
    """A connection, and its exchange in short form."""

    def __init__(self, address: Address) -> None:
        super().__init__(address, timeout=10)
        self.said: list[str] = []

    def put(self, request: Message, version: int) -> Message | None:
        """Send a request, note the response, and return it; None if the connection ended instead."""
        try:
            answer = self.ask(request, version)
        except Closed:
            self.said.append("closed")
            return None
        self.said.append(shown(answer))
        return answer

    def versions(self, version: int = 3, name: str = "talk") -> None:
        self.put(ApiVersionsRequest(client_software_name=name, client_software_version="1"), version)

    def handshake(self, mechanism: str, version: int = 1) -> None:
        self.put(SaslHandshakeRequest(mechanism=mechanism), version)

    def token(self, words: bytes, version: int = 2) -> SaslAuthenticateResponse | None:
        answer = self.put(SaslAuthenticateRequest(auth_bytes=words), version)
        return answer if isinstance(answer, SaslAuthenticateResponse) else None

    def metadata(self) -> None:
        self.put(MetadataRequest(topics=[MetadataRequestTopic(name="t")]), 12)

    def ends(self) -> None:
        """Whether the broker closes the connection."""
        self.said.append("closed" if self.is_closed(within=1) else "open")

    def log_in(self, version: int = 2) -> None:
        self.handshake("PLAIN")
        self.token(GOOD_PLAIN, version)


def shown(answer: Message) -> str:
    """A response in short form. Of nonces and signatures it shows only the length, because their contents differ each time."""
    match answer:
        case ApiVersionsResponse():
            return f"ApiVersions {error_name(answer.error_code)}{' and a list' if len(answer.api_keys) > 1 else ''}"
        case SaslHandshakeResponse():
            return f"SaslHandshake {error_name(answer.error_code)} {sorted(answer.mechanisms)}"
        case SaslAuthenticateResponse():
            words = answer.auth_bytes.decode()
            if words.startswith(("r=", "v=")):
                words = words[:2]
            lifetime = "for a time" if answer.session_lifetime_ms else "for ever"
            return f"SaslAuthenticate {error_name(answer.error_code)} {answer.error_message!r} {words!r} {lifetime}"
        case _:
            return type(answer).__name__


Question = Callable[[Talk], None]
QUESTIONS: dict[str, tuple[str, Question]] = {}


def asks(listener: str = "SASL") -> Callable[[Question], Question]:
    """Register a question for Kafka and the stub, at that listener."""

    def register(question: Question) -> Question:
        QUESTIONS[question.__name__] = (listener, question)
        return question

    return register


@asks("FEW")
def a_mechanism_that_is_not_enabled(t: Talk) -> None:
    t.versions()
    t.handshake("OAUTHBEARER")
    t.ends()


@asks("FEW")
def a_mechanism_that_is_enabled(t: Talk) -> None:
    t.log_in()
    t.metadata()
    t.ends()


@asks()
def a_whole_authentication(t: Talk) -> None:
    t.versions()
    t.log_in()
    t.metadata()
    t.versions()
    t.handshake("PLAIN")
    t.token(GOOD_PLAIN)
    t.ends()


@asks()
def every_version_of_the_exchange(t: Talk) -> None:
    t.handshake("PLAIN")
    t.token(GOOD_PLAIN, 0)
    t.metadata()


@asks()
def something_else_first(t: Talk) -> None:
    t.metadata()


@asks()
def something_else_after_the_versions(t: Talk) -> None:
    t.versions()
    t.metadata()


@asks()
def the_versions_twice(t: Talk) -> None:
    t.versions()
    t.versions()


@asks()
def versions_that_there_are_not(t: Talk) -> None:
    t.send_frame(bytes.fromhex("0012 0063 00000007 0000 00"))
    t.said.append(t.receive_frame()[4:6].hex())
    t.versions(name="no name!")
    t.versions()
    t.handshake("PLAIN")


@asks()
def a_token_before_the_handshake(t: Talk) -> None:
    t.token(GOOD_PLAIN)


@asks()
def a_mechanism_that_there_is_not(t: Talk) -> None:
    t.handshake("GSSAPI")
    t.ends()


@asks()
def something_else_in_the_middle(t: Talk) -> None:
    t.handshake("PLAIN")
    t.versions()
    t.ends()


@asks()
def a_handshake_in_the_middle(t: Talk) -> None:
    t.handshake("PLAIN")
    t.handshake("PLAIN")
    t.ends()


@asks()
def a_large_frame(t: Talk) -> None:
    with suppress(Closed, Silent):  # it may be refused before all of it is sent
        t.send_frame(b"\0\x12\0\x03\0\0\0\7" + bytes(600_000))
    t.ends()


PLAIN_WORDS = {
    "nothing": b"",
    "one_part": b"alice",
    "two_parts": b"\0alice",
    "four_parts": GOOD_PLAIN + b"\0more",
    "no_name": b"\0\0x",
    "no_password": b"\0alice\0",
    "nobody": b"\0nobody\0x",
    "a_wrong_password": b"\0alice\0x",
    "an_authorization_id": b"bob" + GOOD_PLAIN,
    "its_own_authorization_id": b"alice" + GOOD_PLAIN,
    "no_text": b"\0\xff\xfe\0\xff",
}


@asks()
def bare_tokens(t: Talk) -> None:
    t.handshake("PLAIN", 0)
    t.send_frame(GOOD_PLAIN)
    t.said.append(t.receive_frame().hex())
    t.metadata()


@asks()
def a_bare_token_that_is_wrong(t: Talk) -> None:
    t.handshake("PLAIN", 0)
    t.send_frame(b"\0alice\0x")
    t.ends()


@asks()
def bare_scram(t: Talk) -> None:
    t.handshake("SCRAM-SHA-256", 0)
    t.send_frame(b"n,,n=alice,r=abc")
    first = t.receive_frame()
    t.send_frame(proof("sha256", "n=alice,r=abc", first.decode(), PASSWORD))
    t.said.append(t.receive_frame()[:2].decode())
    t.metadata()


def proof(digest: str, client_first: str, server_first: str, password: str, *, nonce: str | None = None) -> bytes:
    """The client's last message, built by hand."""
    parts = dict(part.split("=", 1) for part in server_first.split(","))
    salted = hashlib.pbkdf2_hmac(digest, password.encode(), base64.b64decode(parts["s"]), int(parts["i"]))
    key = hmac.digest(salted, b"Client Key", digest)
    bare = f"c=biws,r={nonce or parts['r']}"
    signature = hmac.digest(hashlib.new(digest, key).digest(), f"{client_first},{server_first},{bare}".encode(), digest)
    shown = base64.b64encode(bytes(a ^ b for a, b in zip(key, signature, strict=True))).decode()
    return f"{bare},p={shown}".encode()


SCRAM_WORDS = {
    "nothing": b"",
    "no_header": b"n=alice,r=abc",
    "channel_binding": b"p=tls-unique,,n=alice,r=abc",
    "no_nonce": b"n,,n=alice,r=",
    "nobody": b"n,,n=nobody,r=abc",
    "a_name_that_is_not_ascii": "n,,n=älice,r=abc".encode(),
    "an_escape_that_there_is_not": b"n,,n=al=41ice,r=abc",
    "an_authorization_id": b"n,a=bob,n=alice,r=abc",
    "its_own_authorization_id": b"n,a=alice,n=alice,r=abc",
    "an_extension": b"n,,n=alice,r=abc,x=y",
    "a_mandatory_extension": b"n,,m=x,n=alice,r=abc",
    "a_mandatory_extension_at_the_end": b"n,,n=alice,r=abc,m=x",
}


@asks()
def scram_with_the_wrong_password(t: Talk) -> None:
    t.handshake("SCRAM-SHA-512")
    first = t.token(b"n,,n=alice,r=abc")
    assert first is not None
    t.token(proof("sha512", "n=alice,r=abc", first.auth_bytes.decode(), "wrong"))
    t.ends()


@asks()
def scram_with_another_nonce(t: Talk) -> None:
    t.handshake("SCRAM-SHA-256")
    first = t.token(b"n,,n=alice,r=abc")
    assert first is not None
    t.token(proof("sha256", "n=alice,r=abc", first.auth_bytes.decode(), PASSWORD, nonce="abc"))
    t.ends()


@asks()
def scram_twice_the_first_message(t: Talk) -> None:
    t.handshake("SCRAM-SHA-256")
    t.token(b"n,,n=alice,r=abc")
    t.token(b"n,,n=alice,r=abc")
    t.ends()


@asks()
def scram_with_a_mandatory_extension(t: Talk) -> None:
    t.handshake("SCRAM-SHA-256")
    first = t.token(b"n,,m=x,n=alice,r=abc")
    if first is not None and not first.error_code:
        t.token(proof("sha256", "m=x,n=alice,r=abc", first.auth_bytes.decode(), PASSWORD))
        t.ends()


@asks()
def scram_with_a_mandatory_extension_in_the_last_message(t: Talk) -> None:
    t.handshake("SCRAM-SHA-256")
    first = t.token(b"n,,n=alice,r=abc")
    assert first is not None
    nonce = dict(part.split("=", 1) for part in first.auth_bytes.decode().split(","))["r"]
    t.token(proof("sha256", "n=alice,r=abc", first.auth_bytes.decode(), PASSWORD, nonce=f"{nonce},m=x"))
    t.ends()


@asks()
def scram_with_an_extension_in_the_last_message(t: Talk) -> None:
    t.handshake("SCRAM-SHA-256")
    first = t.token(b"n,,n=alice,r=abc")
    assert first is not None
    nonce = dict(part.split("=", 1) for part in first.auth_bytes.decode().split(","))["r"]
    t.token(proof("sha256", "n=alice,r=abc", first.auth_bytes.decode(), PASSWORD, nonce=f"{nonce},x=y"))


def bearer(token: str, header: str = "n,,") -> bytes:
    return f"{header}\x01auth=Bearer {token}\x01\x01".encode()


def deep(token: str) -> str:
    """The token, with nested lists in place of DEEP."""
    parts = [base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)) for part in token.split(".")]
    lists = b"[" * 5000 + b"]" * 5000
    return ".".join(base64.urlsafe_b64encode(part.replace(b'"DEEP"', lists)).decode().rstrip("=") for part in parts)


TOKENS = {
    "a_good_one": bearer(jwt()),
    "with_an_extension": f"n,,\x01auth=Bearer {jwt()}\x01traceId=123\x01\x01".encode(),
    "nothing": b"",
    "no_auth": b"n,,\x01user=alice\x01\x01",
    "another_scheme": b"n,,\x01auth=Basic abc\x01\x01",
    "another_scheme_and_a_good_token": f"n,,\x01auth=Basic {jwt()}\x01\x01".encode(),
    "no_scheme": b"n,,\x01auth=abc\x01\x01",
    "no_token": b"n,,\x01auth=Bearer \x01\x01",
    "a_token_with_a_space": b"n,,\x01auth=Bearer a b\x01\x01",
    "a_scheme_in_capitals": f"n,,\x01auth=BEARER {jwt()}\x01\x01".encode(),
    "three_dots": bearer(jwt() + "."),
    "two_dots_together": bearer(jwt().replace(".", "..", 1)),
    "no_json": bearer("YWJj.YWJj."),
    "a_list": bearer("W10.W10."),
    "no_base64": bearer("a.b."),
    "no_jwt": bearer("abc"),
    "expired": bearer(jwt(life_s=-20)),
    "an_expiry_far_away": bearer(jwt(exp=4_000_000_000)),
    "no_expiry": bearer(jwt(exp=None)),
    "an_expiry_in_words": bearer(jwt(exp="tomorrow")),
    "an_expiry_beyond_all_time": bearer(jwt(exp=1e308)),
    "an_expiry_in_286_million_years": bearer(jwt(exp=9_000_000_000_000_000)),
    "an_expiry_beyond_long": bearer(jwt(exp=10**30)),
    "an_expiry_far_beyond_long": bearer(jwt(exp=1e300)),
    "an_expiry_of_many_digits": bearer(jwt(exp=10**400)),
    "an_expiry_before_all_time": bearer(jwt(exp=-1e308)),
    "an_issue_beyond_all_time": bearer(jwt(iat=1e308, exp=1.5e308)),
    "an_issue_before_all_time": bearer(jwt(iat=-1e308)),
    "a_deep_claim": bearer(deep(jwt(deep="DEEP"))),
    "a_deep_header": bearer(deep(jwt(header={"alg": "none", "deep": "DEEP"}))),
    "no_subject": bearer(jwt(sub=None)),
    "a_blank_subject": bearer(jwt(" ")),
    "a_number_for_a_subject": bearer(jwt(sub=5)),
    "not_issued_yet": bearer(jwt(iat=4_000_000_000, exp=4_000_000_100)),
    "never_issued": bearer(jwt(iat=None)),
    "signed": bearer(jwt() + "c2lnbmF0dXJl"),
    "another_algorithm": bearer(jwt(header={"alg": "HS256"})),
    "no_algorithm": bearer(jwt(header={"typ": "JWT"})),
    "an_authorization_id": bearer(jwt(), "n,a=bob,"),
    "its_own_authorization_id": bearer(jwt(), "n,a=alice,"),
    "padded": bearer(".".join(part + "=" * (-len(part) % 4) for part in jwt().split("."))),
    "the_url_alphabet": bearer(jwt(note="?>?>?>?>?>")),
    "the_plain_alphabet": bearer(jwt(note="?>?>?>?>?>").replace("_", "/").replace("-", "+")),
}


@asks()
def a_bad_token_and_then_another_answer(t: Talk) -> None:
    t.handshake("OAUTHBEARER")
    t.token(bearer(jwt(life_s=-20)))
    t.token(b"\x02")
    t.ends()


@asks()
def a_bad_token_and_then_a_good_one(t: Talk) -> None:
    t.handshake("OAUTHBEARER")
    t.token(bearer(jwt(life_s=-20)))
    t.token(bearer(jwt()))
    t.ends()


@asks("PLAINTEXT")
def sasl_where_there_is_none(t: Talk) -> None:
    t.handshake("PLAIN")
    t.handshake("GSSAPI", 0)
    t.token(GOOD_PLAIN)
    t.metadata()


@asks("BRIEF")
def a_session_is_renewed(t: Talk) -> None:
    t.versions()
    t.log_in()
    t.metadata()
    t.log_in()
    t.metadata()


@asks("BRIEF")
def a_client_that_does_not_know_of_sessions(t: Talk) -> None:
    t.handshake("PLAIN")
    t.token(GOOD_PLAIN, 0)
    t.metadata()


@asks("BRIEF")
def renewed_twice_within_a_second(t: Talk) -> None:
    t.log_in()
    t.log_in()
    t.handshake("PLAIN")
    t.metadata()


@asks("BRIEF")
def renewed_with_another_mechanism(t: Talk) -> None:
    t.log_in()
    t.handshake("OAUTHBEARER")
    t.token(bearer(jwt()))


@asks("BRIEF")
def renewed_with_a_mechanism_that_there_is_not(t: Talk) -> None:
    t.log_in()
    t.handshake("GSSAPI")
    t.ends()


@asks("BRIEF")
def renewed_as_somebody_else(t: Talk) -> None:
    t.log_in()
    t.handshake("PLAIN")
    t.token(f"\0bob\0{USERS['bob']}".encode())
    t.ends()


@asks("BRIEF")
def renewed_with_the_wrong_password(t: Talk) -> None:
    t.log_in()
    t.handshake("PLAIN")
    t.token(b"\0alice\0x")
    t.ends()


@asks("BRIEF")
def renewed_with_the_wrong_scram_password(t: Talk) -> None:
    t.handshake("SCRAM-SHA-256")
    first = t.token(b"n,,n=alice,r=abc")
    assert first is not None
    t.token(proof("sha256", "n=alice,r=abc", first.auth_bytes.decode(), PASSWORD))
    t.handshake("SCRAM-SHA-256")
    first = t.token(b"n,,n=alice,r=abc")
    assert first is not None
    t.token(proof("sha256", "n=alice,r=abc", first.auth_bytes.decode(), "wrong"))
    t.ends()


@asks("BRIEF")
def something_else_while_it_is_renewed(t: Talk) -> None:
    t.log_in()
    t.handshake("PLAIN")
    t.versions()
    t.ends()


@asks("BRIEF")
def a_session_that_has_ended(t: Talk) -> None:
    t.log_in()
    assert t.quiet(SESSION_MS / 1000 + 0.5)
    t.metadata()


@asks("BRIEF")
def a_session_that_has_ended_and_is_renewed(t: Talk) -> None:
    t.log_in()
    assert t.quiet(SESSION_MS / 1000 + 0.5)
    t.log_in()
    t.metadata()


@asks("BRIEF")
def a_token_that_ends_before_the_session(t: Talk) -> None:
    t.handshake("OAUTHBEARER")
    t.token(bearer(jwt(life_s=1.5)))
    t.metadata()
    assert t.quiet(2)
    t.metadata()


def first_words(mechanism: str, words: bytes) -> Question:
    """The exchange begins with these messages."""

    def question(t: Talk) -> None:
        t.handshake(mechanism)
        answer = t.token(words)
        if answer is not None and not answer.error_code:
            if answer.auth_bytes.startswith(b"{"):
                t.token(b"\x01")
                t.ends()
            elif mechanism != "SCRAM-SHA-256":
                t.metadata()

    return question


for _mechanism, _cases in (("PLAIN", PLAIN_WORDS), ("SCRAM-SHA-256", SCRAM_WORDS), ("OAUTHBEARER", TOKENS)):
    for _name, _words in _cases.items():
        QUESTIONS[f"{_mechanism} {_name}"] = ("SASL", first_words(_mechanism, _words))
