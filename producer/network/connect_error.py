"""Why a connection failed, if another attempt with the same settings fails, too.

Every other failure of a connection is another kind of OSError, and may pass.
"""

from __future__ import annotations

from fencepost.producer.errors import NoUsableBroker
from fencepost.producer.foundations.printable import printable


class ConnectError(OSError):
    """`kind`: the error that callers get if no other broker can be used either."""

    def __init__(self, reason: str, *, kind: type[NoUsableBroker] = NoUsableBroker) -> None:
        super().__init__(printable(reason))
        self.kind = kind

    def verdict(self) -> NoUsableBroker:
        """The same for the core."""
        return self.kind(str(self))
