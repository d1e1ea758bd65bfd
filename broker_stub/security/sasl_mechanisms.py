"""The SASL mechanisms on the broker's side: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 and OAUTHBEARER, as Apache Kafka has them.

Each is a generator that is sent the client's messages, yields what is answered, and returns the last answer with who the client is.
`Refused` carries words for the client; `NotProven` does not, as in Kafka, where its words could tell who exists; `Unanswered` is what Kafka
itself fails at. OAUTHBEARER takes unsecured JWTs like Kafka's default validator, or asks a callable. Names and passwords are not prepared
with SASLprep, for Kafka does not.

Leaves out: GSSAPI, delegation tokens, and SCRAM's and OAUTHBEARER's extensions, which are read and passed over; but SCRAM fails where an
extension is mandatory, and where the proof is of a last message with extensions, which Kafka leaves out of what it computes.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Callable, Generator, Mapping
from functools import lru_cache
from typing import Any, Final, NamedTuple, TypeGuard

import msgspec

ITERATIONS: Final = 4096
UNTIL_MAX_MS: Final = (1 << 63) - 1
HASHES: Final = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
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
_MANDATORY: Final = re.compile(",m=")  # RFC 5802: what it asks for would have to be understood
_OAUTH_FIRST: Final = re.compile(
    rf"n,(?:a=(?P<authzid>{_SASL_NAME}))?,\x01(?P<pairs>(?:[A-Za-z]+=[\x21-\x7e \t\r\n]+\x01)*)\x01",
)
_AUTH: Final = re.compile(r"(?P<scheme>\w+) +(?P<token>[-_~+/.a-zA-Z0-9]+=*)", re.ASCII)
_CONTROL_A: Final = b"\x01"
_INVALID_TOKEN: Final = '{"status":"invalid_token"}'


class Refused(Exception):
    """The client is not let in, and is told these words."""


class NotProven(Exception):
    """The client is not let in, and is not told why."""


class Unanswered(Exception):
    """The connection ends without an answer."""


class Who(NamedTuple):
    """Who the client is. `until_ms`: when its credential ends, in ms since 1970, None for never."""

    name: str
    until_ms: float | None = None


Exchange = Generator[bytes, bytes, tuple[bytes, Who]]
Validate = Callable[[str], "str | tuple[str, float | None]"]
"""Says whose token it is, or that and when it ends, in seconds since 1970; raises ValueError for one that is not good."""


def plain(users: Mapping[str, str]) -> Exchange:
    """RFC 4616, in Kafka's words (`PlainSaslServer`)."""
    tokens = (yield b"").decode(errors="replace").split("\0", 3)
    if len(tokens) != 3:
        raise Refused(f"Invalid SASL/PLAIN response: expected 3 tokens, got {len(tokens)}")
    authzid, name, password = tokens
    for what, value in (("username", name), ("password", password)):
        if not value:
            raise Refused(f"Authentication failed: {what} not specified")
    if name not in users or not hmac.compare_digest(users[name].encode(), password.encode()):
        raise Refused("Authentication failed: Invalid username or password")
    _same(authzid, name)
    return b"", Who(name)


def scram(mechanism: str, users: Mapping[str, str], nonce: str) -> Exchange:
    """RFC 5802 without channel binding (`ScramSaslServer`). `nonce` is the broker's part of it."""
    digest = HASHES[mechanism]
    first = _CLIENT_FIRST.fullmatch(_text((yield b"")))
    if first is None:
        raise NotProven
    name = first["name"].replace("=2C", ",").replace("=3D", "=")
    if name not in users:
        raise NotProven
    _same((first["authzid"] or "").replace("=2C", ",").replace("=3D", "="), name)
    salt = hashlib.sha256(name.encode()).digest()[:16]
    server_first = f"r={first['nonce']}{nonce},s={base64.b64encode(salt).decode()},i={ITERATIONS}"
    final = _CLIENT_FINAL.fullmatch(_text((yield server_first.encode())))
    mandatory = first["mandatory"] or _MANDATORY.search(first["extensions"] + (final["extensions"] if final is not None else ""))
    if final is None or mandatory or final["nonce"] != first["nonce"] + nonce:
        raise NotProven
    transcript = f"{first['bare']},{server_first},{final['bare']}".encode()
    salted = _salted(digest, users[name], salt)
    stored_key = hashlib.new(digest, hmac.digest(salted, b"Client Key", digest)).digest()
    shown = bytes(a ^ b for a, b in zip(hmac.digest(stored_key, transcript, digest), _decoded(final["proof"]), strict=False))
    if not hmac.compare_digest(hashlib.new(digest, shown).digest(), stored_key):
        raise NotProven
    signature = hmac.digest(hmac.digest(salted, b"Server Key", digest), transcript, digest)
    return b"v=" + base64.b64encode(signature), Who(name)


@lru_cache(maxsize=256)
def _salted(digest: str, password: str, salt: bytes) -> bytes:
    """What takes thousands of rounds, once for each user that comes back."""
    return hashlib.pbkdf2_hmac(digest, password.encode(), salt, ITERATIONS)


def oauth_bearer(validate: Validate | None, now_ms: float) -> Exchange:
    """RFC 7628 (`OAuthBearerSaslServer`): a token that is not good is complained of in JSON, and refused unless a better one follows."""
    answer, complained = b"", False
    while True:
        words = yield answer
        if complained and words == _CONTROL_A:
            raise Refused(_INVALID_TOKEN)
        authzid, token = _bearer(words)
        try:
            who = _asked(validate, token) if validate is not None else unsecured(token, now_ms)
            break
        except ValueError:
            answer, complained = _INVALID_TOKEN.encode(), True
    if authzid and authzid != who.name:
        raise Refused(
            f"Authentication failed: Client requested an authorization id ({authzid}) that is different from the token's "
            f"principal name ({who.name})"
        )
    return b"", who


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


def _asked(validate: Validate, token: str) -> Who:
    said = validate(token)
    name, until_s = said if isinstance(said, tuple) else (said, None)
    return Who(name, None if until_s is None else until_s * 1000)


def unsecured(token: str, now_ms: float) -> Who:
    """Who an unsecured JWT is about (`OAuthBearerUnsecuredValidatorCallbackHandler`). Raises ValueError."""
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
    if not _is_number(expires) or now_ms >= expires * 1000:
        raise ValueError("it has expired, or never says when it does")
    if issued is not None and (not _is_number(issued) or issued * 1000 > now_ms or expires <= issued):
        raise ValueError("it was issued after now, or after it expired")
    return Who(name, round(min(expires * 1000, UNTIL_MAX_MS)))


def _same(authzid: str, name: str) -> None:
    if authzid and authzid != name:
        raise Refused("Authentication failed: Client requested an authorization id that is different from username")


def _text(words: bytes) -> str:
    return words.decode(errors="replace")


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        raise NotProven from None


def _json(part: str) -> dict[str, Any]:
    """A part of a JWS; what is JSON and no object has nothing in it."""
    if "+" in part or "/" in part:
        raise ValueError("it is not in the alphabet for URLs")
    try:
        decoded = msgspec.json.decode(base64.b64decode(part + "=" * (-len(part) % 4), altchars=b"-_", validate=True))
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    return decoded if isinstance(decoded, dict) else {}


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool)
