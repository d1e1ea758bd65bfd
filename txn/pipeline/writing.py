"""Writes what messages became into the open transaction; a message that cannot be processed becomes a dead letter, or ends the pipeline."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from fencepost.producer.base_producer import check_topic
from fencepost.producer.bulk.rows import check_rows
from fencepost.producer.errors import Retriable
from fencepost.txn.errors import MustAbort
from fencepost.txn.loop.attempts import Failed
from fencepost.txn.loop.calls import Calls
from fencepost.txn.loop.routing import Rows
from fencepost.txn.pipeline.applying import Piece, Transform
from fencepost.txn.pipeline.batch import Batch, offset_of, tp_of
from fencepost.txn.pipeline.dead_letters import dead_letter, poison
from fencepost.txn.pipeline.errors import PoisonMessage
from fencepost.txn.pipeline.settings import PipelineSettings

if TYPE_CHECKING:
    from confluent_kafka import Message

log = logging.getLogger("fencepost.pipeline")

REFUSED: Final = (TypeError, ValueError)
"""What `send_many` raises for rows that cannot be records, before it accepts any row of the list."""


class Writer:
    """See the module. `poison`: the message that ends the pipeline; nothing is written after it. `suspect`: told of messages of which one
    makes a record that the producer refuses."""

    def __init__(
        self,
        settings: PipelineSettings,
        name: str,
        calls: Calls,
        transform: Transform,
        record_limit: Callable[[], tuple[int, str]],
        suspect: Callable[[list[Message], Exception], None],
    ) -> None:
        self.poison: PoisonMessage | None = None
        self._settings = settings
        self._name = name
        self._calls = calls
        self._transform = transform
        self._record_limit = record_limit
        self._suspect = suspect

    async def write(self, batch: Batch, piece: Piece) -> int:
        """Send what a piece became; the number of messages that are done with."""
        if self.poison is not None:
            return 0
        if piece.failed is not None:
            return await self._bury(batch, piece.messages[0], piece.failed)
        sent = False
        try:
            if len(piece.rows) > 1:
                self._check(piece.rows)
            for topic, rows in piece.rows.items():
                await self._calls.call(batch.transaction.send_many, topic, rows)
                sent = True
        except REFUSED as error:
            if isinstance(error, Retriable):
                raise
            if sent:  # The check has not found it. What is sent would be sent again.
                self._suspect(piece.messages, error)
                raise MustAbort(f"a record was refused after others of the same messages were sent: {error}") from error
            if len(piece.messages) == 1:
                return await self._bury(batch, piece.messages[0], Failed(error, 1))
            return sum([await self.write(batch, each) for each in await self._transform.split(piece)])
        batch.written += sum(map(len, piece.rows.values()))
        return len(piece.messages)

    def _check(self, rows: Rows) -> None:
        """Raise for a row that cannot be sent, before rows of another topic are sent."""
        largest, setting = self._record_limit()
        for topic, listed in rows.items():
            check_topic(topic)
            check_rows(list(listed), 0, largest, setting)

    async def _bury(self, batch: Batch, message: Message, failed: Failed) -> int:
        """A message that cannot be processed becomes a dead letter, or ends the pipeline after the commit of what came before it."""
        topic = self._settings.dead_letters
        if topic is None:
            self.poison = poison(message, failed)
            return 0
        largest, _ = self._record_limit()
        row = dead_letter(message, failed, group=self._settings.group, largest=largest)
        try:
            await self._calls.call(batch.transaction.send_many, topic, [row])
        except REFUSED as error:
            if isinstance(error, Retriable):
                raise
            self.poison = poison(message, Failed(error, failed.attempts))
            return 0
        batch.dead += 1
        log.info("%s: dead letter for %s-%d, offset %d: %s", self._name, *tp_of(message), offset_of(message), failed.reason)
        return 1
