"""The client of a request: its principal, its address, its software, and the SASL state of its connection."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from fencepost.broker_stub.security.principal import ANONYMOUS, LOCALHOST

if TYPE_CHECKING:
    from fencepost.broker_stub.security.sasl import SaslState


class Software:
    """What a connection's ApiVersions said about its client (KIP-511)."""

    __slots__ = ("name", "version")

    def __init__(self) -> None:
        self.name = self.version = "unknown"


class Client(NamedTuple):
    """`principal`: as ACLs name it. `sasl_state`: the SASL state, None on a listener without SASL. `follower`: the broker that it is, if it
    is one that replicates. `port`: of its end of the connection. `software`: that of its connection, None without one."""

    principal: str = ANONYMOUS
    host: str = LOCALHOST
    sasl_state: SaslState | None = None
    follower: int | None = None
    port: int | None = None
    software: Software | None = None


LOCAL_CLIENT: Final = Client()
UNKNOWN_SOFTWARE: Final = Software()
