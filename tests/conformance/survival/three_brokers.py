"""Three brokers that a test kills one at a time: the stub, or Apache Kafka.

A test that needs `isolate` on Kafka asks for `links`: then the brokers reach each other through a proxy, which takes some of their speed.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, Final, NamedTuple

from fencepost.broker_stub import BrokerStub
from tests.conformance.fixtures import require_kafka
from tests.conformance.kafka import KafkaCluster
from tests.conformance.survival.links import End, Links

NODES: Final = (1, 2, 3)
BETWEEN: Final = "BETWEEN"


class Crash(enum.Enum):
    """How a broker ends."""

    KILL = "SIGKILL"
    POWER_LOSS = "power loss"


class ThreeBrokers(NamedTuple):
    """`crash` ends a broker, `start` brings it back. `isolate` cuts its followers off from it, and `reconnect` ends that; None where that
    is not possible."""

    name: str
    bootstrap: str
    crashes: tuple[Crash, ...]
    crash: Callable[[int, Crash], None]
    start: Callable[[int], None]
    isolate: Callable[[int], None] | None = None
    reconnect: Callable[[], None] = lambda: None


@contextmanager
def on_stub(**config: Any) -> Iterator[ThreeBrokers]:
    """The stub, with these broker configs."""
    with BrokerStub(brokers=len(NODES), journal=0, config=config) as stub:

        def crash(node: int, how: Crash) -> None:
            if how is Crash.KILL:
                stub.stop_broker(node, clean=False)
            else:
                stub.lose_power(node)

        def isolate(node: int) -> None:
            for other in NODES:
                if other != node:
                    stub.sever(node, other)

        def reconnect() -> None:
            for one, other in stub.severed:
                stub.mend(one, other)

        yield ThreeBrokers("stub", stub.bootstrap, tuple(Crash), crash, stub.start_broker, isolate, reconnect)


@contextmanager
def on_kafka(*, links: bool = False, **config: Any) -> Iterator[ThreeBrokers]:
    """Apache Kafka, with these broker configs."""
    require_kafka()
    with ExitStack() as stack:
        if not links:
            plain = stack.enter_context(KafkaCluster(brokers=len(NODES), config=config))
            yield ThreeBrokers("Kafka", plain.bootstrap, (Crash.KILL,), lambda node, _: plain.kill_broker(node), plain.start_broker)
            return
        between = stack.enter_context(Links())

        def advertise(node: int, listener: str, port: int) -> int:
            return between.before(node, listener, port) if listener == BETWEEN else port

        def isolate(node: int) -> None:
            def is_cut(end: End) -> bool:
                follower, listener, leader, _ = end
                return listener == BETWEEN and leader == node != follower

            between.cut(is_cut)

        config = {"inter.broker.listener.name": BETWEEN, **config}
        cluster = KafkaCluster(brokers=len(NODES), config=config, listeners={BETWEEN: "PLAINTEXT"}, advertise=advertise)
        stack.enter_context(cluster)
        yield ThreeBrokers(
            "Kafka",
            cluster.bootstrap,
            (Crash.KILL,),
            lambda node, _: cluster.kill_broker(node),
            cluster.start_broker,
            isolate,
            between.mend,
        )
