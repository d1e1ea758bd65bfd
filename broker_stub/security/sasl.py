"""Who may speak on a listener with SASL: each connection's way from its first request to a principal, and to the next one (KIP-368).

Before it is authenticated a connection may ask for ApiVersions, once, and must then name its mechanism; whatever else it sends ends it, as
in Kafka (`SaslServerAuthenticator`). After `session_lifetime_ms`, or when its token ends, only authenticating again is answered, as the
same user with the same mechanism and not more than once a second. It does no I/O and reads no clock.

Leaves out: the delay of `connection.failed.authentication.delay.ms`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from fencepost.broker_stub.security import principal
from fencepost.broker_stub.security.sasl_mechanisms import (
    HASHES,
    MECHANISMS,
    OAUTHBEARER,
    PASSWORD_MECHANISMS,
    Exchange,
    NotProven,
    Refused,
    Unanswered,
    Validate,
    Who,
    oauth_bearer,
    plain,
    scram,
)
from fencepost.producer.wire import Api, ErrorCode
from fencepost.producer.wire.messages.sasl import SaslAuthenticateResponse, SaslHandshakeResponse

RENEWAL_INTERVAL_MIN_MS: Final = 1000
LIFETIME_MAX_MS: Final = ((1 << 63) - 1) // 1_000_000  # Kafka counts in nanoseconds, and fails beyond what 64 bits hold


@dataclass
class Sasl:
    """What a stub's listeners ask of their clients.

    `users`: passwords by name, for PLAIN and SCRAM; changing it counts from the next authentication on. `session_lifetime_ms` is
    connections.max.reauth.ms, 0 for none. `oauth` says whose a token is, or whose and until when in seconds since 1970, and raises
    ValueError for one that is not good. `mechanisms` are those that clients may use, and no others; where none are named, those that
    somebody was configured for. OAUTHBEARER that is named and has no `oauth` takes unsecured JWTs, which anybody can write for any name.
    """

    users: dict[str, str] = field(default_factory=dict)
    mechanisms: Sequence[str] | None = None
    session_lifetime_ms: int = 0
    oauth: Validate | None = None

    def __post_init__(self) -> None:
        if isinstance(self.mechanisms, str):
            raise TypeError(f"mechanisms={self.mechanisms!r}: a list of names, such as [{self.mechanisms!r}]")
        unknown = [each for each in self.offered if each not in MECHANISMS]
        if unknown or not self.offered:
            raise ValueError(f"SASL mechanisms are some of {', '.join(MECHANISMS)}, not {', '.join(unknown) or 'none'}")
        if self.oauth is not None and OAUTHBEARER not in self.offered:
            raise ValueError(f"oauth is asked about {OAUTHBEARER} tokens, and mechanisms={list(self.offered)} takes none")
        if self.session_lifetime_ms < 0:
            raise ValueError(f"a session lasts 0 ms (without end) or longer, not {self.session_lifetime_ms}")

    @property
    def offered(self) -> list[str]:
        """The mechanisms that a client may use now: those that were named, or else those for which there are users or `oauth`."""
        if self.mechanisms is not None:
            return list(self.mechanisms)
        tokens = [OAUTHBEARER] if self.oauth is not None else []
        return [*(PASSWORD_MECHANISMS if self.users or not tokens else ()), *tokens]

    def __repr__(self) -> str:
        return f"Sasl(users={sorted(self.users)}, mechanisms={self.offered}, session_lifetime_ms={self.session_lifetime_ms})"


def sasl_from(given: Sasl | Mapping[str, str]) -> Sasl:
    """What `BrokerStub(sasl=...)` was given; a dictionary is its users."""
    return given if isinstance(given, Sasl) else Sasl(dict(given))


class Stage(Enum):
    """How far a connection has come."""

    BEGINNING = "ApiVersions or SaslHandshake"
    VERSIONS_KNOWN = "SaslHandshake"
    AUTHENTICATING = "SaslAuthenticate"
    AUTHENTICATED = "anything"
    OTHER_MECHANISM = "nothing: the mechanism was changed"
    FAILED = "nothing"


class Admission(Enum):
    """What becomes of a request."""

    SERVE = "serve"
    CLOSE = "close the connection"
    ILLEGAL = "answer ILLEGAL_SASL_STATE, then close"


class Gate:
    """One connection's. `bare`: the client's tokens come as frames of their own (SaslHandshake version 0)."""

    def __init__(self, sasl: Sasl, *, nonce: Callable[[], str]) -> None:
        self.principal = principal.ANONYMOUS
        self.bare = False
        self._sasl = sasl
        self._nonce = nonce
        self._stage = Stage.BEGINNING
        self._mechanism = ""
        self._exchange: Exchange | None = None
        self._renewing: str | None = None  # the principal to remain
        self._renewed_at_ms: int | None = None
        self._expires_at_ms: float | None = None

    @property
    def failed(self) -> bool:
        """Whether the connection has to end once what was answered is sent."""
        return self._stage is Stage.FAILED

    @property
    def proven(self) -> bool:
        """Whether the client may send what it likes; until then nothing large is taken from it."""
        return self._stage is Stage.AUTHENTICATED

    def admit(self, api: int, now_ms: int) -> Admission:
        """What is to be done with a request of that API."""
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
        """ApiVersions was answered without an error."""
        if self._stage is Stage.BEGINNING:
            self._stage = Stage.VERSIONS_KNOWN

    def fail(self) -> None:
        self._stage = Stage.FAILED

    def shake_hands(self, mechanism: str, version: int, now_ms: int) -> SaslHandshakeResponse | None:
        """SaslHandshake; None for the end of the connection."""
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
            self._exchange = self._begin(mechanism, now_ms)
            next(self._exchange)
            self.bare = version == 0
        return SaslHandshakeResponse(mechanisms=mechanisms)

    def authenticate(self, words: bytes, now_ms: int) -> SaslAuthenticateResponse | None:
        """SaslAuthenticate; None for the end of the connection."""
        if self._stage is not Stage.AUTHENTICATING:
            return SaslAuthenticateResponse(
                error_code=ErrorCode.ILLEGAL_SASL_STATE, error_message="SaslAuthenticate request received after successful authentication"
            )
        try:
            answer, lifetime_ms = self._take(words, now_ms)
        except Refused as refused:
            return self._refuse(str(refused))
        except Unanswered:
            self.fail()
            return None
        except NotProven:
            what = "re-authentication" if self._renewing is not None else "authentication"
            return self._refuse(f"Authentication failed during {what} due to invalid credentials with SASL mechanism {self._mechanism}")
        return SaslAuthenticateResponse(auth_bytes=answer, session_lifetime_ms=lifetime_ms)

    def take_bare(self, words: bytes, now_ms: int) -> bytes | None:
        """A bare token; its answer, None for the end of the connection."""
        answer = self.authenticate(words, now_ms)
        return answer.auth_bytes if answer is not None and not answer.error_code else None

    def _begin(self, mechanism: str, now_ms: int) -> Exchange:
        if mechanism in HASHES:
            return scram(mechanism, self._sasl.users, self._nonce())
        return plain(self._sasl.users) if mechanism == "PLAIN" else oauth_bearer(self._sasl.oauth, now_ms)

    def _take(self, words: bytes, now_ms: int) -> tuple[bytes, int]:
        """The next message of the exchange; the answer, and with the last one for how long it holds (0: without end)."""
        assert self._exchange is not None
        try:
            return self._exchange.send(words), 0
        except StopIteration as end:
            answer, who = end.value
            return answer, self._finish(who, now_ms)

    def _finish(self, who: Who, now_ms: int) -> int:
        now = principal.user(who.name)
        if self._renewing is not None and now != self._renewing:
            before, after = (each.replace(":", ".", 1) for each in (self._renewing, now))
            raise Refused(f"Cannot change principals during re-authentication from {before}: {after}")
        limits = [] if who.until_ms is None else [who.until_ms - now_ms]
        limits += [self._sasl.session_lifetime_ms] if self._sasl.session_lifetime_ms else []
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
        """As Kafka has it, only a session that ends is renewed, and not more than once a second."""
        recently = self._renewed_at_ms is not None and now_ms - self._renewed_at_ms < RENEWAL_INTERVAL_MIN_MS
        return self._expires_at_ms is not None and not recently

    def _refuse(self, message: str) -> SaslAuthenticateResponse:
        self.fail()
        return SaslAuthenticateResponse(error_code=ErrorCode.SASL_AUTHENTICATION_FAILED, error_message=message)
