"""A late request: a proxy holds it, the producer times out and sends it again, and then the proxy passes it on.

The tests check the outcome of the producer's transactions, and its reports, on the stub and on Apache Kafka, always behind the proxy.
"""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable
from enum import Enum
from typing import Final, NamedTuple, Protocol, TypeVar

from confluent_kafka import KafkaException

from fencepost.broker_stub import FaultProxy
from fencepost.broker_stub.faults.rules import Fault
from fencepost.broker_stub.journal.exchange import Exchange
from fencepost.cli.options import ask_within
from fencepost.cli.txn_asking import OpenTransaction, open_transactions
from fencepost.producer.config.reader import read_settings
from fencepost.producer.errors import Fenced
from fencepost.producer.wire.codes import Api, api_name, error_name
from fencepost.txn.coordinator.state_machine import State
from fencepost.txn.errors import MustAbort
from fencepost.txn.group_metadata import GroupMetadata
from fencepost.txn.producer import TransactionalProducer
from fencepost.txn.protocol.cluster_client import ClusterClient
from fencepost.txn.protocol.describe import describe_transaction
from fencepost.txn.recovery.outcome import ONGOING
from fencepost.txn.transaction import Transaction
from tests.conformance.survival.reader import Admin
from tests.conformance.txn_site import PARTITIONS, WAIT_S, Site
from tests.waiting import despite, until

T = TypeVar("T")

REQUESTS: Final = (
    Api.INIT_PRODUCER_ID,
    Api.ADD_PARTITIONS_TO_TXN,
    Api.ADD_OFFSETS_TO_TXN,
    Api.PRODUCE,
    Api.TXN_OFFSET_COMMIT,
    Api.END_TXN,
)
UNDONE: Final = (ONGOING, "PrepareCommit", "PrepareAbort")
OF_VERSION_1: Final = (Api.ADD_PARTITIONS_TO_TXN, Api.ADD_OFFSETS_TO_TXN)
"""With transaction version 2 no client sends these."""


FENCED_BY_ITSELF: Final = "Fenced, by its own late InitProducerId or another producer"


class Moment(Enum):
    """The moment at which the late request arrives."""

    IDLE = "while idle"
    INSIDE = "inside the next transaction"
    MOVED = "after the coordinator moved"


class Ground(Protocol):
    """A cluster of two brokers. `version`: the transaction version."""

    bootstrap: str
    version: int

    def move_coordinators(self) -> None:
        """Make the other broker the leader of both coordinators' partitions, which it then loads."""


class Cell(NamedTuple):
    """One result. `sent`: whether there was such a request. `answer`: the response to the late one. `told`: the results of the producer's
    calls.
    """

    request: Api
    moment: Moment
    sent: bool
    answer: str
    told: tuple[str, ...]

    def words(self) -> str:
        """The text for the table."""
        return f"{self.answer}; {', '.join(self.told)}" if self.sent else "not sent"


def expected(request: Api, moment: Moment, version: int) -> tuple[str, ...]:
    """The expected results of the producer's calls."""
    if request in OF_VERSION_1 and version >= 2:
        return ()
    if request is not Api.INIT_PRODUCER_ID:
        return "1 committed", "2 committed", "3 committed"
    if version < 2:
        return "1 committed", f"2 {FENCED_BY_ITSELF}", "4 committed"
    if moment is Moment.INSIDE:
        return "1 committed", "2 aborted (INVALID_PRODUCER_EPOCH)", "3 committed"
    return "1 committed", "2 aborted (INVALID_PRODUCER_EPOCH)", f"3 {FENCED_BY_ITSELF}", "4 committed"


def play(ground: Ground, request: Api, moment: Moment, *, timeout_ms: int) -> Cell:
    """Run three transactions of one producer. A request of the first one is lost and arrives late.

    Consumers read exactly what was reported as committed, once and in order. No transaction is left open, and no producer is fenced without
    a report. `timeout_ms`: how long the producer waits for a response.
    """
    site = Site(ground.bootstrap, f"late-{secrets.token_hex(4)}", f"id-{secrets.token_hex(4)}")
    Admin(site.bootstrap).create(site.topic, partitions=PARTITIONS, replicas=2)
    with FaultProxy(site.bootstrap) as proxy:
        held = proxy.faults.on(request).where(txn=site.name).before().times(1).hold()
        return _Play(ground, site, proxy, held, request, moment, timeout_ms).run()


class _Play:
    def __init__(self, ground: Ground, site: Site, proxy: FaultProxy, held: Fault, request: Api, moment: Moment, timeout_ms: int) -> None:
        self._ground = ground
        self._site = site
        self._proxy = proxy
        self._held = held
        self._request = request
        self._moment = moment
        self._timeout_ms = timeout_ms
        self._group = GroupMetadata(f"group-{site.name}")
        self._rows: list[bytes] = []
        self._read = -1001
        self._told: list[str] = []
        self._answer = ""

    def run(self) -> Cell:
        with self._producer() as producer:
            self._transact(producer, 1)
            until(lambda: producer._manager.machine.state is State.READY, "the producer is between transactions", timeout_s=WAIT_S)
            until(self._state, "the coordinator is done with the first one", good=lambda state: state not in UNDONE, timeout_s=WAIT_S)
            sent = self._held.hits > 0
            if not sent:
                assert self._request in OF_VERSION_1, api_name(self._request)
                assert self._ground.version >= 2
                return Cell(self._request, self._moment, sent, "", ())
            if self._moment is Moment.MOVED:
                # Away and back: the broker that gets the late request has loaded all that it knows of the transactional id anew.
                self._ground.move_coordinators()
                self._ground.move_coordinators()
                assert self._state() not in UNDONE
                assert self._offset() == self._read
            if self._moment is not Moment.INSIDE:
                self._let_go()
            goes_on = self._transact(producer, 2, self._let_go if self._moment is Moment.INSIDE else None)
            goes_on = goes_on and self._transact(producer, 3)
        if not goes_on:
            with self._producer() as producer:
                self._transact(producer, 4)
        self._look()
        return Cell(self._request, self._moment, sent, self._answer, tuple(self._told))

    def _producer(self) -> TransactionalProducer:
        return self._site.producer(self._proxy.bootstrap, request_timeout_ms=self._timeout_ms, max_block_ms=int(WAIT_S * 1000))

    def _transact(self, producer: TransactionalProducer, number: int, meanwhile: Callable[[], None] | None = None) -> bool:
        """Run one transaction, and note its reported outcome. False if the producer cannot continue."""
        rows: list[bytes] = []
        try:
            tx = producer.begin(WAIT_S)
            try:
                self._write(tx, number, rows)
                if meanwhile is not None:
                    meanwhile()
                    self._write(tx, number, rows)
                tx.send_offsets({(self._site.topic, 0): number}, self._group, WAIT_S)
                tx.commit(WAIT_S)
            except MustAbort as error:
                tx.abort(WAIT_S)
                code = error.code
                self._told.append(f"{number} aborted ({error_name(code)})")
                return True
        except Fenced as error:
            own = "this producer's own INIT_PRODUCER_ID, which was lost before" in str(error)
            self._told.append(f"{number} {FENCED_BY_ITSELF if own else 'Fenced'}")
            return False
        self._told.append(f"{number} committed")
        self._rows += rows
        self._read = number
        return True

    def _write(self, tx: Transaction, number: int, rows: list[bytes]) -> None:
        first = len(rows)
        rows += [b"%d-%d-%d" % (number, partition, first) for partition in range(PARTITIONS)]
        for partition, row in enumerate(rows[first:]):
            # One after the other, so that what is lost is lost alone. What came of it, the commit will say.
            tx.send(self._site.topic, row, partition=partition).exception(WAIT_S)

    def _let_go(self) -> None:
        """Pass the late request on. No client gets its response."""
        before = len(self._exchanges())
        self._held.release()
        until(lambda: len(self._exchanges()) > before, "the late request came", timeout_s=WAIT_S)
        late = self._exchanges()[before]
        until(lambda: late.response is not None, "the late request is answered", timeout_s=WAIT_S)
        self._answer = _code(late)
        if self._moment is not Moment.INSIDE:
            assert self._state() not in UNDONE, f"a late {api_name(self._request)} has opened a transaction"

    def _exchanges(self) -> list[Exchange]:
        return [each for each in self._proxy.journal.requests(self._request) if self._site.name in each.transactional_ids()]

    def _state(self) -> str:
        found = self._ask(lambda client: describe_transaction(client, self._site.name))
        return found.transaction_state if found is not None else ""

    def _open(self) -> list[OpenTransaction]:
        return self._ask(lambda client: open_transactions(client, topic=self._site.topic, partition=None, broker=None))[0]

    def _offset(self) -> int:
        return despite(KafkaException, lambda: self._site.group(self._group.group_id)[0], timeout_s=WAIT_S)

    def _ask(self, ask: Callable[[ClusterClient], Awaitable[T]]) -> T:
        """The response of a coordinator or a leader, once it is final."""
        return ask_within(ask, read_settings({"bootstrap_servers": self._site.bootstrap}), WAIT_S)

    def _look(self) -> None:
        """Compare the reported outcomes with the logs."""
        until(lambda: not self._open(), "no transaction is left open in a partition", timeout_s=WAIT_S)
        until(self._state, "no transaction is left open", good=lambda state: state != ONGOING, timeout_s=WAIT_S)
        assert self._site.committed() == sorted(self._rows)
        until(self._offset, "the group's offset", good=lambda found: found == self._read)


def _code(late: Exchange) -> str:
    """The response to the late request, in one word."""
    answer = late.response
    match late.api:
        case Api.ADD_PARTITIONS_TO_TXN:
            codes = [part.partition_error_code for topic in answer.results_by_topic_v3_and_below for part in topic.results_by_partition]  # type: ignore[union-attr]
        case Api.PRODUCE:
            codes = [part.error_code for topic in answer.responses for part in topic.partition_responses]  # type: ignore[union-attr]
        case Api.TXN_OFFSET_COMMIT:
            codes = [part.error_code for topic in answer.topics for part in topic.partitions]  # type: ignore[union-attr]
        case _:
            codes = [answer.error_code]  # type: ignore[union-attr]
    return "/".join(dict.fromkeys(map(error_name, codes)))
