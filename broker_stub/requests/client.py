"""The client of a request: its principal, its address, and the SASL state of its connection."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from fencepost.broker_stub.security.principal import ANONYMOUS, LOCALHOST

if TYPE_CHECKING:
    from fencepost.broker_stub.security.sasl import SaslState


class Client(NamedTuple):
    """`principal`: as ACLs name it. `sasl_state`: the SASL state, None on a listener without SASL. `follower`: the broker that it is, if it
    is one that replicates."""

    principal: str = ANONYMOUS
    host: str = LOCALHOST
    sasl_state: SaslState | None = None
    follower: int | None = None


LOCAL_CLIENT: Final = Client()
