"""The brokers a case can be played on, behind one small interface."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

from broker_stub import BrokerStub
from tests.conformance.kafka import KafkaCluster
from tests.conformance.stage import Case, Target


class KafkaTarget:
    """Real Kafka."""

    def __init__(self, cluster: KafkaCluster) -> None:
        self._cluster = cluster

    @property
    def addresses(self) -> dict[int, tuple[str, int]]:
        return self._cluster.addresses

    def stop(self, node: int, *, clean: bool) -> None:
        self._cluster.stop_broker(node) if clean else self._cluster.kill_broker(node)

    def start(self, node: int) -> None:
        self._cluster.start_broker(node)


class KafkaPool:
    """Starts a cluster for each kind of case when the first of the kind is played: shared, restarting, of three brokers.

    `shared` gives a broker that runs already, for the cases that need no more.
    """

    def __init__(self, shared: Callable[[], KafkaCluster] | None = None) -> None:
        self._shared = shared
        self._clusters: dict[tuple[int, bool], KafkaCluster] = {}
        self._stack = ExitStack()

    def target_for(self, case: Case) -> Target:
        # Three brokers are only ever used one case at a time, whether it stops some or not.
        kind = (case.brokers, case.restarts and case.brokers == 1)
        if kind not in self._clusters:
            if kind == (1, False) and self._shared is not None:
                self._clusters[kind] = self._shared()
            else:
                self._clusters[kind] = self._stack.enter_context(KafkaCluster(brokers=case.brokers))
        return KafkaTarget(self._clusters[kind])

    def __enter__(self) -> KafkaPool:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()


class StubTarget:
    """The stub."""

    def __init__(self, stub: BrokerStub) -> None:
        self._stub = stub

    @property
    def addresses(self) -> dict[int, tuple[str, int]]:
        return dict(self._stub.addresses)

    def stop(self, node: int, *, clean: bool) -> None:
        self._stub.stop_broker(node, clean=clean)

    def start(self, node: int) -> None:
        self._stub.start_broker(node)


@contextmanager
def stub_for(case: Case) -> Iterator[Target]:
    """A stub of its own for one case: it starts in milliseconds."""
    with BrokerStub(brokers=case.brokers) as stub:
        yield StubTarget(stub)
