"""The SASL mechanisms on the broker's side: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 and OAUTHBEARER, as Apache Kafka has them.

Each is a generator: it receives the client's messages, yields the answers, and returns the last answer with the authenticated client.
`SaslRefused` has a reason for the client. `NotProven` has none, as in Kafka, where a reason could tell which users exist. `Unanswered` is a
failure inside Kafka itself. OAUTHBEARER accepts unsecured JWTs like Kafka's default validator, or asks a callable. Names and passwords are
not prepared with SASLprep, because Kafka does not prepare them.

Leaves out: GSSAPI and delegation tokens. Extensions of SCRAM and OAUTHBEARER are read and ignored. SCRAM fails for a mandatory extension,
and for a proof over a last message with extensions, which Kafka leaves out of its computation.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Callable, Generator, Mapping
from typing import Any, Final, NamedTuple

import msgspec

from fencepost.broker_stub.arguments import is_number
from fencepost.broker_stub.security.scram_credentials import HASHES, Credential

UNTIL_MAX_MS: Final = (1 << 63) - 1
OAUTHBEARER: Final = "OAUTHBEARER"
PASSWORD_MECHANISMS: Final = ("PLAIN", *HASHES)
MECHANISMS: Final = (*PASSWORD_MECHANISMS, OAUTHBEARER)

_SASL_NAME: Final = r"(?:[\x01-\x2b\x2d-\x3c\x3e-\x7f]|=2C|=3D)+"
_EXTENSIONS: Final = r"(?:,[A-Za-z]+=[\x01-\x2b\x2d-\x7f]+)*"
_CLIENT_FIRST: Final = re.compile(
    rf"n,(?:a=(?P<authzid>{_SASL_NAME}))?,(?P<mandatory>m=[^,]+,)?"
    rf"(?P<bare>n=(?P<name>{_SASL_NAME}),r=(?P<nonce>[\x21-\x2b\x2d-\x7e]+)(?P<extensions>{_EXTENSIONS}))"
)
_CLIENT_FINAL: Final = re.compile(
    rf"(?P<bare>c=[A-Za-z0-9/+=]*,r=(?P<nonce>[\x21-\x2b\x2d-\x7e]+))(?P<extensions>{_EXTENSIONS}),p=(?P<proof>[A-Za-z0-9/+=]*)"
)
_MANDATORY: Final = re.compile(",m=")  # RFC 5802: the server must understand a mandatory extension
_OAUTH_FIRST: Final = re.compile(
    rf"n,(?:a=(?P<authzid>{_SASL_NAME}))?,\x01(?P<pairs>(?:[A-Za-z]+=[\x21-\x7e \t\r\n]+\x01)*)\x01",
)
_AUTH: Final = re.compile(r"(?P<scheme>\w+) +(?P<token>[-_~+/.a-zA-Z0-9]+=*)", re.ASCII)
_CONTROL_A: Final = b"\x01"
DEPTH_MAX: Final = 1000
NESTED: Final = "it is nested too deeply"
_INVALID_TOKEN: Final = '{"status":"invalid_token"}'


class SaslRefused(Exception):
    """Authentication failed, and the client gets the reason."""


class NotProven(Exception):
    """Authentication failed, and the client gets no reason."""


class Unanswered(Exception):
    """The connection ends without an answer."""


class Authenticated(NamedTuple):
    """The authenticated client. `until_ms`: the expiry of its credential, in ms since 1970, None for none."""

    name: str
    until_ms: float | None = None


Exchange = Generator[bytes, bytes, tuple[bytes, Authenticated]]
Validate = Callable[[str], "str | tuple[str, float | None]"]
"""Returns the user of a token, or the user and the expiry in seconds since 1970. Raises ValueError for an invalid token."""


def plain(users: Mapping[str, str]) -> Exchange:
    """RFC 4616, with the texts of Kafka's `PlainSaslServer`."""
    tokens = (yield b"").decode(errors="replace").split("\0", 3)
    if len(tokens) != 3:
        raise SaslRefused(f"Invalid SASL/PLAIN response: expected 3 tokens, got {len(tokens)}")
    authzid, name, password = tokens
    for what, value in (("username", name), ("password", password)):
        if not value:
            raise SaslRefused(f"Authentication failed: {what} not specified")
    if name not in users or not hmac.compare_digest(users[name].encode(), password.encode()):
        raise SaslRefused("Authentication failed: Invalid username or password")
    _same(authzid, name)
    return b"", Authenticated(name)


def scram(mechanism: str, find: Callable[[str, str], Credential | None], nonce: str) -> Exchange:
    """RFC 5802 without channel binding (`ScramSaslServer`). `find` returns the credential of a user; `nonce` is the broker's part of the
    nonce."""
    digest = HASHES[mechanism]
    first = _CLIENT_FIRST.fullmatch(_text((yield b"")))
    if first is None:
        raise NotProven
    name = first["name"].replace("=2C", ",").replace("=3D", "=")
    known = find(mechanism, name)
    if known is None:
        raise NotProven
    _same((first["authzid"] or "").replace("=2C", ",").replace("=3D", "="), name)
    server_first = f"r={first['nonce']}{nonce},s={base64.b64encode(known.salt).decode()},i={known.iterations}"
    final = _CLIENT_FINAL.fullmatch(_text((yield server_first.encode())))
    mandatory = first["mandatory"] or _MANDATORY.search(first["extensions"] + (final["extensions"] if final is not None else ""))
    if final is None or mandatory or final["nonce"] != first["nonce"] + nonce:
        raise NotProven
    transcript = f"{first['bare']},{server_first},{final['bare']}".encode()
    shown = bytes(a ^ b for a, b in zip(hmac.digest(known.stored_key, transcript, digest), _decoded(final["proof"]), strict=False))
    if not hmac.compare_digest(hashlib.new(digest, shown).digest(), known.stored_key):
        raise NotProven
    signature = hmac.digest(known.server_key, transcript, digest)
    return b"v=" + base64.b64encode(signature), Authenticated(name)


def oauth_bearer(validate: Validate | None, now_ms: Callable[[], float]) -> Exchange:
    """RFC 7628 (`OAuthBearerSaslServer`): the answer to an invalid token is an error in JSON. The next message must have a valid one.

    A token is judged when it comes, because the client may get it after the handshake.
    """
    answer, complained = b"", False
    while True:
        words = yield answer
        if complained and words == _CONTROL_A:
            raise SaslRefused(_INVALID_TOKEN)
        authzid, token = _bearer(words)
        try:
            client = _asked(validate, token) if validate is not None else unsecured(token, now_ms())
            break
        except ValueError:
            answer, complained = _INVALID_TOKEN.encode(), True
    if authzid and authzid != client.name:
        raise SaslRefused(
            f"Authentication failed: Client requested an authorization id ({authzid}) that is different from the token's "
            f"principal name ({client.name})"
        )
    return b"", client


def _bearer(words: bytes) -> tuple[str, str]:
    """The authorization id and the token of a client's first message."""
    first = _OAUTH_FIRST.fullmatch(words.decode(errors="replace"))
    if first is None:
        raise NotProven
    pairs = dict(pair.split("=", 1) for pair in first["pairs"].split("\x01") if pair)
    auth = _AUTH.fullmatch(pairs.get("auth", ""))
    if auth is None:
        raise NotProven
    if auth["scheme"].lower() != "bearer":
        raise Unanswered
    return first["authzid"] or "", auth["token"]


def _asked(validate: Validate, token: str) -> Authenticated:
    said = validate(token)
    name, until_s = said if isinstance(said, tuple) else (said, None)
    return Authenticated(name, None if until_s is None else until_s * 1000)


def unsecured(token: str, now_ms: float) -> Authenticated:
    """The subject of an unsecured JWT (`OAuthBearerUnsecuredValidatorCallbackHandler`). Raises ValueError."""
    parts = token.split(".")
    if len(parts) != 3 or ".." in token or parts[2]:
        raise ValueError("it is not an unsecured JWS")
    header, claims = (_json(part) for part in parts[:2])
    if "alg" not in header:
        raise Unanswered
    if header["alg"] != "none":
        raise ValueError("its algorithm is not none")
    name, issued, expires = claims.get("sub"), claims.get("iat"), claims.get("exp")
    if not isinstance(name, str) or not name.strip():
        raise ValueError("it has no subject")
    if not is_number(expires) or now_ms >= expires * 1000:
        raise ValueError("it has expired, or never says when it does")
    if issued is not None and (not is_number(issued) or issued * 1000 > now_ms or expires <= issued):
        raise ValueError("it was issued after now, or after it expired")
    return Authenticated(name, round(min(expires * 1000, UNTIL_MAX_MS)))


def _same(authzid: str, name: str) -> None:
    if authzid and authzid != name:
        raise SaslRefused("Authentication failed: Client requested an authorization id that is different from username")


def _text(words: bytes) -> str:
    return words.decode(errors="replace")


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        raise NotProven from None


def _json(part: str) -> dict[str, Any]:
    """A decoded part of a JWS; empty for JSON that is no object."""
    if "+" in part or "/" in part:
        raise ValueError("it is not in the alphabet for URLs")
    try:
        decoded = msgspec.json.decode(base64.b64decode(part + "=" * (-len(part) % 4), altchars=b"-_", validate=True))
    except RecursionError:
        raise ValueError(NESTED) from None
    _check_depth(decoded)
    return decoded if isinstance(decoded, dict) else {}


def _check_depth(decoded: Any) -> None:
    """Raises ValueError for JSON that Kafka's parser (Jackson) refuses. Python's own limit of recursion differs between its releases."""
    level, depth = [decoded], 0
    while level := [each for each in level if isinstance(each, (dict, list))]:
        depth += 1
        if depth > DEPTH_MAX:
            raise ValueError(NESTED)
        level = [child for each in level for child in (each.values() if isinstance(each, dict) else each)]
