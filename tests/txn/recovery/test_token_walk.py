"""Random walks over tokens: two ids, producers that come and go, deadlines, trimmed logs, restarts, and every token asked again and again.

What became of each transaction is known from what was done; no answer may say otherwise, and none may be missing but where the log was
trimmed. FENCEPOST_TOKEN_SEEDS=0,1,2 walks others.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from fencepost.broker_stub import BrokerStub, VirtualClock
from fencepost.txn.errors import CommitOutcomeUnknown, TransactionAborted, TransactionCommitted, TransactionOpen
from fencepost.txn.producer import TransactionalProducer
from fencepost.txn.recovery.outcome import Outcome
from fencepost.txn.recovery.resume import resume
from fencepost.txn.recovery.token import PreparedTransaction
from tests.waiting import despite

WAIT_S = 30.0
TOPIC = "t"
IDS = ("a", "b")
STEPS = 60
TIMEOUT_MS = 60_000
SEEDS = [int(seed) for seed in os.environ.get("FENCEPOST_TOKEN_SEEDS", "1,2,56").split(",")]


class Walk:
    """`truth`: of each token that there ever was. `trimmed`: how far each partition's log was cut off."""

    def __init__(self, stub: BrokerStub, seed: int) -> None:
        self.rng = random.Random(seed)
        self.stub = stub
        self.truth: dict[PreparedTransaction, Outcome] = {}
        self.open: dict[str, PreparedTransaction] = {}
        self.trimmed = [0, 0]
        self.told = 0
        self._admin = AdminClient({"bootstrap.servers": stub.bootstrap, "log_level": 0})

    def step(self) -> None:
        steps: list[tuple[int, Callable[[], None]]] = [
            (6, self.prepare),
            (6, self.ask),
            (5, self.commit),
            (3, self.abort),
            (3, self.write),
            (2, self.refuse),
            (1, self.pass_time),
            (1, self.restart),
            (1, self.trim),
        ]
        ((_, chosen),) = self.rng.choices(steps, [weight for weight, _ in steps])
        chosen()

    # -- what producers do -------------------------------------------------------------------------------------------

    def prepare(self) -> None:
        """A transaction whose producer is gone and whose token is left. An open transaction of the id is aborted."""
        name = self.rng.choice(IDS)
        with self.producer(name, on_open_transaction="abort") as producer:
            for _ in range(self.rng.randrange(3)):
                with producer.transaction(WAIT_S) as tx:
                    tx.send(TOPIC, b"before", partition=self.rng.randrange(2))
                    if self.rng.random() < 0.3:
                        token = tx.prepare(WAIT_S)
                        self.truth[token] = Outcome.COMMITTED
                        tx.commit(WAIT_S)
            with producer.transaction(WAIT_S) as tx:
                for partition in self.rng.sample(range(2), self.rng.randrange(3)):
                    tx.send(TOPIC, b"prepared", partition=partition)
                token = tx.prepare(WAIT_S)
        self.registered(name)
        self.truth[token] = Outcome.OPEN if token.wrote else Outcome.NOTHING_WRITTEN
        if token.wrote:
            self.open[name] = token

    def write(self) -> None:
        """Ordinary transactions of another producer of the id."""
        name = self.rng.choice(IDS)
        with self.producer(name, on_open_transaction="abort") as producer:
            for _ in range(self.rng.randrange(1, 3)):
                tx = producer.begin(WAIT_S)
                tx.send(TOPIC, b"ordinary", partition=self.rng.randrange(2))
                tx.commit(WAIT_S) if self.rng.random() < 0.6 else tx.abort(WAIT_S)
        self.registered(name)

    def refuse(self) -> None:
        """A producer that spares what is prepared."""
        name = self.rng.choice(IDS)
        with self.producer(name, prepared=list(self.truth)) as producer:
            if name in self.open:
                with pytest.raises(TransactionOpen):
                    producer.begin(WAIT_S)
            else:
                producer.init(WAIT_S)

    def registered(self, name: str) -> None:
        """What was open under the id was aborted by that."""
        if name in self.open:
            self.truth[self.open.pop(name)] = Outcome.ABORTED

    def producer(self, name: str, **settings: Any) -> TransactionalProducer:
        return TransactionalProducer(
            {"bootstrap_servers": self.stub.bootstrap, "transactional_id": name, "linger_ms": 0, "transaction_timeout_ms": TIMEOUT_MS},
            **settings,
        )

    # -- what happens around them ------------------------------------------------------------------------------------

    def pass_time(self) -> None:
        """Until every deadline has passed."""
        self.stub.advance(TIMEOUT_MS + 20_000)
        for name in IDS:
            self.registered(name)

    def restart(self) -> None:
        self.stub.restart_broker(1, clean=self.rng.random() < 0.5)

    def trim(self) -> None:
        """Delete the beginning of a log, as far as it may be read by everybody."""
        partition = self.rng.randrange(2)
        if not self.open:
            self.trimmed[partition] = self.rng.randint(self.trimmed[partition], self.stub.end_offset(TOPIC, partition))
            place = TopicPartition(TOPIC, partition, self.trimmed[partition])
            # Right after a restart librdkafka may know of no leader yet.
            despite(KafkaException, lambda: self._admin.delete_records([place])[place].result(WAIT_S))

    # -- what tokens say ---------------------------------------------------------------------------------------------

    def ask(self) -> None:
        token = self.token()
        if token is not None:
            self.check(token, resume(str(token), self.stub.bootstrap).status(WAIT_S).outcome)

    def commit(self) -> None:
        self.end(Outcome.COMMITTED)

    def abort(self) -> None:
        self.end(Outcome.ABORTED)

    def end(self, wanted: Outcome) -> None:
        token = self.token()
        if token is None:
            return
        if self.truth[token] is Outcome.OPEN:
            self.truth[token] = wanted
            del self.open[token.transactional_id]
        resumed = resume(str(token), self.stub.bootstrap)
        try:
            said = (resumed.commit if wanted is Outcome.COMMITTED else resumed.abort)(WAIT_S).outcome
        except TransactionAborted:
            said = Outcome.ABORTED
        except TransactionCommitted:
            said = Outcome.COMMITTED
        except CommitOutcomeUnknown:
            said = Outcome.UNKNOWN
        self.check(token, said)

    def token(self) -> PreparedTransaction | None:
        """One of those that there are, the open ones rather than others."""
        return self.rng.choice([*self.truth, *self.open.values(), *self.open.values()]) if self.truth else None

    def check(self, token: PreparedTransaction, said: Outcome) -> None:
        if said is Outcome.UNKNOWN:
            assert any(place.offset is not None and place.offset < self.trimmed[place.partition] for place in token.partitions), token
            return
        assert said is self.truth[token], (token, said, self.truth[token])
        self.told += 1


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("seed", SEEDS)
def test_no_token_ever_says_what_is_not_true(version: int, seed: int) -> None:
    """Over a walk, and of every token once more at its end."""
    with BrokerStub(transaction_version=version, clock=VirtualClock()) as stub:
        stub.create_topic(TOPIC, partitions=2)
        walk = Walk(stub, seed)
        for _ in range(STEPS):
            walk.step()
        for token in walk.truth:
            walk.check(token, resume(token, stub.bootstrap).status(WAIT_S).outcome)
        assert walk.told > len(walk.truth) // 2
