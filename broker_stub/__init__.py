"""A Kafka-compatible broker in Python, for tests.

    with BrokerStub(brokers=3) as stub:
        producer = Producer(stub.settings)

It speaks Kafka's protocol to any client with Kafka's own semantics, loses replies and moves leaders when told to, and keeps its data in
memory. It is no broker for data that must survive its process.

Names are loaded when first asked for: pytest imports this package at every start for the plugin in it, and a stub starts without the proxy
and without what secures its listeners.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from broker_stub.acls import Acl as Acl
    from broker_stub.auth import Sasl as Sasl
    from broker_stub.clock import Clock as Clock
    from broker_stub.clock import RealClock as RealClock
    from broker_stub.clock import VirtualClock as VirtualClock
    from broker_stub.faults import Fault as Fault
    from broker_stub.faults import Faults as Faults
    from broker_stub.faults import Point as Point
    from broker_stub.journal import Exchange as Exchange
    from broker_stub.journal import Heard as Heard
    from broker_stub.journal import Journal as Journal
    from broker_stub.proxy import FaultProxy as FaultProxy
    from broker_stub.stub import BrokerStub as BrokerStub
    from broker_stub.tls import Tls as Tls

_HOMES = {
    "broker_stub.acls": ("Acl",),
    "broker_stub.auth": ("Sasl",),
    "broker_stub.clock": ("Clock", "RealClock", "VirtualClock"),
    "broker_stub.faults": ("Fault", "Faults", "Point"),
    "broker_stub.journal": ("Exchange", "Heard", "Journal"),
    "broker_stub.proxy": ("FaultProxy",),
    "broker_stub.stub": ("BrokerStub",),
    "broker_stub.tls": ("Tls",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "Acl",
    "BrokerStub",
    "Clock",
    "Exchange",
    "Fault",
    "FaultProxy",
    "Faults",
    "Heard",
    "Journal",
    "Point",
    "RealClock",
    "Sasl",
    "Tls",
    "VirtualClock",
]


def __getattr__(name: str) -> object:
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        found = globals()[name] = getattr(import_module(home), name)
    except AttributeError as error:  # Of which Python would say no more than that the name cannot be imported.
        raise ImportError(f"{home}: {error}") from error
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME_OF})
