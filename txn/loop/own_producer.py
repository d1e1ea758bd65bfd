"""The transactional producer of a pipeline or a job, and what replaces it after an error that ended it."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Coroutine
from typing import Any

from fencepost.producer.errors import Fatal, Fenced, FencepostError, Misuse, ProducerClosed
from fencepost.txn.errors import IdentityLost
from fencepost.txn.loop.calls import Calls
from fencepost.txn.loop.patience import Patience
from fencepost.txn.producer_access import record_limit

MakeProducer = Callable[[dict[str, Any]], Any]


class OwnProducer:
    """See the module. `make`: makes the producer with these settings. `own`: the settings. `failed`: the error when no producer helps.
    `taken_over`: what another process does that has the transactional id now. `registered`: runs after each registration."""

    def __init__(
        self,
        make: MakeProducer,
        own: dict[str, Any],
        call_s: float,
        calls: Calls,
        patience: Patience,
        *,
        log: logging.Logger,
        name: str,
        failed: type[FencepostError],
        taken_over: str,
        registered: Callable[[], Coroutine[Any, Any, None]] | None = None,
    ) -> None:
        self._make = make
        self._own = own
        self._call_s = call_s
        self._calls = calls
        self._patience = patience
        self._log = log
        self._name = name
        self._failed = failed
        self._taken_over = taken_over
        self._registered = registered
        self._producer: Any = None

    @property
    def is_made(self) -> bool:
        """Whether there is a producer."""
        return self._producer is not None

    @property
    def record_limit(self) -> tuple[int, str]:
        """The bytes that a record may take, and the setting that says so."""
        return record_limit(self._producer)

    async def register(self) -> None:
        """Make a producer, and register its transactional id. That aborts what an earlier process left open."""
        self._producer = self._make(self._own)
        await self._patience.insist(self._producer.init, limit_s=self._call_s)
        if self._registered is not None:
            await self._registered()

    async def find(self, topic: str) -> None:
        """Wait until the topic is there."""
        await self._patience.insist(self._producer.partitions_for, topic, limit_s=self._call_s)

    async def begin(self) -> Any:
        """Begin a transaction."""
        return await self._patience.insist(self._producer.begin, limit_s=self._call_s)

    async def give_back(self, transaction: Any, *, but: tuple[type[FencepostError], ...] = ()) -> None:
        """Abort the transaction. A producer that cannot is replaced, `but` not after these errors."""
        try:
            await self._patience.insist(transaction.abort, limit_s=self._call_s)
        except but:
            raise
        except FencepostError as error:
            if self._patience.is_over:
                raise
            await self.replace(error)

    async def replace(self, error: FencepostError) -> None:
        """Make a new producer after an error that ended the old one, unless another process took its transactional id over."""
        if isinstance(error, Misuse) and not isinstance(error, ProducerClosed):
            raise error
        if isinstance(error, Fatal) and not isinstance(error, Fenced | IdentityLost):
            raise self._failed(f"the producer cannot continue: {error}") from error
        if isinstance(error, Fenced) and await self._is_replaced():
            raise Fenced(f"{self._taken_over} ({error})") from error
        self._log.warning("%s: a new producer after: %s", self._name, error)
        with contextlib.suppress(FencepostError):
            await self._calls.call(self._producer.close, 0.0)
        await self.register()

    async def _is_replaced(self) -> bool:
        try:
            found: bool = await self._patience.insist(self._producer.replaced, limit_s=self._call_s)
        except FencepostError as error:
            self._log.warning("%s: not known whether another process has the transactional id: %s", self._name, error)
            return True
        return found

    async def close(self, timeout_s: float) -> None:
        """Close the producer, if there is one."""
        if self._producer is not None:
            await self._calls.call(self._producer.close, timeout_s)
