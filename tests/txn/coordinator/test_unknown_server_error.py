"""UNKNOWN_SERVER_ERROR from a coordinator: a broker failed, and does not say what it carried out. It ends no producer."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from fencepost.broker_stub import BrokerStub
from fencepost.producer.errors import Fenced
from fencepost.producer.wire import Api, ErrorCode
from fencepost.txn import CommitOutcomeUnknown, GroupMetadata, Outcome, TransactionalProducer, TransactionTimeout, resume
from fencepost.txn.coordinator.state_machine import Event
from tests.later import Jump, jump, limit_passes
from tests.txn.coordinator.harness import CoordinatorHarness
from tests.waiting import until

__all__ = ["jump"]

WAIT_S = 30.0
PASSES_MS = 35_000
"""More than WAIT_S, and less than the timeout of a transaction."""
TOPIC = "t"
ADDING = (Api.ADD_PARTITIONS_TO_TXN, Api.ADD_OFFSETS_TO_TXN, Api.TXN_OFFSET_COMMIT)
FAILED = ErrorCode.UNKNOWN_SERVER_ERROR


@pytest.fixture(params=[2, 1], ids=["tv2", "tv1"])
def stub(request: pytest.FixtureRequest) -> Iterator[BrokerStub]:
    with BrokerStub(transaction_version=request.param) as stub:
        stub.create_topic(TOPIC)
        yield stub


def a_producer(stub: BrokerStub, transactional_id: str = "id", **settings: Any) -> TransactionalProducer:
    return TransactionalProducer(bootstrap_servers=stub.bootstrap, transactional_id=transactional_id, linger_ms=0, **settings)


def write(producer: TransactionalProducer, value: bytes) -> None:
    with producer.transaction(WAIT_S) as tx:
        tx.send(TOPIC, value, partition=0)
        tx.send_offsets({(TOPIC, 0): 1}, GroupMetadata("g"))


def visible(stub: BrokerStub) -> list[bytes]:
    return [bytes(record.value or b"") for record in stub.records(TOPIC, 0)]


@pytest.mark.parametrize("carried_out", [False, True])
@pytest.mark.parametrize("api", [Api.FIND_COORDINATOR, Api.INIT_PRODUCER_ID, *ADDING, Api.END_TXN])
def test_one_of_them_in_a_transaction(stub: BrokerStub, api: Api, carried_out: bool) -> None:
    """The producer repeats the request, whether or not the broker carried it out, and commits each record once."""
    fault = stub.faults.on(api)
    (fault.after_append() if carried_out else fault.before()).times(1).error(FAILED)
    with a_producer(stub) as producer:
        write(producer, b"one")
        write(producer, b"two")
    assert visible(stub) == [b"one", b"two"]


@pytest.mark.parametrize("carried_out", [False, True])
def test_one_of_them_at_an_abort(stub: BrokerStub, carried_out: bool) -> None:
    """The producer repeats the EndTxn, and continues with the next transaction."""
    fault = stub.faults.on(Api.END_TXN)
    (fault.after_append() if carried_out else fault.before()).times(1).error(FAILED)
    with a_producer(stub) as producer:
        tx = producer.begin(WAIT_S)
        tx.send(TOPIC, b"aborted", partition=0).result(WAIT_S)
        tx.abort(WAIT_S)
        write(producer, b"next")
    assert visible(stub) == [b"next"]


@pytest.mark.parametrize("api", [Api.FIND_COORDINATOR, Api.INIT_PRODUCER_ID])
def test_begin_raises_only_that_its_time_passed(jump: Jump, stub: BrokerStub, api: Api) -> None:
    """While the coordinator fails, `begin` says so when its time passes. Nothing is decided, and the same call succeeds later."""
    fault = stub.faults.on(api).forever().error(FAILED)
    with a_producer(stub) as producer:
        late = limit_passes(jump, PASSES_MS, producer._inner, lambda: producer.begin(WAIT_S), lambda: fault.hits > 1)
        assert isinstance(late, TransactionTimeout)
        assert "UNKNOWN_SERVER_ERROR" in str(late)
        stub.faults.clear()
        write(producer, b"one")
    assert visible(stub) == [b"one"]


@pytest.mark.parametrize("carried_out", [False, True])
def test_the_outcome_of_a_commit_is_unknown_until_it_is_answered(jump: Jump, stub: BrokerStub, carried_out: bool) -> None:
    """The commit may have been carried out. Its time passes: CommitOutcomeUnknown. `resolve` waits for the answer, and the producer
    continues."""
    fault = stub.faults.on(Api.END_TXN)
    failing = (fault.after_append() if carried_out else fault.before()).forever().error(FAILED)
    with a_producer(stub) as producer:
        tx = producer.begin(WAIT_S)
        tx.send(TOPIC, b"one", partition=0)
        unknown = limit_passes(jump, PASSES_MS, producer._inner, lambda: tx.commit(WAIT_S), lambda: failing.hits > 1)
        assert isinstance(unknown, CommitOutcomeUnknown)
        assert "UNKNOWN_SERVER_ERROR" in str(unknown)
        stub.faults.clear()
        unknown.resolve(WAIT_S)
        write(producer, b"two")
    assert visible(stub) == [b"one", b"two"]


@pytest.mark.parametrize("api", [Api.FIND_COORDINATOR, Api.DESCRIBE_TRANSACTIONS, Api.END_TXN])
def test_a_token(jump: Jump, stub: BrokerStub, api: Api) -> None:
    """`prepare` and `resume` repeat the request, too. While the broker fails, `resume` does not blame the client's permissions."""
    with a_producer(stub) as producer:
        tx = producer.begin(WAIT_S)
        tx.send(TOPIC, b"one", partition=0)
        if api is Api.DESCRIBE_TRANSACTIONS:
            stub.faults.on(api).times(1).error(FAILED)
        resumed = resume(tx.prepare(WAIT_S), stub.bootstrap)
    failing = stub.faults.on(api).forever().error(FAILED)
    with ThreadPoolExecutor(1) as pool:
        committing = pool.submit(resumed.commit, WAIT_S)
        until(lambda: failing.hits > 1, "the first answer has been heard")
        jump(PASSES_MS)
        late = committing.exception(WAIT_S)
    assert isinstance(late, TransactionTimeout | CommitOutcomeUnknown)
    assert "UNKNOWN_SERVER_ERROR" in str(late)
    stub.faults.clear()
    stub.faults.on(api).times(1).error(FAILED)
    assert resumed.commit(WAIT_S).outcome is Outcome.COMMITTED


def test_fenced_names_an_init_producer_id_that_may_have_been_carried_out() -> None:
    """Kafka takes a second InitProducerId with the previous epoch for an older producer's, if the coordinator has restarted in between. So
    `Fenced` names the producer's own request, until the coordinator answers one without error."""
    for failures, blamed in ((1, True), (0, False)):
        harness = CoordinatorHarness(version=1).begin()
        harness.send(b"bad")
        harness.add()
        harness.refuse(harness.produces()[0], ErrorCode.INVALID_RECORD)
        harness.call(Event.ABORT)
        harness.end()
        begin = harness.call(Event.BEGIN)
        for _ in range(failures):
            harness.identify(code=FAILED)
            harness.advance(200)
        harness.identify(code=ErrorCode.PRODUCER_FENCED)
        fenced = begin.outcome.exception(0)
        assert isinstance(fenced, Fenced)
        assert ("own INIT_PRODUCER_ID, which was answered with an error before, has been carried out" in str(fenced)) is blamed
