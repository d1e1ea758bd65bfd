"""Commits a batch: the group's offsets, then the transaction. Meanwhile the pipeline reads and transforms what comes next."""

from __future__ import annotations

import logging
from typing import Final

from fencepost.producer.errors import FencepostError
from fencepost.txn.errors import CommitOutcomeUnknown
from fencepost.txn.loop.calls import Calls, Running
from fencepost.txn.loop.outcomes import find_out
from fencepost.txn.loop.patience import Patience
from fencepost.txn.pipeline.batch import Batch
from fencepost.txn.pipeline.errors import PipelineFailed
from fencepost.txn.pipeline.settings import PipelineSettings

log = logging.getLogger("fencepost.pipeline")


class Commit:
    """The commit of one batch, which is under way from the start. `group`: the member's metadata when the batch was full."""

    def __init__(self, batch: Batch, group: bytes, settings: PipelineSettings, name: str, calls: Calls, patience: Patience) -> None:
        self.batch: Final = batch
        self._settings = settings
        self._name = name
        self._calls = calls
        self._patience = patience
        self.running: Final[Running[FencepostError | None]] = calls.start(self._run(group))

    async def _run(self, group: bytes) -> FencepostError | None:
        """Why the batch is not committed, or None if it is. Raises PipelineFailed if that stays unknown."""
        batch, limit_s = self.batch, self._settings.call_s
        try:
            if batch.next:
                await self._patience.insist(batch.transaction.send_offsets, batch.next, group, limit_s=limit_s)
            await self._patience.insist(batch.transaction.commit, limit_s=limit_s)
        except CommitOutcomeUnknown as unknown:
            return await self._find_out(unknown)
        except FencepostError as error:
            return error
        return None

    async def _find_out(self, unknown: CommitOutcomeUnknown) -> FencepostError | None:
        settings = self._settings
        try:
            return await find_out(unknown, settings.aborts_max, settings.call_s, self._calls, self._patience, log, self._name)
        except CommitOutcomeUnknown as still:
            raise PipelineFailed(
                f"the outcome of a commit stays unknown: {still}. Start again: the group's offsets then tell what is processed"
            ) from still
