"""Accepts the connections of clients to a cluster's brokers, below their sockets.

Each connection gets a number and, where the listeners have SASL, its SASL state. A broker that is down refuses connections.
"""

from __future__ import annotations

import random
from itertools import count
from typing import TYPE_CHECKING, Final

from fencepost.broker_stub.requests.dispatcher import Dispatcher
from fencepost.broker_stub.security.principal import ANONYMOUS, LOCALHOST
from fencepost.broker_stub.socket_server.client_connection import ClientConnection, Wire

if TYPE_CHECKING:
    from fencepost.broker_stub.security.sasl import Sasl, SaslState


REAUTH: Final = "connections.max.reauth.ms"


class Acceptor:
    """For every broker of a cluster. `seed` decides the nonces of SCRAM."""

    def __init__(self, dispatcher: Dispatcher, *, sasl: Sasl | None = None, seed: int = 0) -> None:
        self.cluster = dispatcher.cluster
        self.sasl = sasl
        self._session_lifetime_ms = int(self.cluster.config[REAUTH])
        if sasl is not None:
            self.cluster.scram_credentials.passwords = sasl.users
            if sasl.session_lifetime_ms and self._session_lifetime_ms:
                raise ValueError(
                    f"session_lifetime_ms={sasl.session_lifetime_ms} and {REAUTH}={self._session_lifetime_ms} are the same setting: "
                    "give one of them"
                )
        self._dispatcher = dispatcher
        self._ids = count(1)
        self._nonces = random.Random(f"{seed} nonces")  # a generator of its own, so that connections change no id

    def connect(
        self, node_id: int, wire: Wire, *, principal: str = ANONYMOUS, host: str = LOCALHOST, port: int | None = None
    ) -> ClientConnection:
        """A new connection to that broker. ConnectionRefusedError while it is down. `principal`: of the connection, unless SASL
        authenticates it. `host` and `port`: the client's address."""
        broker = self.cluster.brokers[node_id]
        if not broker.alive:
            raise ConnectionRefusedError(f"broker {node_id} is down")
        connection = ClientConnection(
            self._dispatcher, broker, next(self._ids), wire, principal=principal, host=host, port=port, sasl_state=self._sasl_state()
        )
        broker.connections.add(connection)
        self.cluster.counters.connections += 1
        return connection

    def _sasl_state(self) -> SaslState | None:
        """The SASL state of a new connection. None on listeners without SASL."""
        if self.sasl is None:
            return None
        from fencepost.broker_stub.security.sasl import SaslState

        return SaslState(self.sasl, self.cluster.scram_credentials, nonce=self._nonce, session_lifetime_ms=self._session_lifetime_ms)

    def _nonce(self) -> str:
        return f"{self._nonces.getrandbits(128):032x}"
