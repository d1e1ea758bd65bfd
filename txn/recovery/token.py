"""The token of a prepared transaction: all that another process needs to end it, as one line of JSON.

It contains no secret, and an address only as a hint. The process that ends the transaction needs the same permissions as its producer. A
text of another format, with missing or additional fields, or with values that no broker gives, is refused with BadToken.
"""

from __future__ import annotations

from typing import Annotated, Final, Self

from msgspec import Meta, Struct

from fencepost.producer.errors import Misuse
from fencepost.txn.foundations.versioned_json import Format

__all__ = ["FORMAT", "BadToken", "CoordinatorHint", "PreparedTransaction", "WrittenPartition", "read_token"]

FORMAT: Final = 1
"""The text's format. A change of a field's meaning, or a new field, changes this number."""

Offset = Annotated[int, Meta(ge=0, le=(1 << 63) - 1)]
Text = Annotated[str, Meta(min_length=1)]


class BadToken(Misuse, ValueError):
    """The text is no token that is valid here: no token at all, of another format, or of another cluster."""


_TEXT: Final = Format(FORMAT, "token", BadToken)


class CoordinatorHint(Struct, frozen=True, forbid_unknown_fields=True):
    """The transaction's coordinator when it was prepared. It may have moved."""

    node: int
    host: str
    port: Annotated[int, Meta(ge=0, le=65_535)]


class WrittenPartition(Struct, frozen=True, forbid_unknown_fields=True):
    """A partition that the transaction wrote to, and the offset of its first record there; None if the broker did not tell it."""

    topic: Text
    partition: Annotated[int, Meta(ge=0, le=(1 << 31) - 1)]
    offset: Offset | None


class PreparedTransaction(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A prepared transaction, which any process can end: `resume(token, bootstrap_servers=...)`.

    `str(token)`, or `dumps`, is one line of JSON; `loads` reads it. `transaction_version`: 1 or 2 (KIP-890), as it was written. `wrote`:
    whether there is anything to end. `started_ms`, `deadline_ms`: milliseconds since 1970 by the coordinator's clock; at the deadline it
    aborts the transaction. They are None if nothing was written; the deadline is None if the coordinator never aborts it (KIP-939).
    `groups`: the groups whose offsets are part of it.
    """

    transactional_id: Text
    producer_id: Offset
    producer_epoch: Annotated[int, Meta(ge=0, le=32_767)]
    transaction_version: Annotated[int, Meta(ge=1, le=2)]
    cluster_id: str | None
    wrote: bool
    started_ms: int | None = None
    deadline_ms: int | None = None
    coordinator: CoordinatorHint | None = None
    partitions: tuple[WrittenPartition, ...] = ()
    groups: tuple[str, ...] = ()

    def dumps(self) -> str:
        """One line of JSON."""
        return _TEXT.dumps(self).decode()

    def __str__(self) -> str:
        return self.dumps()

    @classmethod
    def loads(cls, text: str | bytes) -> Self:
        """Read what `dumps` wrote. Raises BadToken."""
        return _TEXT.loads(cls, text)

    @property
    def identity(self) -> tuple[int, int]:
        """Producer id and epoch."""
        return self.producer_id, self.producer_epoch


def read_token(given: object) -> PreparedTransaction:
    """A token, given as such or as its text. Raises BadToken."""
    if isinstance(given, PreparedTransaction):
        return given
    if isinstance(given, str | bytes | bytearray | memoryview):
        return PreparedTransaction.loads(bytes(given) if not isinstance(given, str) else given)
    raise BadToken(f"a token is a PreparedTransaction, or its text, not {type(given).__name__}")
