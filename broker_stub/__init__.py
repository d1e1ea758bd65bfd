"""A Kafka-compatible broker in Python, for tests.

    with BrokerStub(brokers=3) as stub:
        producer = Producer(stub.settings)

It speaks Kafka's protocol with Kafka's semantics to any client. On request it loses replies and moves leaders. It keeps its data in
memory, so it is no broker for data that must survive its process.

Names are imported at their first use. pytest imports this package at every start for its plugin, and a stub starts without the proxy and
without TLS and SASL.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fencepost.producer.foundations.lazy_names import lazy_names as _lazy_names

if TYPE_CHECKING:
    from fencepost.broker_stub.cluster.clock import Clock as Clock
    from fencepost.broker_stub.cluster.clock import RealClock as RealClock
    from fencepost.broker_stub.cluster.clock import VirtualClock as VirtualClock
    from fencepost.broker_stub.control.control import Control as Control
    from fencepost.broker_stub.faults.rules import Fault as Fault
    from fencepost.broker_stub.faults.rules import Faults as Faults
    from fencepost.broker_stub.faults.rules import Point as Point
    from fencepost.broker_stub.inspector.inspector import Inspector as Inspector
    from fencepost.broker_stub.journal.exchange import Exchange as Exchange
    from fencepost.broker_stub.journal.exchange import Heard as Heard
    from fencepost.broker_stub.journal.journal import Journal as Journal
    from fencepost.broker_stub.network.tls import Tls as Tls
    from fencepost.broker_stub.proxy.proxy import FaultProxy as FaultProxy
    from fencepost.broker_stub.security.acls import Acl as Acl
    from fencepost.broker_stub.security.sasl import Sasl as Sasl
    from fencepost.broker_stub.stub import BrokerStub as BrokerStub

_HOMES = {
    "fencepost.broker_stub.security.acls": ("Acl",),
    "fencepost.broker_stub.security.sasl": ("Sasl",),
    "fencepost.broker_stub.cluster.clock": ("Clock", "RealClock", "VirtualClock"),
    "fencepost.broker_stub.control.control": ("Control",),
    "fencepost.broker_stub.faults.rules": ("Fault", "Faults", "Point"),
    "fencepost.broker_stub.inspector.inspector": ("Inspector",),
    "fencepost.broker_stub.journal.exchange": ("Exchange", "Heard"),
    "fencepost.broker_stub.journal.journal": ("Journal",),
    "fencepost.broker_stub.proxy.proxy": ("FaultProxy",),
    "fencepost.broker_stub.stub": ("BrokerStub",),
    "fencepost.broker_stub.network.tls": ("Tls",),
}
__all__ = [
    "Acl",
    "BrokerStub",
    "Clock",
    "Control",
    "Exchange",
    "Fault",
    "FaultProxy",
    "Faults",
    "Heard",
    "Inspector",
    "Journal",
    "Point",
    "RealClock",
    "Sasl",
    "Tls",
    "VirtualClock",
]

__getattr__, __dir__ = _lazy_names(globals(), _HOMES)
