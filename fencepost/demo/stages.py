"""The demo's stages: three brokers of the stub, or a real Kafka behind a `FaultProxy`.

A stage creates the topic, causes the faults and counts them. A number that it cannot count is None.
"""

from __future__ import annotations

import logging
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Final, Protocol, Self
from uuid import uuid4

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from msgspec import Struct

from fencepost.broker_stub import BrokerStub, Fault
from fencepost.broker_stub.proxy.proxy import FaultProxy
from fencepost.demo.schedule import Trouble
from fencepost.demo.traffic import Traffic
from fencepost.producer.wire import Api

PARTITIONS: Final = 6
EXCHANGES: Final = 1500
"""What a stage keeps for a page: the newest exchanges."""
_BROKERS: Final = 3
_STOPPED: Final = 2  # the broker that the demo restarts
_ADMIN_TIMEOUT_S: Final = 15.0
_log = logging.getLogger("fencepost.demo")


class Tally(Struct, frozen=True, kw_only=True):
    """The faults of the cluster and their effects; None for a number that the stage cannot count."""

    resent: int
    duplicates_refused: int
    replies_dropped: int
    connections_cut: int
    leader_moves: int | None = None
    restarts: int | None = None


class Stage(Protocol):
    """A cluster with one topic, with faults on demand. Entering the context starts it."""

    topic: str

    @property
    def bootstrap(self) -> str:
        """The producer's address. The faults apply to its connections."""
        ...

    @property
    def plain_bootstrap(self) -> str:
        """The consumer's address, without faults."""
        ...

    def strike(self, trouble: Trouble) -> None:
        """Cause the fault. A stage ignores faults that it cannot cause."""
        ...

    def tally(self, sent: int) -> Tally:
        """The counts so far. `sent`: the number of records that the producer accepted."""
        ...

    def share(self, file: Path) -> None:
        """Write what the inspector shows now as an HTML file."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None: ...


class StubStage:
    """Three brokers in this process, the topic on all of them."""

    topic = "flights"

    def __init__(self, *, journal: int = 0) -> None:
        self._stub = BrokerStub(brokers=_BROKERS, journal=journal)
        self._traffic = Traffic()
        self._stub.journal.follow(self._traffic)
        self._drops: list[Fault] = []

    @property
    def bootstrap(self) -> str:
        return self._stub.bootstrap

    plain_bootstrap = bootstrap

    def strike(self, trouble: Trouble) -> None:
        stub = self._stub
        match trouble:
            case Trouble.DROP_REPLY:
                self._drops.append(stub.faults.on(Api.PRODUCE).after_append().drop())
            case Trouble.CUT_REPLY:
                stub.faults.on(Api.PRODUCE).reply().disconnect()
            case Trouble.CUT_CONNECTIONS:
                stub.cut_connections()
            case Trouble.MOVE_LEADERS:
                for partition in range(PARTITIONS):
                    stub.move_leader(self.topic, partition)
            case Trouble.STOP_BROKER:
                stub.stop_broker(_STOPPED)
            case Trouble.KILL_BROKER:
                stub.stop_broker(_STOPPED, clean=False)
            case Trouble.START_BROKER:
                stub.start_broker(_STOPPED)

    def tally(self, sent: int) -> Tally:
        stats = self._stub.stats()
        return Tally(
            resent=self._traffic.records - sent,
            duplicates_refused=stats["duplicates"],
            replies_dropped=sum(fault.hits for fault in self._drops),
            connections_cut=stats["connections_cut"],
            leader_moves=stats["leader_moves"],
            restarts=stats["restarts"],
        )

    def share(self, file: Path) -> None:
        self._stub.share(file)

    def __enter__(self) -> Self:
        self._stub.start()
        self._stub.create_topic(self.topic, partitions=PARTITIONS)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._stub.close()


class KafkaStage:
    """A running Kafka, with a topic that the stage creates and deletes. The producer reaches it through a proxy that loses replies and
    connections. The stage does not touch the brokers, so no leader moves and no broker restarts. The proxy counts the records that it
    passed on again, and the refusals that the brokers' answers prove (see `Traffic`)."""

    def __init__(self, upstream: str, *, journal: int = 0) -> None:
        self.topic = f"fencepost-demo-{uuid4().hex[:8]}"
        self.plain_bootstrap = upstream
        self._proxy = FaultProxy(upstream, journal=journal)
        self._traffic = Traffic()
        self._proxy.journal.follow(self._traffic)
        self._drops: list[Fault] = []
        self._exit = ExitStack()

    @property
    def bootstrap(self) -> str:
        return self._proxy.bootstrap

    def strike(self, trouble: Trouble) -> None:
        faults = self._proxy.faults
        match trouble:
            case Trouble.DROP_REPLY:
                self._drops.append(faults.on(Api.PRODUCE).where(topic=self.topic).after_append().drop())
            case Trouble.CUT_REPLY:
                faults.on(Api.PRODUCE).where(topic=self.topic).reply().disconnect()
            case Trouble.CUT_CONNECTIONS:
                self._proxy.cut_connections()
            case _:
                return

    def tally(self, sent: int) -> Tally:
        return Tally(
            resent=self._traffic.records - sent,
            duplicates_refused=self._traffic.duplicates_refused,
            replies_dropped=sum(fault.hits for fault in self._drops),
            connections_cut=self._proxy.stats()["connections_cut"],
        )

    def share(self, file: Path) -> None:
        self._proxy.share(file)

    def __enter__(self) -> Self:
        with ExitStack() as exit_stack:
            exit_stack.enter_context(self._proxy)  # first, because it soon raises an error of one line if no broker answers
            admin = AdminClient({"bootstrap.servers": self.plain_bootstrap})
            replicas = min(_BROKERS, len(self._proxy.addresses))
            topic = NewTopic(self.topic, num_partitions=PARTITIONS, replication_factor=replicas)
            for done in admin.create_topics([topic], request_timeout=_ADMIN_TIMEOUT_S).values():
                done.result(_ADMIN_TIMEOUT_S)
            exit_stack.callback(self._delete_topic, admin)
            self._exit = exit_stack.pop_all()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._exit.close()

    def _delete_topic(self, admin: AdminClient) -> None:
        try:
            for done in admin.delete_topics([self.topic], request_timeout=_ADMIN_TIMEOUT_S).values():
                done.result(_ADMIN_TIMEOUT_S)
        except KafkaException as error:
            _log.warning("the topic %s could not be deleted: %s", self.topic, error)
