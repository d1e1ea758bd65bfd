"""`resume` and `resume_async`: a prepared transaction in the hands of another process, or of the same one later.

They need no producer and make none: no identity is asked for, so that nothing is fenced. Each call opens its own connections and closes
them. What `resume` returns works in any thread.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, Final, TypeVar, Unpack

from fencepost.producer.address import Address
from fencepost.producer.config.keywords import ProducerOptions
from fencepost.producer.config.settings import SecurityProtocol, Settings
from fencepost.producer.errors import ConfigError, Misuse
from fencepost.producer.settings_reader import read_settings
from fencepost.producer.timeouts import seconds
from fencepost.txn.errors import CommitOutcomeUnknown
from fencepost.txn.foundations.call_outcome import CallOutcome
from fencepost.txn.recovery.finish import run
from fencepost.txn.recovery.outcome import PreparedStatus
from fencepost.txn.recovery.token import BadToken, PreparedTransaction, read_token

__all__ = ["AsyncResumed", "Resumed", "ask_now", "resume", "resume_async"]

T = TypeVar("T")


def resume(
    token: PreparedTransaction | str | bytes, bootstrap_servers: str | Sequence[str] | None = None, **settings: Unpack[ProducerOptions]
) -> Resumed:
    """Take up a prepared transaction. `settings` are those of `Producer` that connections need, in either spelling; where
    `bootstrap_servers` is left out, the coordinator of its time is tried, unless that needs more than an open door: the token names it, and
    nobody's word is enough to log in there (ConfigError). Nothing is asked of anybody before the first call.

    Raises BadToken for a text that is no token.
    """
    return Resumed(*_read(token, bootstrap_servers, settings))


def resume_async(
    token: PreparedTransaction | str | bytes, bootstrap_servers: str | Sequence[str] | None = None, **settings: Unpack[ProducerOptions]
) -> AsyncResumed:
    """`resume`, with calls to be awaited."""
    return AsyncResumed(*_read(token, bootstrap_servers, settings))


class Resumed:
    """A prepared transaction, to be ended or asked about. Seconds everywhere; where a `timeout` is left out it is `max_block_ms`. Every
    call can be made again, by anybody, as often as one likes: the answer stays true."""

    def __init__(self, token: PreparedTransaction, settings: Settings) -> None:
        self.token: Final = token
        self._settings: Final = settings

    def commit(self, timeout: float | None = None) -> PreparedStatus:
        """Have the coordinator commit it. Returns COMMITTED, `already` where it had been, or NOTHING_WRITTEN.

        Raises TransactionAborted where it has been aborted, CommitOutcomeUnknown where nobody can tell (`resolve` asks once more), and
        TransactionTimeout where nothing was decided in time. BadToken: it is of another cluster.
        """
        return self._run(timeout, committed=True)

    def abort(self, timeout: float | None = None) -> PreparedStatus:
        """Have the coordinator abort it. Returns ABORTED or NOTHING_WRITTEN; raises TransactionCommitted where it has been committed, and
        otherwise what `commit` does."""
        return self._run(timeout, committed=False)

    def status(self, timeout: float | None = None) -> PreparedStatus:
        """What has become of it, with the evidence; it changes nothing. UNKNOWN where there is none, and `why` says what is missing."""
        return self._run(timeout, committed=None)

    def _run(self, timeout: float | None, *, committed: bool | None) -> PreparedStatus:
        timeout_s = _seconds(self._settings, timeout)
        try:
            return ask_now(lambda: run(self.token, self._settings, timeout_s, committed=committed))
        except CommitOutcomeUnknown as unknown:
            unknown.resolver = lambda limit: _resolve(self, limit, committed=committed)
            raise


class AsyncResumed:
    """`Resumed`, on the loop that calls. A call that is cancelled may have been carried out: ask again."""

    def __init__(self, token: PreparedTransaction, settings: Settings) -> None:
        self.token: Final = token
        self._settings: Final = settings

    async def commit(self, timeout: float | None = None) -> PreparedStatus:
        """`Resumed.commit`."""
        return await self._run(timeout, committed=True)

    async def abort(self, timeout: float | None = None) -> PreparedStatus:
        """`Resumed.abort`."""
        return await self._run(timeout, committed=False)

    async def status(self, timeout: float | None = None) -> PreparedStatus:
        """`Resumed.status`."""
        return await self._run(timeout, committed=None)

    async def _run(self, timeout: float | None, *, committed: bool | None) -> PreparedStatus:
        try:
            return await run(self.token, self._settings, _seconds(self._settings, timeout), committed=committed)
        except CommitOutcomeUnknown as unknown:
            unknown.resolver = lambda limit: self._run(limit, committed=committed)
            raise


def ask_now(ask: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run it on a loop of its own, in this thread, or in another one where this has a loop that runs. Where Ctrl-C interrupts that wait,
    the other thread ends with the time that it has."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(ask())
    came: CallOutcome[T] = CallOutcome()

    def run_aside() -> None:
        try:
            came.set_result(asyncio.run(ask()))
        except BaseException as error:  # noqa: BLE001 - for whoever waits
            came.set_error(error)

    threading.Thread(target=run_aside, name="fencepost-resume", daemon=True).start()
    return came.result(threading.TIMEOUT_MAX)


def _resolve(resumed: Resumed, timeout: float | None, *, committed: bool | None) -> None:
    """Whether it is committed. Raises what `commit` raises where it is not; an abort that was wanted is not made a commit by asking."""
    if committed is None:
        raise Misuse("a status leaves nothing to be resolved: ask for it again")
    resumed._run(timeout, committed=committed)


def _seconds(settings: Settings, timeout: float | None) -> float:
    return seconds(timeout, settings.max_block_ms / 1000.0)


def settings_for(token: PreparedTransaction, servers: str | Sequence[str] | None, given: Mapping[str, Any]) -> Settings:
    """How its cluster is reached. Raises ConfigError where that would show a stranger who this client is: the coordinator that a token
    names is a text like the rest of it, and whoever made the token up has put it there."""
    if servers is not None:
        return read_settings({"bootstrap_servers": servers, **given})
    if token.coordinator is None:
        raise BadToken("the token names no coordinator to ask: give bootstrap_servers")
    hint = Address(token.coordinator.host, token.coordinator.port)
    settings = read_settings({"bootstrap_servers": str(hint), **given})
    if settings.security_protocol is not SecurityProtocol.PLAINTEXT:
        raise ConfigError(
            f"bootstrap_servers (--bootstrap) is missing, and security_protocol is {settings.security_protocol.value}: {hint}, which the "
            "token names as its coordinator, is a hint that anybody may have written, and nobody logs in there; give brokers that you trust"
        )
    return settings


def _read(
    token: PreparedTransaction | str | bytes, servers: str | Sequence[str] | None, given: Mapping[str, object]
) -> tuple[PreparedTransaction, Settings]:
    """The token, and how its cluster is reached."""
    found = read_token(token)
    rest: dict[str, Any] = dict(given)
    return found, settings_for(found, servers or rest.pop("bootstrap.servers", None), rest)
