"""The brokers on which a case can run, behind one small interface."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any, Final

from msgspec.structs import replace

from fencepost.broker_stub import BrokerStub, Sasl
from fencepost.broker_stub.cluster.release import NEWEST
from tests.conformance.kafka import KafkaCluster
from tests.conformance.kafka_home import KAFKA_VERSION
from tests.conformance.stage import PASSWORD, SUPER_USER, Case, Target
from tests.drawn import ALL, SEED

GUARDED_LISTENER = "SASL"
USERS = ("alice", "bob")  # beside the super user


class KafkaTarget:
    """A real Kafka."""

    def __init__(self, cluster: KafkaCluster, newest: Mapping[int, int] | None = None) -> None:
        self._cluster = cluster
        self.newest: Mapping[int, int] = newest or {}

    @property
    def guarded(self) -> bool:
        return bool(self._cluster.listeners)

    @property
    def addresses(self) -> dict[int, tuple[str, int]]:
        if self.guarded:
            return {node: ("127.0.0.1", broker.other_ports[GUARDED_LISTENER]) for node, broker in self._cluster.brokers.items()}
        return self._cluster.addresses

    def stop(self, node: int, *, clean: bool) -> None:
        self._cluster.stop_broker(node) if clean else self._cluster.kill_broker(node)

    def start(self, node: int) -> None:
        self._cluster.start_broker(node)

    def pass_epochs(self, transactional_id: str, epoch: int) -> bool:
        return False


SHARED: Final = (1, False, False)
"""The kind of one broker that runs all the time, without permissions."""


class KafkaPool:
    """Starts a cluster for each kind of case when the first case of the kind runs: shared, restarting, with three brokers, guarded.

    `shared` is a running broker for the cases that need no more. `version` and `newest` are for an older release.
    """

    def __init__(
        self,
        shared: Callable[[], KafkaCluster] | None = None,
        *,
        version: str = KAFKA_VERSION,
        newest: Mapping[int, int] | None = None,
    ) -> None:
        self._shared = shared
        self._version = version
        self._newest = newest
        self._clusters: dict[tuple[int, bool, bool], KafkaCluster] = {}
        self._stack = ExitStack()

    @staticmethod
    def own_kind(case: Case) -> tuple[int, bool, bool] | None:
        """The kind of the case's cluster; None for the shared broker."""
        # A cluster of three brokers runs one case at a time, whether or not the case stops brokers.
        kind = (case.brokers, case.restarts and case.brokers == 1, case.guarded)
        return kind if kind != SHARED else None

    def target_for(self, case: Case) -> Target:
        kind = self.own_kind(case) or SHARED
        if kind not in self._clusters:
            if case.guarded:
                self._clusters[kind] = self._stack.enter_context(guarded_kafka(brokers=case.brokers, version=self._version))
            elif kind == SHARED and self._shared is not None:
                self._clusters[kind] = self._shared()
            else:
                self._clusters[kind] = self._stack.enter_context(KafkaCluster(brokers=case.brokers, version=self._version))
        return KafkaTarget(self._clusters[kind], self._newest)

    def __enter__(self) -> KafkaPool:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()


def guarded_kafka(**options: Any) -> KafkaCluster:
    """A Kafka with users, and an authorizer that lets the super user do everything, and the others what ACLs allow.

    The brokers are anonymous to each other.
    """
    users = " ".join(f'user_{user}="{PASSWORD}"' for user in (SUPER_USER, *USERS))
    config = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": f"User:ANONYMOUS;User:{SUPER_USER}",
        "sasl.enabled.mechanisms": "PLAIN",
        f"listener.name.{GUARDED_LISTENER.lower()}.plain.sasl.jaas.config": (
            f"org.apache.kafka.common.security.plain.PlainLoginModule required {users};"
        ),
    }
    return KafkaCluster(listeners={GUARDED_LISTENER: "SASL_PLAINTEXT"}, config=config, **options)


class StubTarget:
    """The stub."""

    def __init__(self, stub: BrokerStub, newest: Mapping[int, int] | None = None) -> None:
        self.stub = stub
        self.newest: Mapping[int, int] = newest or {}

    @property
    def guarded(self) -> bool:
        return self.stub.cluster.authorizer is not None

    @property
    def addresses(self) -> dict[int, tuple[str, int]]:
        return dict(self.stub.addresses)

    def stop(self, node: int, *, clean: bool) -> None:
        self.stub.stop_broker(node, clean=clean)

    def start(self, node: int) -> None:
        self.stub.start_broker(node)

    def pass_epochs(self, transactional_id: str, epoch: int) -> bool:
        if os.environ.get(SEED) == ALL:  # make test-all registers for each of them
            return False

        def change() -> None:
            for node in self.stub.cluster.brokers:
                for shard in self.stub.services.transactions.shards_of(node):
                    if transactional_id in shard.ids:
                        known = shard.ids[transactional_id]
                        known.txn = replace(known.txn, epoch=epoch, last_epoch=epoch - 1)

        self.stub._call(change)
        return True


@contextmanager
def stub_for(
    case: Case,
    *,
    emulate: str = NEWEST,
    newest: Mapping[int, int] | None = None,
    transaction_version: int | None = None,
    config: Mapping[str, str] | None = None,
) -> Iterator[StubTarget]:
    """A new stub for one case. It starts in milliseconds."""
    users = dict.fromkeys((SUPER_USER, *USERS), PASSWORD) if case.guarded else None
    with BrokerStub(
        brokers=case.brokers,
        sasl=Sasl(users, ["PLAIN"]) if users is not None else None,
        super_users=[SUPER_USER] if case.guarded else [],
        emulate=emulate,
        transaction_version=transaction_version,
        config=config,
    ) as stub:
        yield StubTarget(stub, newest)
