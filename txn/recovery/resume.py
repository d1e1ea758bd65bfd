"""`resume` and `resume_async`: a prepared transaction in another process, or later in the same one.

They make no producer and ask for no identity, so they fence no producer. Each call opens and closes its own connections. The result of
`resume` works in any thread.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, Final, SupportsFloat, TypeVar, Unpack

from fencepost.producer.config.keywords import ProducerOptions
from fencepost.producer.config.reader import read_settings
from fencepost.producer.config.settings import SecurityProtocol, Settings
from fencepost.producer.errors import ConfigError
from fencepost.producer.foundations.address import Address
from fencepost.producer.foundations.timeouts import seconds
from fencepost.txn.errors import CommitOutcomeUnknown
from fencepost.txn.protocol.ask_now import ask_now
from fencepost.txn.recovery.finish import resolve, run
from fencepost.txn.recovery.outcome import PreparedStatus
from fencepost.txn.recovery.token import BadToken, PreparedTransaction, read_token

__all__ = ["AsyncResumed", "Resumed", "resume", "resume_async"]

T = TypeVar("T")


def resume(
    token: PreparedTransaction | str | bytes, bootstrap_servers: str | Sequence[str] | None = None, **settings: Unpack[ProducerOptions]
) -> Resumed:
    """Continue with a prepared transaction. `settings` are those of `Producer` that connections need, in either spelling. Without
    `bootstrap_servers` the token's coordinator is tried, but only over PLAINTEXT. A client that would log in raises ConfigError, because
    the token may be forged. No request is sent before the first call.

    Raises BadToken for a text that is no token.
    """
    return Resumed(*_read(token, bootstrap_servers, settings))


def resume_async(
    token: PreparedTransaction | str | bytes, bootstrap_servers: str | Sequence[str] | None = None, **settings: Unpack[ProducerOptions]
) -> AsyncResumed:
    """`resume`, for asyncio."""
    return AsyncResumed(*_read(token, bootstrap_servers, settings))


class _Prepared:
    """A prepared transaction, and the settings with which it is asked for."""

    def __init__(self, token: PreparedTransaction, settings: Settings) -> None:
        self.token: Final = token
        self._settings: Final = settings

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.token!r})"


class Resumed(_Prepared):
    """A prepared transaction, to end or to ask about. Times are seconds; without a `timeout` it is `max_block_ms`. Any process can make
    each call, any number of times: the answer stays true."""

    def commit(self, timeout: SupportsFloat | None = None) -> PreparedStatus:
        """Commit the transaction. Returns COMMITTED (`already` if it was committed before) or NOTHING_WRITTEN.

        Raises TransactionAborted if it has been aborted, CommitOutcomeUnknown if the outcome cannot be known (its `resolve` asks again),
        and TransactionTimeout if nothing was decided in time. BadToken: the token is of another cluster.
        """
        return self._call(run, timeout, committed=True)

    def abort(self, timeout: SupportsFloat | None = None) -> PreparedStatus:
        """Abort the transaction. Returns ABORTED or NOTHING_WRITTEN. Raises TransactionCommitted if it has been committed, and otherwise
        what `commit` raises. After CommitOutcomeUnknown, `resolve` goes on aborting, and raises TransactionAborted when that is done."""
        return self._call(run, timeout, committed=False)

    def status(self, timeout: SupportsFloat | None = None) -> PreparedStatus:
        """The outcome, with its evidence; this call changes nothing. UNKNOWN without evidence, and `why` says what is missing."""
        return self._call(run, timeout, committed=None)

    def _call(self, ask: Callable[..., Coroutine[Any, Any, T]], timeout: SupportsFloat | None, *, committed: bool | None) -> T:
        timeout_s = _seconds(self._settings, timeout)
        try:
            return ask_now(lambda: ask(self.token, self._settings, timeout_s, committed=committed))
        except CommitOutcomeUnknown as unknown:
            unknown.resolver = lambda limit: self._call(resolve, limit, committed=committed)
            raise


class AsyncResumed(_Prepared):
    """`Resumed` for asyncio. A cancelled call may have been carried out: ask again."""

    async def commit(self, timeout: SupportsFloat | None = None) -> PreparedStatus:
        """`Resumed.commit`."""
        return await self._call(run, timeout, committed=True)

    async def abort(self, timeout: SupportsFloat | None = None) -> PreparedStatus:
        """`Resumed.abort`."""
        return await self._call(run, timeout, committed=False)

    async def status(self, timeout: SupportsFloat | None = None) -> PreparedStatus:
        """`Resumed.status`."""
        return await self._call(run, timeout, committed=None)

    async def _call(self, ask: Callable[..., Coroutine[Any, Any, T]], timeout: SupportsFloat | None, *, committed: bool | None) -> T:
        try:
            return await ask(self.token, self._settings, _seconds(self._settings, timeout), committed=committed)
        except CommitOutcomeUnknown as unknown:
            unknown.resolver = lambda limit: self._call(resolve, limit, committed=committed)
            raise


def _seconds(settings: Settings, timeout: SupportsFloat | None) -> float:
    return seconds(timeout, settings.max_block_ms / 1000.0)


def settings_for(token: PreparedTransaction, servers: str | Sequence[str] | None, given: Mapping[str, Any]) -> Settings:
    """The settings to reach the token's cluster. Raises ConfigError if they would send credentials to the coordinator that the token names:
    a forged token could name any address."""
    if servers is not None:
        return read_settings({"bootstrap_servers": servers, **given})
    if token.coordinator is None:
        raise BadToken("the token names no coordinator to ask: give bootstrap_servers")
    hint = Address(token.coordinator.host, token.coordinator.port)
    settings = read_settings({"bootstrap_servers": str(hint), **given})
    if settings.security_protocol is not SecurityProtocol.PLAINTEXT:
        raise ConfigError(
            f"bootstrap_servers (--bootstrap) is missing, and security_protocol is {settings.security_protocol.value}: the token names "
            f"{hint} as its coordinator, but a token may be forged, so this client does not log in there; give brokers that you trust"
        )
    return settings


def _read(
    token: PreparedTransaction | str | bytes, servers: str | Sequence[str] | None, given: Mapping[str, object]
) -> tuple[PreparedTransaction, Settings]:
    """The token, and the settings to reach its cluster."""
    found = read_token(token)
    rest: dict[str, Any] = dict(given)
    return found, settings_for(found, servers or rest.pop("bootstrap.servers", None), rest)
