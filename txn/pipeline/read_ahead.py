"""What is transformed and not written yet: the results wait for the transaction before theirs to be committed."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from fencepost.txn.pipeline.applying import Piece

if TYPE_CHECKING:
    from confluent_kafka import Message


class ReadAhead:
    """See the module. `count`: the messages. `ends_at`: when the transaction that gets them is to be committed, `batch_s` seconds after the
    first of them was taken."""

    def __init__(self, batch_s: float) -> None:
        self.count = 0
        self.ends_at = 0.0
        self._batch_s = batch_s
        self._waiting: deque[tuple[list[Message], list[Piece]]] = deque()

    def add(self, messages: list[Message], pieces: list[Piece], began: float) -> None:
        """These messages became these pieces; `began`: when they were taken."""
        if not self._waiting:
            self.ends_at = began + self._batch_s
        self._waiting.append((messages, pieces))
        self.count += len(messages)

    def first(self) -> tuple[list[Message], list[Piece]]:
        """What is written next. It stays until it is `done`."""
        return self._waiting[0]

    def done(self) -> None:
        """The first is written."""
        messages, _ = self._waiting.popleft()
        self.count -= len(messages)

    def messages(self) -> list[Message]:
        """All of them, in their order."""
        return [message for taken, _ in self._waiting for message in taken]

    def drop(self) -> list[Message]:
        """Forget all results, and return their messages."""
        messages = self.messages()
        self.clear()
        return messages

    def clear(self) -> None:
        self._waiting.clear()
        self.count = 0
