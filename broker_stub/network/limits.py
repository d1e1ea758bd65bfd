"""Limits that the stub's connections and the proxy's connections share: what they buffer, and how long closing may take."""

from __future__ import annotations

from typing import Final

QUEUED_FRAMES_MAX: Final = 64
QUEUED_BYTES_MAX: Final = 4 * 1024 * 1024
"""A connection stops reading while more requests than these wait in it."""

WRITE_BUFFER_BYTES_MAX: Final = 4 * 1024 * 1024
"""A connection begins no further request while more bytes than these wait to be sent."""

JOINED_BYTES_MAX: Final = 64 * 1024
"""The parts of a response are joined into one write up to this size. Copying more costs more than further writes."""

ACCEPT_BACKLOG: Final = 128

HANDSHAKE_TIMEOUT_S: Final = 10.0
"""How long a client's TLS handshake may take."""

CLOSE_TURNS_MAX: Final = 100
"""How many turns of the event loop closing waits for connections to end."""

CLOSE_TIMEOUT_S: Final = 10.0
