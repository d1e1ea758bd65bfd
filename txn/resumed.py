"""`resume`: a prepared transaction in the hands of another process, or of the same one later.

It needs no producer and makes none: no identity is asked for, so that nothing is fenced. Each call opens its own connections and closes
them. It works in any thread; a coroutine would better call it in another one (`asyncio.to_thread`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from producer.config import read_settings
from producer.core.cluster import Address
from producer.core.errors import Misuse
from producer.core.settings import Settings
from txn.errors import CommitOutcomeUnknown
from txn.outcome import PreparedStatus
from txn.resumption import run
from txn.token import BadToken, PreparedTransaction, read_token

__all__ = ["Resumed", "ask_now", "resume"]


def resume(token: PreparedTransaction | str | bytes, bootstrap_servers: str | Sequence[str] | None = None, **settings: Any) -> Resumed:
    """Take up a prepared transaction. `settings` are those of `Producer` that connections need, in either spelling; where
    `bootstrap_servers` is left out, the coordinator of its time is tried. Nothing is asked of anybody before the first call.

    Raises BadToken for a text that is no token.
    """
    found = read_token(token)
    servers = bootstrap_servers or settings.pop("bootstrap.servers", None)
    if servers is None:
        if found.coordinator is None:
            raise BadToken("the token names no coordinator to ask: give bootstrap_servers")
        servers = str(Address(found.coordinator.host, found.coordinator.port))
    return Resumed(found, read_settings({"bootstrap_servers": servers, **settings}))


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
        timeout_s = self._settings.max_block_ms / 1000.0 if timeout is None else timeout
        try:
            return ask_now(lambda: run(self.token, self._settings, timeout_s, committed=committed))
        except CommitOutcomeUnknown as unknown:
            unknown.resolver = lambda limit: _resolve(self, limit, committed=committed)
            raise


def ask_now(ask: Callable[[], Coroutine[Any, Any, PreparedStatus]]) -> PreparedStatus:
    """Run it on a loop of its own, in this thread, or in another one where this has a loop that runs."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(ask())
    with ThreadPoolExecutor(1, thread_name_prefix="fencepost-resume") as pool:
        return pool.submit(lambda: asyncio.run(ask())).result()


def _resolve(resumed: Resumed, timeout: float | None, *, committed: bool | None) -> None:
    """Whether it is committed. Raises what `commit` raises where it is not; an abort that was wanted is not made a commit by asking."""
    if committed is None:
        raise Misuse("a status leaves nothing to be resolved: ask for it again")
    resumed._run(timeout, committed=committed)
