"""Where a broker listens."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from fencepost.producer.foundations.printable import said

HOST_CHARACTERS_MAX: Final = 255


class Address(Struct, frozen=True):
    """Where a broker listens."""

    host: str
    port: int

    def __str__(self) -> str:
        """host:port, with brackets around an IPv6 literal."""
        host = said(self.host, HOST_CHARACTERS_MAX)
        return f"[{host}]:{self.port}" if ":" in host else f"{host}:{self.port}"
