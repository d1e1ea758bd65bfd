"""The program's token provider for a client of librdkafka, as its `oauth_cb`.

Librdkafka wants a token with an expiry from a function with one argument. Our providers may have no argument, tell no expiry, or be async.
"""

from __future__ import annotations

import asyncio
import logging
import time
from functools import partial
from threading import Thread
from typing import Final

from fencepost.producer.config.settings import Settings
from fencepost.producer.errors import AuthenticationFailed
from fencepost.producer.network.oauth_tokens import NAME, Token, TokenSource

UNTOLD_S: Final = 60.0
"""How long librdkafka keeps a token whose provider does not tell its expiry."""

log = logging.getLogger("fencepost.producer")


class OauthCallback:
    """For settings with a `sasl_oauth_token_provider`. Librdkafka calls it on the thread that polls, or that makes the client."""

    def __init__(self, settings: Settings) -> None:
        self._source = TokenSource(settings)
        self._limit_s = settings.request_timeout_ms / 1000.0

    def __call__(self, _: str = "") -> tuple[str, float, str, dict[str, str]]:
        try:
            token = self._token()
        except Exception as error:
            log.warning("a client of librdkafka gets no token: %s", error)  # It says no more than that the function raised.
            raise
        expires_at = token.expires_at if token.expires_at is not None else time.time() + UNTOLD_S
        return token.value, expires_at, "", dict(token.extensions)

    def prepare(self) -> None:
        """Raise AuthenticationFailed if there is no token now. A client whose first token fails raises what says nothing of it."""
        try:
            self._token()
        except OSError as error:
            raise AuthenticationFailed(str(error)) from error

    def _token(self) -> Token:
        """In a thread of its own, because this one may run a loop."""
        found: list[Token | Exception] = []
        thread = Thread(target=partial(_ask, self._source, found), name="fencepost-token", daemon=True)
        thread.start()
        thread.join(self._limit_s)
        outcome = found[0] if found else TimeoutError(f"{NAME} returned nothing within {self._limit_s:g} s (request_timeout_ms)")
        if isinstance(outcome, Exception):
            raise outcome
        return outcome


def _ask(source: TokenSource, found: list[Token | Exception]) -> None:
    try:
        found.append(asyncio.run(source.token()))
    except Exception as error:  # noqa: BLE001 - the outermost frame of a thread: the caller gets the error
        found.append(error)
