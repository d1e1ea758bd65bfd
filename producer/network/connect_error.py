"""The failure of a connection that retrying with the same settings cannot cure.

Any other failure is another kind of OSError, and the next attempt may succeed.
"""

from __future__ import annotations

from fencepost.producer.errors import NoUsableBroker
from fencepost.producer.foundations.printable import printable


class ConnectError(OSError):
    """`kind`: the error that callers get if no other broker can be used either."""

    def __init__(self, reason: str, *, kind: type[NoUsableBroker] = NoUsableBroker) -> None:
        super().__init__(printable(reason))
        self.kind = kind

    def for_core(self) -> NoUsableBroker:
        """The error as the core keeps it for callers."""
        return self.kind(str(self))
