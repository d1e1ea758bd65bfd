"""A Kafka-compatible broker in Python, for tests.

    with BrokerStub(brokers=3) as stub:
        producer = Producer(bootstrap_servers=stub.bootstrap)

It speaks Kafka's protocol to any client with Kafka's own semantics, loses replies and moves leaders when told to, and keeps its data in
memory. It is no broker for data that must survive its process.
"""

from typing import TYPE_CHECKING

from broker_stub.clock import Clock, RealClock, VirtualClock
from broker_stub.faults import Fault, Faults, Point
from broker_stub.journal import Exchange, Heard, Journal
from broker_stub.stub import BrokerStub

if TYPE_CHECKING:
    from broker_stub.proxy import FaultProxy

__all__ = ["BrokerStub", "Clock", "Exchange", "Fault", "FaultProxy", "Faults", "Heard", "Journal", "Point", "RealClock", "VirtualClock"]


def __getattr__(name: str) -> object:
    """The proxy is loaded when it is first asked for: a stub starts without it."""
    if name != "FaultProxy":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from broker_stub.proxy import FaultProxy

    return FaultProxy
