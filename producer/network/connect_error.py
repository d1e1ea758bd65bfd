"""Why a connection was not made, where the same settings would come to the same end once more.

Everything else that can happen to a connection is an OSError of another kind, and worth another attempt.
"""

from __future__ import annotations

from fencepost.producer.errors import NoUsableBroker
from fencepost.producer.foundations.printable import printable


class ConnectError(OSError):
    """`kind`: as what callers are told of it, when no other broker can be used either."""

    def __init__(self, reason: str, *, kind: type[NoUsableBroker] = NoUsableBroker) -> None:
        super().__init__(printable(reason))
        self.kind = kind

    def verdict(self) -> NoUsableBroker:
        """The same for the core."""
        return self.kind(str(self))
