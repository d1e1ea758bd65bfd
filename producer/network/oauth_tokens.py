"""OAuth bearer tokens: the program's provider returns them, and they are reused for most of their lifetime.

The provider runs in a thread beside the loop, because it may block. A coroutine function is awaited. The provider gets no argument. If it
needs one, or `sasl_oauthbearer_config` is set, it gets that text, like librdkafka's `oauth_cb`. It returns the token, or a tuple: the
token, its expiry in seconds since 1970, and optionally a principal (unused, the token contains it) and a dictionary of SASL extensions.
Without an expiry, or after a refusal, every authentication calls the provider. Errors and logs never show a token; they may show when it
expires.
"""

from __future__ import annotations

import base64
import inspect
import re
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

import msgspec

from fencepost.producer.config.settings import Settings
from fencepost.producer.errors import AuthenticationFailed
from fencepost.producer.network.connect_error import ConnectError
from fencepost.producer.network.run_in_thread import off_loop
from fencepost.producer.wire.errors import NO_JSON

REUSED_SHARE: Final = 0.8
"""A token with a known expiry is reused for this share of its lifetime, as in librdkafka."""

TOKEN: Final = re.compile(r"[-_~+/.a-zA-Z0-9]+=*")
EXTENSION_NAME: Final = re.compile(r"[a-zA-Z]+")
EXTENSION_VALUE: Final = re.compile(r"[\x21-\x7e \t\r\n]+")
NAME: Final = "sasl_oauth_token_provider"


class Token:
    """A provider's token. `expires_at`: seconds since 1970, None if the provider did not tell."""

    def __init__(self, value: str, expires_at: float | None, extensions: Mapping[str, str]) -> None:
        self.value = value
        self.expires_at = expires_at
        self.extensions = extensions

    def __repr__(self) -> str:
        return f"<a token{self.described()}>"

    def described(self) -> str:
        """A description without the token itself: for a JWT its subject and, if it has expired, since when."""
        claims = _claims(self.value)
        subject = claims.get("sub")
        ends = claims.get("exp", self.expires_at)
        whose = f" of {subject!r}" if isinstance(subject, str) else ""
        ago = time.time() - ends if isinstance(ends, int | float) else -1.0
        return f"{whose}, which expired {ago:.0f} s ago" if ago >= 0 else whose


class TokenSource:
    """See the module. Each producer has one."""

    def __init__(self, settings: Settings) -> None:
        assert settings.sasl_oauth_token_provider is not None
        config = settings.sasl_oauthbearer_config
        self._provider = settings.sasl_oauth_token_provider.reveal()
        self._config = config.reveal() if config is not None else ""
        self._takes_config = config is not None or _needs_argument(self._provider)
        self._kept: Token | None = None
        self._kept_until = 0.0  # by the wall clock, which goes on while the machine sleeps
        self._kept_for = 0.0  # by the monotonic clock, which nothing sets back

    async def token(self) -> Token:
        """A valid token. Raises ConnectError if the provider returns something else, OSError if the provider raised one."""
        if self._kept is not None and time.time() < self._kept_until and time.monotonic() < self._kept_for:
            return self._kept
        asked_at, began = time.time(), time.monotonic()
        token = _read(await self._ask())
        if token.expires_at is not None:
            left = token.expires_at - time.time()
            if left <= 0:
                raise _wrong(f"returned a token that expired {-left:.0f} s ago")
            self._kept, self._kept_until, self._kept_for = token, asked_at + REUSED_SHARE * left, began + REUSED_SHARE * left
        return token

    def forget(self, token: Token) -> None:
        """A broker refused the token. The next authentication asks the provider."""
        if token is self._kept:
            self._kept = None

    async def _ask(self) -> object:
        call: Callable[[], object] = partial(self._provider, self._config) if self._takes_config else self._provider
        try:
            given = call() if inspect.iscoroutinefunction(self._provider) else await off_loop(call, name="fencepost-token")
            return await given if inspect.isawaitable(given) else given
        except OSError as error:
            # Perhaps the token's issuer cannot be reached. That may pass.
            raise OSError(f"{NAME} raised {type(error).__name__}: {error}") from error
        except Exception as error:
            raise _wrong(f"raised {type(error).__name__}: {error}") from error


def _needs_argument(provider: Callable[..., object]) -> bool:
    try:
        signature = inspect.signature(provider)
        signature.bind()
    except ValueError:
        return False  # its parameters are unknown
    except TypeError:
        return True
    return False


def _read(given: Any) -> Token:
    value, expires_at, _, extensions = (*given, *(None,) * 4)[:4] if isinstance(given, tuple) else (given, None, None, None)
    if not isinstance(value, str):
        raise _wrong(f"returned {type(given).__name__}: the token must be a str, alone or first in a tuple")
    if not TOKEN.fullmatch(value):
        raise _wrong(
            "returned a str that is no bearer token: it has characters that RFC 6750 does not allow" if value else "returned an empty str"
        )
    if not (expires_at is None or isinstance(expires_at, int | float)):
        raise _wrong(f"returned an expiry of type {type(expires_at).__name__}: it must be seconds since 1970")
    return Token(value, expires_at, _extensions(extensions))


def _extensions(given: Any) -> Mapping[str, str]:
    """SASL extensions, checked against RFC 7628, which reserves the name `auth`."""
    extensions = given or {}
    if not isinstance(extensions, Mapping):
        raise _wrong(f"returned SASL extensions of type {type(given).__name__}: they must be a dictionary")
    for name, value in extensions.items():
        fits = isinstance(name, str) and isinstance(value, str) and EXTENSION_NAME.fullmatch(name) and EXTENSION_VALUE.fullmatch(value)
        if not fits or name == "auth":
            raise _wrong(f"returned a SASL extension {name!r} that RFC 7628 does not allow")
    return extensions


def _claims(token: str) -> dict[str, Any]:
    """The claims of a JWT, unverified, for messages only. Empty for another token."""
    parts = token.split(".")
    if len(parts) != 3:
        return {}
    try:
        claims = msgspec.json.decode(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except (ValueError, *NO_JSON):
        return {}
    return claims if isinstance(claims, dict) else {}


def _wrong(reason: str) -> ConnectError:
    return ConnectError(f"{NAME} {reason}", kind=AuthenticationFailed)
