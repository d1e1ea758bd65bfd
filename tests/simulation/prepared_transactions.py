"""Transactions of one id in which several processes take part.

The producer prepares some transactions. Another process ends some of those with the token. Sometimes another producer registers under the
id. Coordinators move, and then forget the previous epoch. They also answer with an error after they have carried a request out. The run
compares each outcome of the producer's callers with the logs. It also checks each `Fenced`: another producer has registered, or the error
names the producer's own request.
"""

from __future__ import annotations

from typing import Any, Final

from fencepost.broker_stub.cluster.topics import STATE_TOPIC
from fencepost.producer.errors import Fenced
from fencepost.producer.wire import InitProducerIdRequest, InitProducerIdResponse, Message
from fencepost.producer.wire.codes import ErrorCode
from fencepost.producer.wire.messages.add_to_txn import AddPartitionsToTxnResponse
from fencepost.producer.wire.messages.describe_transactions import DescribeTransactionsResponse, TransactionState
from fencepost.producer.wire.messages.end_txn import EndTxnResponse
from fencepost.txn.coordinator.state_machine import Event
from fencepost.txn.errors import CommitOutcomeUnknown, MustAbort, TransactionCommitted
from fencepost.txn.protocol.requests import add_request, end_request
from tests.simulation.transactions import LATE_MS, NAME, PARTITIONS, TOPIC, TRANSACTION_TIMEOUT_MS, TransactionWorld

FAILURES: Final = (
    ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.REQUEST_TIMED_OUT,
)
SPOILT: Final[dict[type[Message], float]] = {InitProducerIdResponse: 0.1, EndTxnResponse: 0.06, DescribeTransactionsResponse: 0.2}
"""The probability with which an error replaces a response, by message."""
ADD_VERSION: Final = 3
END_VERSIONS: Final = {1: 4, 2: 5}
INIT_VERSION: Final = 4
DONE: Final = (ErrorCode.NONE, ErrorCode.PRODUCER_FENCED)
"""In Kafka the InitProducerId of an older producer can fence a newer producer that is in a transaction."""
STEP_MS: Final = 5.0


class PreparedWorld(TransactionWorld):
    """See the module docstring."""

    def __init__(self, seed: int, version: int, *, stranding: bool = True) -> None:
        self._newer = self._expired = False
        super().__init__(seed, version, stranding=stranding)
        self._version = version
        self.tamper = self._after_the_fact

    def _new_producer(self) -> None:
        super()._new_producer()
        self._newer = self._expired = False

    def _transact(self) -> None:
        self._turn += 1
        self._expired = False
        overtaken = self._newer
        rows: list[list[bytes]] = [[] for _ in range(PARTITIONS)]
        ended: list[bool] = []
        said = self._outcome(rows, ended)
        if self.dead is not None:
            self._new_producer()
            self._call(Event.INIT)
        if said is None:
            self._come_to_rest()
        there = self._is_committed(rows)
        assert not (there and overtaken), f"{rows}: the producer wrote after another one took the id over"
        assert said in (None, there), f"{rows}: the caller was told that it is {'' if said else 'not '}committed"
        assert ended in ([], [there]), f"{rows}: it is {'' if there else 'not '}committed, but another process ended it the other way"
        if there:
            self._note(rows)
        self.told[{None: "unknown", True: "committed", False: "aborted"}[said]] += 1

    def _outcome(self, rows: list[list[bytes]], ended: list[bool]) -> bool | None:
        """Run one transaction. Return whether its caller was told that it is committed; None if the caller cannot know."""
        try:
            self._call(Event.BEGIN)
            try:
                self._write(rows)
                if self.random.random() < 0.05:
                    self._expire()
                if self.random.random() < 0.6:
                    self._call(Event.PREPARE)
                    self._happen(ended)
                if self.random.random() < 0.4:
                    self._call(Event.ABORT)
                    return False
                self._commit()
            except MustAbort:
                self._call(Event.ABORT)
                return False
        except TransactionCommitted:
            if ended != [True]:
                raise AssertionError(f"{rows}: no other process has committed it") from None
            if self.random.random() < 0.5:
                self._register_elsewhere()
            return True
        except Fenced as error:
            why = "another producer" if self._newer else "its timeout" if self._expired and self._version == 1 else "itself"
            if why == "itself" and "this producer's own" not in str(error):
                raise AssertionError(f"no other producer took the id over: {error}") from error
            self.told[f"fenced by {why}"] += 1
            return None
        except CommitOutcomeUnknown:
            return None
        return True

    def _expire(self) -> None:
        """The program pauses for longer than the transaction's timeout."""
        self._expired = True
        self.run(self.now + 1.2 * TRANSACTION_TIMEOUT_MS)
        if self.random.random() < 0.5:
            self._move_coordinator()

    def _happen(self, ended: list[bool]) -> None:
        """What other processes do while the transaction is prepared."""
        if self.random.random() < 0.5:
            ended.append(self._end_elsewhere(self.random.random() < 0.5))
        if self.random.random() < 0.1:
            self._register_elsewhere()
            ended[:] = ended or [False]
        if self.random.random() < 0.5:
            self._move_coordinator()
        if self.random.random() < 0.3:
            self.run(self.now + self.random.choice(LATE_MS))  # A late request may arrive before the producer's own end.

    def _end_elsewhere(self, committed: bool) -> bool:
        """Another process ends the prepared transaction with its token."""
        token = self.manager.preparation.token
        assert token is not None
        self._until_done(end_request(NAME, token.identity, committed=committed), END_VERSIONS[token.transaction_version])
        self.told["ended by another process"] += 1
        return committed

    def _register_elsewhere(self) -> None:
        """Another producer, with an older client, registers under the id. Sometimes it commits a transaction in which it wrote nothing."""
        self._newer = True
        register = InitProducerIdRequest(transactional_id=NAME, transaction_timeout_ms=TRANSACTION_TIMEOUT_MS)
        answer = self._until_done(register, INIT_VERSION)
        if self.random.random() < 0.5:
            identity = (answer.producer_id, answer.producer_epoch)
            self._until_done(add_request(NAME, identity, [(TOPIC, 0)]), ADD_VERSION)
            self._until_done(end_request(NAME, identity, committed=True), END_VERSIONS[1])

    def _until_done(self, request: Message, version: int) -> Any:
        deadline = self.now + TRANSACTION_TIMEOUT_MS / 4
        while self.now < deadline:
            replies = self._ask_directly(self.cluster.internal_topic(STATE_TOPIC).partitions[0].leader, request, version)
            self.run(self.now + STEP_MS)
            answer: Any = replies[0].response if replies else None
            if answer is not None and _code(answer) in DONE:
                return answer
        raise AssertionError(f"the coordinator does not carry out {request}: {answer}")

    def _after_the_fact(self, response: Message) -> Message:
        if not self.stormy or self.random.random() >= SPOILT.get(type(response), 0):
            return response
        self.told["errors after the fact"] += 1
        code = self.random.choice(FAILURES)
        if isinstance(response, DescribeTransactionsResponse):
            return DescribeTransactionsResponse(transaction_states=[TransactionState(transactional_id=NAME, error_code=code)])
        return type(response)(error_code=code)


def _code(answer: Any) -> int:
    if isinstance(answer, AddPartitionsToTxnResponse):
        ((partition,),) = [topic.results_by_partition for topic in answer.results_by_topic_v3_and_below]
        return int(partition.partition_error_code)
    return int(answer.error_code)
