"""SASL on the client's side: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 and OAUTHBEARER, for authentication and reauthentication.

A mechanism is a generator: it yields the client's messages and is sent the broker's responses. SCRAM uses the standard library's hashlib.
As in Kafka's clients and brokers, a password is its UTF-8 bytes, without SASLprep, which would change some passwords. The broker must
prove that it knows the password, too. No error and no log line contains a password or a token.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
import secrets
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from functools import partial
from typing import Final

from fencepost.producer.config.settings import SaslMechanism, Settings
from fencepost.producer.errors import AuthenticationFailed
from fencepost.producer.foundations.printable import said
from fencepost.producer.network.connect_error import ConnectError
from fencepost.producer.network.oauth_tokens import Token, TokenSource
from fencepost.producer.network.run_in_thread import off_loop
from fencepost.producer.wire import Api, ErrorCode, Message, error_name
from fencepost.producer.wire.messages.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)

Ask = Callable[[Message, int], Awaitable[Message]]
"""Sends a request in that version and waits for its response."""

Exchange = Generator[bytes, bytes, None]

HANDSHAKE_VERSION: Final = 1
AUTHENTICATE_VERSION_MAX: Final = 2
ITERATIONS_MIN: Final = 4096
ITERATIONS_MAX: Final = 131_072
"""Kafka's credentials have 4,096 to 16,384 iterations. With fewer iterations a password is too easy to guess. A malicious peer could ask
for very many, to keep the client busy."""

NAMED_MAX: Final = 20
NAMED_CHARACTERS_MAX: Final = 200

HASHES: Final[Mapping[SaslMechanism, str]] = {SaslMechanism.SCRAM_SHA_256: "sha256", SaslMechanism.SCRAM_SHA_512: "sha512"}
SERVER_FIRST: Final = re.compile(r"r=([\x21-\x2b\x2d-\x7e]+),s=([A-Za-z0-9/+=]+),i=([0-9]{1,10})(?:,.*)?")
SERVER_FINAL: Final = re.compile(r"([ev])=([^,]+)(?:,.*)?")


class Login:
    """Authenticates one connection, and reauthenticates it."""

    def __init__(self, s: Settings, versions: Mapping[int, tuple[int, int]], tokens: TokenSource | None) -> None:
        assert s.sasl_mechanism is not None
        self._settings = s
        self._mechanism = s.sasl_mechanism
        self._versions = versions
        self._tokens = tokens

    async def perform(self, ask: Ask) -> float | None:
        """Authenticate; returns the session's lifetime in seconds, None for no limit. Raises ConnectError, or OSError."""
        await self._shake_hands(ask)
        token = await self._tokens.token() if self._tokens is not None else None
        exchange = self._begin(token)
        version = min(AUTHENTICATE_VERSION_MAX, self._versions[Api.SASL_AUTHENTICATE][1])
        words = next(exchange)
        while True:
            answer = await ask(SaslAuthenticateRequest(auth_bytes=words), version)
            assert isinstance(answer, SaslAuthenticateResponse)
            if answer.error_code:
                raise self._refused(answer, token)
            go_on = partial(_next_words, exchange, answer.auth_bytes)
            # The iterations of SCRAM may take half a second. In a thread, they do not block the loop, which serves other brokers.
            then = await off_loop(go_on, name="fencepost-scram") if self._mechanism in HASHES else go_on()
            if then is None:
                return answer.session_lifetime_ms / 1000.0 if answer.session_lifetime_ms > 0 else None
            words = then

    async def _shake_hands(self, ask: Ask) -> None:
        for api, least in ((Api.SASL_HANDSHAKE, HANDSHAKE_VERSION), (Api.SASL_AUTHENTICATE, 0)):
            if self._versions.get(api, (0, -1))[1] < least:
                raise ConnectError(
                    f"the broker offers no {api.name} version {least}: SASL needs Kafka 1.0 or later", kind=AuthenticationFailed
                )
        answer = await ask(SaslHandshakeRequest(mechanism=self._mechanism.value), HANDSHAKE_VERSION)
        assert isinstance(answer, SaslHandshakeResponse)
        if answer.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM:
            raise ConnectError(
                f"the broker does not accept sasl_mechanism={self._mechanism.value}: it accepts {named(answer.mechanisms)}",
                kind=AuthenticationFailed,
            )
        if answer.error_code == ErrorCode.ILLEGAL_SASL_STATE:
            protocol = self._settings.security_protocol
            raise ConnectError(
                f"the listener has no SASL (ILLEGAL_SASL_STATE), but security_protocol={protocol.value}: "
                f"set it to {'SSL' if protocol.tls else 'PLAINTEXT'}, or use another port"
            )
        if answer.error_code:
            raise OSError(f"SaslHandshake was answered with {error_name(answer.error_code)}")

    def _begin(self, token: Token | None) -> Exchange:
        s = self._settings
        if token is not None:
            return oauth_bearer(token)
        assert s.sasl_username is not None
        assert s.sasl_password is not None
        if self._mechanism is SaslMechanism.PLAIN:
            return plain(s.sasl_username, s.sasl_password.reveal())
        return scram(self._mechanism, s.sasl_username, s.sasl_password.reveal())

    def _refused(self, answer: SaslAuthenticateResponse, token: Token | None) -> OSError:
        words = f"{said(answer.error_message) or 'no reason was given'} [{error_name(answer.error_code)}]"
        if answer.error_code != ErrorCode.SASL_AUTHENTICATION_FAILED:
            return OSError(f"SaslAuthenticate was answered with {words}")
        if token is not None:
            assert self._tokens is not None
            self._tokens.forget(token)
            return ConnectError(
                f"the broker refused the OAUTHBEARER token{token.described()}: {words}; check sasl_oauth_token_provider",
                kind=AuthenticationFailed,
            )
        return ConnectError(
            f"the broker refused user {self._settings.sasl_username!r} with sasl_mechanism={self._mechanism.value}: {words}; "
            "check sasl_username and sasl_password",
            kind=AuthenticationFailed,
        )


def _next_words(exchange: Exchange, heard: bytes) -> bytes | None:
    """The client's next message; None at the end."""
    try:
        return exchange.send(heard)
    except StopIteration:
        return None


def named(mechanisms: Sequence[str]) -> str:
    """The mechanisms that a broker accepts, printable and shortened."""
    return said(", ".join(mechanisms[:NAMED_MAX]), NAMED_CHARACTERS_MAX) or "none"


def plain(username: str, password: str) -> Exchange:
    """RFC 4616: the password itself."""
    yield f"\0{username}\0{password}".encode()


def oauth_bearer(token: Token) -> Exchange:
    """RFC 7628, KIP-255. A response with text is an error. The broker sends the refusal itself after one more message of the client."""
    extensions = "".join(f"\x01{name}={value}" for name, value in token.extensions.items())
    complaint = yield f"n,,\x01auth=Bearer {token.value}{extensions}\x01\x01".encode()
    if complaint:
        yield b"\x01"
        raise _untrusted("the broker reported an error of the token, and then accepted it")


def scram(mechanism: SaslMechanism, username: str, password: str, *, nonce: str | None = None) -> Exchange:
    """RFC 5802, without channel binding. `nonce`: random if it is not given."""
    digest = HASHES[mechanism]
    nonce = nonce or secrets.token_urlsafe(24)
    name = username.replace("=", "=3D").replace(",", "=2C")
    client_first = f"n={name},r={nonce}"
    server_first = _text((yield f"n,,{client_first}".encode()))
    server_nonce, salt, iterations = _read_server_first(server_first, nonce, mechanism)
    salted = hashlib.pbkdf2_hmac(digest, password.encode(), salt, iterations)
    client_final = f"c=biws,r={server_nonce}"
    transcript = f"{client_first},{server_first},{client_final}".encode()
    client_key = hmac.digest(salted, b"Client Key", digest)
    signature = hmac.digest(hashlib.new(digest, client_key).digest(), transcript, digest)
    proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
    server_final = _text((yield f"{client_final},p={base64.b64encode(proof).decode()}".encode()))
    expected = hmac.digest(hmac.digest(salted, b"Server Key", digest), transcript, digest)
    _check_server_final(server_final, expected, username)


def _read_server_first(words: str, nonce: str, mechanism: SaslMechanism) -> tuple[str, bytes, int]:
    """The broker's nonce, salt and iterations."""
    found = SERVER_FIRST.fullmatch(words)
    if words.startswith("m="):  # RFC 5802: a client that does not know the extension must stop
        raise _untrusted(f"the broker requires an extension of {mechanism.value} that this client does not support")
    if found is None:
        raise _untrusted(f"the broker's first {mechanism.value} message cannot be read")
    server_nonce, salt, iterations = found[1], found[2], int(found[3])
    if not server_nonce.startswith(nonce) or server_nonce == nonce:
        raise _untrusted(f"the broker's {mechanism.value} nonce does not extend the client's nonce: the message is not for this client")
    if not ITERATIONS_MIN <= iterations <= ITERATIONS_MAX:
        raise _untrusted(
            f"the broker asks for {iterations} iterations of {mechanism.value}: this client accepts {ITERATIONS_MIN} to {ITERATIONS_MAX}"
        )
    try:
        return server_nonce, base64.b64decode(salt, validate=True), iterations
    except binascii.Error:
        raise _untrusted(f"the broker's {mechanism.value} salt is not base64") from None


def _check_server_final(words: str, expected: bytes, username: str) -> None:
    found = SERVER_FINAL.fullmatch(words)
    if found is not None and found[1] == "e":
        raise _untrusted(f"the broker refused user {username!r}: {said(found[2])}; check sasl_username and sasl_password")
    try:
        signature = base64.b64decode(found[2], validate=True) if found is not None else b""
    except ValueError:  # also binascii.Error; ValueError itself for text that is not ASCII
        signature = b""
    if not hmac.compare_digest(signature, expected):
        raise _untrusted(
            f"the broker accepted user {username!r} without knowing its password: its signature is wrong, and it may be an impostor"
        )


def _text(words: bytes) -> str:
    try:
        return words.decode()
    except UnicodeDecodeError:
        raise _untrusted("the broker's SASL message is not text") from None


def _untrusted(reason: str) -> ConnectError:
    return ConnectError(reason, kind=AuthenticationFailed)
