"""The authentication of a connection on a listener with SASL, from its first request on, and again at a session's end (KIP-368).

Before authentication a connection may send one ApiVersions, and must then name its mechanism. Anything else ends it, as in Kafka
(`SaslServerAuthenticator`). After `session_lifetime_ms`, or when its token expires, the broker answers only a new authentication: as the
same user, with the same mechanism, and not more than once a second. It does no I/O and reads no clock.

Leaves out: the delay of `connection.failed.authentication.delay.ms`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from fencepost.broker_stub.arguments import LONG_MAX, check_arguments
from fencepost.broker_stub.security import principal
from fencepost.broker_stub.security.sasl_mechanisms import (
    MECHANISMS,
    OAUTHBEARER,
    PASSWORD_MECHANISMS,
    Authenticated,
    Exchange,
    NotProven,
    SaslRefused,
    Unanswered,
    Validate,
    oauth_bearer,
    plain,
    scram,
)
from fencepost.broker_stub.security.scram_credentials import HASHES, ScramCredentials
from fencepost.producer.wire import Api, ErrorCode
from fencepost.producer.wire.messages.sasl import SaslAuthenticateResponse, SaslHandshakeResponse

RENEWAL_INTERVAL_MIN_MS: Final = 1000
LIFETIME_MAX_MS: Final = LONG_MAX // 1_000_000  # Kafka counts in nanoseconds, and fails beyond what 64 bits hold


def check_users(users: object) -> None:
    """Raises TypeError for users that could never log in. Its text has no value, which could be a password."""
    if not isinstance(users, Mapping):
        raise TypeError(f"users is a {type(users).__name__}: it must be a dictionary of users and their passwords")
    if not all(isinstance(text, str) for pair in users.items() for text in pair):
        raise TypeError("sasl: the users and their passwords must be text")


@dataclass
class Sasl:
    """How a stub's listeners authenticate their clients.

    `users`: passwords by name, for PLAIN and SCRAM. A change of it counts from the next authentication on. `session_lifetime_ms` is
    connections.max.reauth.ms, 0 for none. `oauth` returns the user of a token, or the user and the expiry in seconds since 1970, and raises
    ValueError for an invalid token. `mechanisms` are those that clients may use; without them, those that `users` or `oauth` serve.
    OAUTHBEARER without `oauth` accepts unsecured JWTs, which any client can write for any name.
    """

    users: dict[str, str] = field(default_factory=dict)
    mechanisms: Sequence[str] | None = None
    session_lifetime_ms: int = 0
    oauth: Validate | None = None

    def __post_init__(self) -> None:
        check_users(self.users)
        check_arguments(session_lifetime_ms=self.session_lifetime_ms)
        if isinstance(self.mechanisms, str):
            raise TypeError(f"mechanisms={self.mechanisms!r}: a list of names, such as [{self.mechanisms!r}]")
        unknown = [each for each in self.offered if each not in MECHANISMS]
        if unknown or not self.offered:
            raise ValueError(f"SASL mechanisms are some of {', '.join(MECHANISMS)}, not {', '.join(unknown) or 'none'}")
        if self.oauth is not None and OAUTHBEARER not in self.offered:
            raise ValueError(f"oauth checks {OAUTHBEARER} tokens, but mechanisms={list(self.offered)} does not have {OAUTHBEARER}")

    @property
    def offered(self) -> list[str]:
        """The mechanisms that a client may use now: the named ones, or else those that `users` or `oauth` serve."""
        if self.mechanisms is not None:
            return list(self.mechanisms)
        tokens = [OAUTHBEARER] if self.oauth is not None else []
        return [*(PASSWORD_MECHANISMS if self.users or not tokens else ()), *tokens]

    def __repr__(self) -> str:
        return f"Sasl(users={sorted(self.users)}, mechanisms={self.offered}, session_lifetime_ms={self.session_lifetime_ms})"


def sasl_from(given: Sasl | Mapping[str, str]) -> Sasl:
    """The value of `BrokerStub(sasl=...)`; a dictionary is its users. Raises TypeError for anything else, without a value, which could be
    a password."""
    if not isinstance(given, Sasl | Mapping):
        raise TypeError(f"sasl is a {type(given).__name__}: it must be a Sasl, or a dictionary of users and their passwords")
    if not given:
        raise ValueError("sasl={} names no user, so no client could log in: name one, or leave sasl out")
    return given if isinstance(given, Sasl) else Sasl(dict(given))


class Stage(Enum):
    """The next request that is allowed."""

    BEGINNING = "ApiVersions or SaslHandshake"
    VERSIONS_KNOWN = "SaslHandshake"
    AUTHENTICATING = "SaslAuthenticate"
    AUTHENTICATED = "anything"
    OTHER_MECHANISM = "nothing: the mechanism was changed"
    FAILED = "nothing"


class Admission(Enum):
    """The decision about a request."""

    SERVE = "serve"
    CLOSE = "close the connection"
    ILLEGAL = "answer ILLEGAL_SASL_STATE, then close"


class SaslState:
    """The SASL state of one connection. `bare`: the client's tokens are frames of their own (SaslHandshake version 0).
    `session_lifetime_ms`: the broker's own, where `sasl` has none."""

    def __init__(self, sasl: Sasl, credentials: ScramCredentials, *, nonce: Callable[[], str], session_lifetime_ms: int = 0) -> None:
        self.principal = principal.ANONYMOUS
        self.bare = False
        self._sasl = sasl
        self._credentials = credentials
        self._nonce = nonce
        self._session_lifetime_ms = session_lifetime_ms
        self._stage = Stage.BEGINNING
        self._mechanism = ""
        self._exchange: Exchange | None = None
        self._renewing: str | None = None  # the principal that a new authentication must have
        self._renewed_at_ms: int | None = None
        self._expires_at_ms: float | None = None
        self._now_ms = 0

    @property
    def failed(self) -> bool:
        """Whether the connection must end after the response."""
        return self._stage is Stage.FAILED

    @property
    def proven(self) -> bool:
        """Whether the client is authenticated. Until then the broker reads only small frames from it."""
        return self._stage is Stage.AUTHENTICATED

    def admit(self, api: int, now_ms: int) -> Admission:
        """The decision about a request of that API."""
        match self._stage:
            case Stage.AUTHENTICATED:
                expired = self._expires_at_ms is not None and now_ms > self._expires_at_ms
                return Admission.CLOSE if expired and not (api == Api.SASL_HANDSHAKE and self._may_renew(now_ms)) else Admission.SERVE
            case Stage.BEGINNING if api in (Api.API_VERSIONS, Api.SASL_HANDSHAKE):
                return Admission.SERVE
            case Stage.VERSIONS_KNOWN if api == Api.SASL_HANDSHAKE:
                return Admission.SERVE
            case Stage.AUTHENTICATING:
                return Admission.SERVE if api == Api.SASL_AUTHENTICATE else Admission.ILLEGAL
            case _:
                return Admission.CLOSE

    def told_versions(self) -> None:
        """Notes that ApiVersions was answered without an error."""
        if self._stage is Stage.BEGINNING:
            self._stage = Stage.VERSIONS_KNOWN

    def fail(self) -> None:
        self._stage = Stage.FAILED

    def shake_hands(self, mechanism: str, version: int, now_ms: int) -> SaslHandshakeResponse | None:
        """Answers SaslHandshake. None: the connection must end."""
        if self._stage is Stage.AUTHENTICATED:
            if not self._may_renew(now_ms):
                return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)
            self._renewed_at_ms = now_ms
            self._renewing = self.principal
        mechanisms = self._sasl.offered
        if mechanism not in mechanisms:
            self.fail()
            if self._renewing is not None:
                return None
            return SaslHandshakeResponse(error_code=ErrorCode.UNSUPPORTED_SASL_MECHANISM, mechanisms=mechanisms)
        if self._renewing is not None and mechanism != self._mechanism:
            self._stage = Stage.OTHER_MECHANISM
        else:
            self._stage = Stage.AUTHENTICATING
            self._mechanism = mechanism
            self._exchange = self._begin(mechanism)
            next(self._exchange)
            self.bare = version == 0
        return SaslHandshakeResponse(mechanisms=mechanisms)

    def authenticate(self, words: bytes, now_ms: int) -> SaslAuthenticateResponse | None:
        """Answers SaslAuthenticate. None: the connection must end."""
        if self._stage is not Stage.AUTHENTICATING:
            return SaslAuthenticateResponse(
                error_code=ErrorCode.ILLEGAL_SASL_STATE, error_message="SaslAuthenticate request received after successful authentication"
            )
        self._now_ms = now_ms
        try:
            answer, lifetime_ms = self._take(words, now_ms)
        except SaslRefused as refused:
            return self._refuse(str(refused))
        except Unanswered:
            self.fail()
            return None
        except NotProven:
            what = "re-authentication" if self._renewing is not None else "authentication"
            return self._refuse(f"Authentication failed during {what} due to invalid credentials with SASL mechanism {self._mechanism}")
        return SaslAuthenticateResponse(auth_bytes=answer, session_lifetime_ms=lifetime_ms)

    def take_bare(self, words: bytes, now_ms: int) -> bytes | None:
        """Answers a bare token. None: the connection must end."""
        answer = self.authenticate(words, now_ms)
        return answer.auth_bytes if answer is not None and not answer.error_code else None

    def _begin(self, mechanism: str) -> Exchange:
        if mechanism in HASHES:
            return scram(mechanism, self._credentials.of, self._nonce())
        return plain(self._sasl.users) if mechanism == "PLAIN" else oauth_bearer(self._sasl.oauth, lambda: self._now_ms)

    def _take(self, words: bytes, now_ms: int) -> tuple[bytes, int]:
        """The answer to the client's next message; with the last one, the lifetime of the session (0: no end)."""
        assert self._exchange is not None
        try:
            return self._exchange.send(words), 0
        except StopIteration as end:
            answer, client = end.value
            return answer, self._finish(client, now_ms)

    def _finish(self, client: Authenticated, now_ms: int) -> int:
        now = principal.user(client.name)
        if self._renewing is not None and now != self._renewing:
            before, after = (each.replace(":", ".", 1) for each in (self._renewing, now))
            raise SaslRefused(f"Cannot change principals during re-authentication from {before}: {after}")
        limits = [] if client.until_ms is None else [client.until_ms - now_ms]
        configured_ms = self._sasl.session_lifetime_ms or self._session_lifetime_ms
        limits += [configured_ms] if configured_ms > 0 else []
        lifetime_ms = max(0, min(limits, default=0))
        if lifetime_ms > LIFETIME_MAX_MS:
            raise Unanswered
        self._stage = Stage.AUTHENTICATED
        self._exchange = None
        self._renewing = None
        self.bare = False
        self.principal = now
        self._expires_at_ms = now_ms + lifetime_ms if limits else None
        return int(lifetime_ms)

    def _may_renew(self, now_ms: int) -> bool:
        """Whether the session may be renewed: as in Kafka only one that ends, and not more than once a second."""
        recently = self._renewed_at_ms is not None and now_ms - self._renewed_at_ms < RENEWAL_INTERVAL_MIN_MS
        return self._expires_at_ms is not None and not recently

    def _refuse(self, message: str) -> SaslAuthenticateResponse:
        self.fail()
        return SaslAuthenticateResponse(error_code=ErrorCode.SASL_AUTHENTICATION_FAILED, error_message=message)
