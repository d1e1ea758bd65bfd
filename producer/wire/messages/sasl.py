"""SaslHandshake and SaslAuthenticate: authentication (KIP-43, KIP-152), and the lifetime of a session (KIP-368).

The mechanism defines the bytes of the exchange. They never appear in a `repr`, because with PLAIN they contain the password.
"""

from __future__ import annotations

from typing import Annotated

from fencepost.producer.wire.codes import Api
from fencepost.producer.wire.message import Message
from fencepost.producer.wire.schema.fields import NEVER, i16, i64, ignorable, since


class SaslHandshakeRequest(Message):
    """A client names the mechanism that it wants to use. After version 0 it sends bare tokens, later SaslAuthenticate requests."""

    api = Api.SASL_HANDSHAKE
    versions = range(2)
    flexible = NEVER
    is_request = True

    mechanism: str = ""


class SaslHandshakeResponse(Message):
    """The broker answers whether it has that mechanism, and which mechanisms it has."""

    api = Api.SASL_HANDSHAKE
    versions = range(2)
    flexible = NEVER
    is_request = False

    error_code: i16 = 0
    mechanisms: list[str] = []


class SaslAuthenticateRequest(Message):
    """The client sends its next bytes of the exchange. From version 1 on it can authenticate again on the same connection."""

    api = Api.SASL_AUTHENTICATE
    versions = range(3)
    flexible = 2
    is_request = True

    auth_bytes: bytes = b""

    def __repr__(self) -> str:
        return f"SaslAuthenticateRequest(auth_bytes=<{len(self.auth_bytes)} bytes>)"


class SaslAuthenticateResponse(Message):
    """The broker answers with its next bytes. The last response has the session's lifetime in milliseconds; 0 means no limit.

    After that lifetime the broker closes the connection, unless the client authenticates again.
    """

    api = Api.SASL_AUTHENTICATE
    versions = range(3)
    flexible = 2
    is_request = False

    error_code: i16 = 0
    error_message: str | None = ""
    auth_bytes: bytes = b""
    session_lifetime_ms: Annotated[i64, since(1), ignorable] = 0

    def __repr__(self) -> str:
        said = f"error_code={self.error_code}, error_message={self.error_message!r}, session_lifetime_ms={self.session_lifetime_ms}"
        return f"SaslAuthenticateResponse({said}, auth_bytes=<{len(self.auth_bytes)} bytes>)"
