"""OAuth bearer tokens: asked of the program's provider, and kept as long as it says that they may be.

The provider is called beside the loop, because it may block, or awaited where it is a coroutine function. It is called without arguments,
or, where it cannot do without one or `sasl_oauthbearer_config` is set, with that text, as librdkafka's `oauth_cb` is. It returns the token,
or a tuple of the token, its expiry in seconds since 1970 and, if it likes, a principal (unused, it is in the token) and a dictionary of
SASL extensions. Without an expiry every authentication asks anew. A token is never shown; the time when it ends may be.
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
"""A token with a known expiry is used again until so much of its life has passed, as librdkafka does."""

TOKEN: Final = re.compile(r"[-_~+/.a-zA-Z0-9]+=*")
EXTENSION_NAME: Final = re.compile(r"[a-zA-Z]+")
EXTENSION_VALUE: Final = re.compile(r"[\x21-\x7e \t\r\n]+")
NAME: Final = "sasl_oauth_token_provider"


class Token:
    """What a provider gave. `expires_at`: seconds since 1970, None where nobody said."""

    def __init__(self, value: str, expires_at: float | None, extensions: Mapping[str, str]) -> None:
        self.value = value
        self.expires_at = expires_at
        self.extensions = extensions

    def __repr__(self) -> str:
        return f"<a token{self.described()}>"

    def described(self) -> str:
        """What can be said of it without giving it away: whose it is and that it has ended, where it is a JWT."""
        claims = _claims(self.value)
        subject = claims.get("sub")
        ends = claims.get("exp", self.expires_at)
        whose = f" of {subject!r}" if isinstance(subject, str) else ""
        ago = time.time() - ends if isinstance(ends, int | float) else -1.0
        return f"{whose}, which expired {ago:.0f} s ago" if ago >= 0 else whose


class TokenSource:
    """See the module. One producer's."""

    def __init__(self, settings: Settings) -> None:
        assert settings.sasl_oauth_token_provider is not None
        config = settings.sasl_oauthbearer_config
        self._provider = settings.sasl_oauth_token_provider.reveal()
        self._config = config.reveal() if config is not None else ""
        self._takes_config = config is not None or _needs_argument(self._provider)
        self._kept: Token | None = None
        self._kept_until = 0.0

    async def token(self) -> Token:
        """A token to show to a broker now. Raises Refusal for what is none, OSError where the provider raised one."""
        if self._kept is not None and time.time() < self._kept_until:
            return self._kept
        asked_at = time.time()
        token = _read(await self._ask())
        if token.expires_at is not None:
            left = token.expires_at - time.time()
            if left <= 0:
                raise _wrong(f"returned a token that expired {-left:.0f} s ago")
            self._kept, self._kept_until = token, asked_at + REUSED_SHARE * left
        return token

    async def _ask(self) -> object:
        call: Callable[[], object] = partial(self._provider, self._config) if self._takes_config else self._provider
        try:
            given = call() if inspect.iscoroutinefunction(self._provider) else await off_loop(call, name="fencepost-token")
            return await given if inspect.isawaitable(given) else given
        except OSError as error:
            # The token's issuer cannot be reached, perhaps: that may pass.
            raise OSError(f"{NAME} raised {type(error).__name__}: {error}") from error
        except Exception as error:
            raise _wrong(f"raised {type(error).__name__}: {error}") from error


def _needs_argument(provider: Callable[..., object]) -> bool:
    try:
        signature = inspect.signature(provider)
        signature.bind()
    except ValueError:
        return False  # it does not say what it takes
    except TypeError:
        return True
    return False


def _read(given: Any) -> Token:
    value, expires_at, _, extensions = (*given, *(None,) * 4)[:4] if isinstance(given, tuple) else (given, None, None, None)
    if not isinstance(value, str):
        raise _wrong(f"returned {type(given).__name__}: the token is a str, alone or first in a tuple")
    if not TOKEN.fullmatch(value):
        raise _wrong("returned a text that is no bearer token: it has characters that none has" if value else "returned an empty text")
    if not (expires_at is None or isinstance(expires_at, int | float)):
        raise _wrong(f"returned an expiry of type {type(expires_at).__name__}: it is seconds since 1970")
    return Token(value, expires_at, _extensions(extensions))


def _extensions(given: Any) -> Mapping[str, str]:
    """Names and values as RFC 7628 has them; `auth` is taken."""
    extensions = given or {}
    if not isinstance(extensions, Mapping):
        raise _wrong(f"returned SASL extensions of type {type(given).__name__}: they are a dictionary")
    for name, value in extensions.items():
        fits = isinstance(name, str) and isinstance(value, str) and EXTENSION_NAME.fullmatch(name) and EXTENSION_VALUE.fullmatch(value)
        if not fits or name == "auth":
            raise _wrong(f"returned a SASL extension {name!r} that cannot be sent")
    return extensions


def _claims(token: str) -> dict[str, Any]:
    """What a JWT says, unverified: for messages only. Nothing for another token."""
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
