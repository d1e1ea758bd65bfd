"""While a transaction is being committed, a pipeline reads and transforms the messages of the next one. No matter what becomes of the
commit, each message has one result, and those of a partition are in their order."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from contextlib import ExitStack

import pytest
from confluent_kafka import Message

from fencepost.broker_stub import BrokerStub
from fencepost.producer.wire import Api, ErrorCode
from fencepost.txn import OutputRecord, Pipeline
from tests.reading import read_messages
from tests.txn.pipeline.helpers import LIMIT_S, PARTITIONS, SINK, group_at, order, quick, settings_for, stub
from tests.txn.pipeline.members import Running
from tests.waiting import until

__all__ = ["stub"]

pytestmark = pytest.mark.timeout(180)

N = 300
SIZE = 50


def number_of(value: bytes | None) -> int:
    return int((value or b"").rpartition(b" ")[2])


def alike(message: Message) -> OutputRecord:
    """The same value, in the partition of the same number."""
    return OutputRecord(value=message.value(), partition=message.partition())


def is_whole(stub: BrokerStub, total: int = N) -> None:
    """Each order is in the sink once, in the order of its partition."""
    for partition in range(PARTITIONS):
        found = [number_of(message.value()) for message in read_messages(stub.bootstrap, SINK, [partition])]
        assert found == list(range(partition, total, PARTITIONS))
    assert sum(group_at(stub.bootstrap)) == total


class Seen:
    """A transform that notes each message, and how many messages were committed then."""

    def __init__(self) -> None:
        self.calls: list[tuple[int, int]] = []
        self.committed: Callable[[], int] = lambda: 0

    def __call__(self, message: Message) -> OutputRecord:
        self.calls.append((number_of(message.value()), self.committed()))
        return alike(message)

    def early(self) -> int:
        """How many messages were transformed before anything was committed."""
        return sum(committed == 0 for _, committed in self.calls)


def seeing(stub: BrokerStub) -> tuple[Pipeline, Seen]:
    seen = Seen()
    pipeline = quick(stub, seen, batch_size=SIZE, batch_ms=10_000)
    seen.committed = lambda: pipeline.stats().records_in
    return pipeline, seen


def test_one_transaction_is_read_ahead(stub: BrokerStub) -> None:
    """As many messages as the next transaction takes, and no more. Each is transformed once."""
    order(stub.bootstrap, range(N))
    stub.faults.on(Api.END_TXN).delay(1_500)
    pipeline, seen = seeing(stub)
    assert pipeline.run(timeout=LIMIT_S, max_batches=N // SIZE).records_in == N
    assert seen.early() == 2 * SIZE
    assert sorted(number for number, _ in seen.calls) == list(range(N))
    is_whole(stub)


@pytest.mark.parametrize(
    ("api", "code"),
    [
        (Api.TXN_OFFSET_COMMIT, ErrorCode.ILLEGAL_GENERATION),
        (Api.END_TXN, ErrorCode.TRANSACTION_ABORTABLE),
        (Api.END_TXN, ErrorCode.INVALID_PRODUCER_EPOCH),
    ],
    ids=lambda value: value.name,
)
def test_a_commit_that_fails_while_messages_are_read_ahead(stub: BrokerStub, api: Api, code: ErrorCode) -> None:
    """Both transactions' messages are read and transformed again."""
    order(stub.bootstrap, range(N))
    refusal = stub.faults.on(api).error(code)
    stub.faults.on(api).delay(1_500)
    pipeline, seen = seeing(stub)
    assert pipeline.run(timeout=LIMIT_S, max_batches=N // SIZE).aborts == 1
    assert refusal.hits == 1
    assert seen.early() > 2 * SIZE
    is_whole(stub)


def test_a_poison_message_among_those_read_ahead(stub: BrokerStub) -> None:
    """It becomes a dead letter of its own transaction, after the commit of the one before."""
    order(stub.bootstrap, range(N))
    stub.faults.on(Api.END_TXN).delay(500)

    def choosy(message: Message) -> OutputRecord:
        if number_of(message.value()) == SIZE + 10:
            raise ValueError("no such customer")
        return alike(message)

    stats = quick(stub, choosy, batch_size=SIZE, attempts=1, dead_letters="orders.dead").run_until_idle(timeout=LIMIT_S)
    assert (stats.dead_letters, stats.records_in, stats.records_out) == (1, N, N - 1)
    assert [number_of(message.value()) for message in read_messages(stub.bootstrap, "orders.dead", range(PARTITIONS))] == [SIZE + 10]


def test_a_stop_while_messages_are_read_ahead(stub: BrokerStub) -> None:
    """What is transformed is committed too."""
    order(stub.bootstrap, range(N))
    stub.faults.on(Api.END_TXN).delay(1_000)
    pipeline, seen = seeing(stub)
    with Running(pipeline):
        until(lambda: len(seen.calls) == 2 * SIZE, "one transaction is read ahead", timeout_s=LIMIT_S)
    assert pipeline.stats().records_in == 2 * SIZE
    assert sum(max(0, offset) for offset in group_at(stub.bootstrap)) == 2 * SIZE


FAULTS = 30
FAILURES: list[tuple[Api, ErrorCode | None]] = [
    (Api.PRODUCE, ErrorCode.INVALID_TXN_STATE),
    (Api.TXN_OFFSET_COMMIT, ErrorCode.ILLEGAL_GENERATION),
    (Api.TXN_OFFSET_COMMIT, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
    (Api.END_TXN, ErrorCode.NOT_COORDINATOR),
    (Api.END_TXN, None),
    (Api.TXN_OFFSET_COMMIT, None),
    (Api.HEARTBEAT, ErrorCode.UNKNOWN_MEMBER_ID),
]
"""None: the answer is lost."""


@pytest.mark.parametrize("_", range(3))
def test_commits_that_fail_at_random_while_members_come_and_go(stub: BrokerStub, _: int) -> None:
    """Answers are late, refused or lost, and a second member comes and leaves."""
    seed = random.SystemRandom().randrange(10**6)
    print(f"seed {seed}")
    drawn = random.Random(seed)
    total = 900
    order(stub.bootstrap, range(total))
    names = {"batch_size": drawn.choice([7, 20, 60]), "batch_ms": drawn.choice([5, 50]), "transform": alike, "aborts_max": 1_000}
    names["producer"] = {"request_timeout_ms": 500}
    # A member that was told that it is unknown joins again, and what it was before keeps its partitions until its session ends.
    consumer: dict[str, object] = {"session.timeout.ms": 6_000}
    if drawn.random() < 0.5:
        consumer["partition.assignment.strategy"] = "cooperative-sticky"
    names["consumer"] = consumer

    def committed() -> int:
        return sum(max(0, offset) for offset in group_at(stub.bootstrap))

    with ExitStack() as stack:
        for _ in range(drawn.choice([1, 2])):
            stack.enter_context(Running(Pipeline(**settings_for(stub.bootstrap, **names))))
        for _ in range(FAULTS):
            if committed() == total:
                break
            api, code = drawn.choice(FAILURES)
            rule = stub.faults.on(api).on_call(drawn.randrange(1, 4))
            if code is None:
                rule.after_append().drop()
            else:
                rule.error(code)
            stub.faults.on(Api.END_TXN).delay(drawn.choice([1, 20, 200]))
            if drawn.random() < 0.3:
                with Running(Pipeline(**settings_for(stub.bootstrap, **names))):
                    time.sleep(drawn.uniform(0.1, 0.6))
            time.sleep(drawn.uniform(0, 0.2))
        stub.faults.clear()
        until(committed, f"committed of {total}", good=lambda found: found == total, timeout_s=LIMIT_S, pause_max_s=0.5)
    is_whole(stub, total)
