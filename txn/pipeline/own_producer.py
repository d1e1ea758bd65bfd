"""The pipeline's transactional producer, and what replaces it after an error that ended it."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable
from typing import Any

from fencepost.producer.errors import Fatal, Fenced, FencepostError, Misuse, ProducerClosed
from fencepost.txn.errors import CommitOutcomeUnknown, IdentityLost
from fencepost.txn.pipeline.batch import Batch
from fencepost.txn.pipeline.calls import Calls
from fencepost.txn.pipeline.errors import PipelineFailed
from fencepost.txn.pipeline.patience import Patience
from fencepost.txn.pipeline.settings import PipelineSettings

log = logging.getLogger("fencepost.pipeline")

MakeProducer = Callable[[dict[str, Any]], Any]


class OwnProducer:
    """See the module. `make`: makes the transactional producer with these settings."""

    def __init__(
        self, settings: PipelineSettings, own: dict[str, Any], name: str, calls: Calls, patience: Patience, make: MakeProducer
    ) -> None:
        self._settings = settings
        self._own = own
        self._name = name
        self._calls = calls
        self._patience = patience
        self._make = make
        self._producer: Any = None

    @property
    def record_limit(self) -> tuple[int, str]:
        """The bytes that a record may take, and the setting that says so."""
        limit: tuple[int, str] = self._producer._inner.record_limit
        return limit

    async def register(self) -> None:
        """Make a producer, and register its transactional id. That aborts what a killed run left open."""
        self._producer = self._make(self._own)
        await self._patience.insist(self._producer.init, self._settings.call_s)

    async def find(self, topic: str) -> None:
        """Wait until the topic is there."""
        await self._patience.insist(self._producer.partitions_for, topic, self._settings.call_s)

    async def begin(self) -> Batch:
        """Begin a transaction. If the producer has ended meanwhile, it is replaced once."""
        try:
            transaction = await self._begun()
        except (Fatal, ProducerClosed) as error:
            await self.replace(error)
            transaction = await self._begun()
        now = time.monotonic()
        return Batch(transaction, now, now + self._settings.batch_ms / 1000.0)

    async def _begun(self) -> Any:
        return await self._patience.insist(self._producer.begin, self._settings.call_s)

    async def give_back(self, batch: Batch) -> None:
        """Abort the transaction. A producer that cannot is replaced."""
        try:
            await self._patience.insist(batch.transaction.abort, self._settings.call_s)
        except CommitOutcomeUnknown:
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
            raise PipelineFailed(f"the producer cannot continue: {error}") from error
        if isinstance(error, Fenced) and await self._is_replaced():
            raise Fenced(
                f"another pipeline uses transactional id {self._own['transactional_id']!r}: give each process its own instance. Nothing of"
                f" the open batch is visible ({error})"
            ) from error
        log.warning("%s: a new producer after: %s", self._name, error)
        with contextlib.suppress(FencepostError):
            await self._calls.call(self._producer.close, 0.0)
        await self.register()

    async def _is_replaced(self) -> bool:
        try:
            found: bool = await self._patience.insist(self._producer.replaced, self._settings.call_s)
        except FencepostError as error:
            log.warning("%s: not known whether another process has the transactional id: %s", self._name, error)
            return True
        return found

    async def close(self, timeout_s: float) -> None:
        """Close the producer, if there is one."""
        if self._producer is not None:
            await self._calls.call(self._producer.close, timeout_s)
