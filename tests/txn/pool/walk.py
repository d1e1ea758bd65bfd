"""A random walk over a service whose callers use a pool at the same time: what walks with threads and with tasks have in common.

The callers are interrupted or cancelled. The cluster has troubles. The service closes its pool and opens the next one, other processes
take transactional ids over, and the process forks.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from typing import Any

from fencepost.broker_stub import BrokerStub
from fencepost.producer.errors import FencepostError
from fencepost.producer.producer import Producer
from fencepost.producer.wire import Api, ErrorCode
from fencepost.txn.errors import CommitOutcomeUnknown
from fencepost.txn.producer import TransactionalProducer
from tests.producer.stub_helpers import LIMIT_S, QUICK
from tests.reading import read_values
from tests.waiting import until

PARTITIONS = 2
CALLERS = 6
TRANSACTIONS = 15
APIS = (
    Api.END_TXN,
    Api.PRODUCE,
    Api.INIT_PRODUCER_ID,
    Api.ADD_PARTITIONS_TO_TXN,
    Api.FIND_COORDINATOR,
    Api.DESCRIBE_TRANSACTIONS,
    Api.METADATA,
)
CODES = (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.UNKNOWN_SERVER_ERROR)
END = b"end"

Told = bool | CommitOutcomeUnknown
"""What the caller of a transaction knows: it is committed, it is not, or the doubt."""


class Walk:
    """See the module. `told`: by value; a caller that was interrupted was told nothing. `broken`: what must not have happened. `opened`:
    all pools of the walk, so that none ends by being dropped."""

    def __init__(self, seed: int, stub: BrokerStub) -> None:
        self.draw = random.Random(seed)
        self.stub = stub
        self.size = self.draw.randint(1, 4)
        self.instance = self.draw.choice(["a", None])
        self.patience_s = self.draw.choice([0.05, 0.3, LIMIT_S])
        self.told: dict[bytes, Told] = {}
        self.broken: list[str] = []
        self.opened: list[Any] = []
        self._users: set[int] = set()
        self._values = count()

    def settings(self) -> dict[str, Any]:
        return {
            **QUICK,
            "bootstrap_servers": self.stub.bootstrap,
            "transactional_id_prefix": "p",
            "instance": self.instance,
            "size": self.size,
            "warm": self.draw.randint(0, self.size),
            "acquire_timeout_ms": int(self.patience_s * 1000),
            "request_timeout_ms": 1_000,
            "transaction_timeout_ms": 4_000,  # for those that a closed pool had no time to abort
        }

    def value(self) -> bytes:
        return b"%d" % next(self._values)

    @contextmanager
    def alone(self, transactional: Any) -> Iterator[None]:
        """No other block has this producer."""
        user = id(transactional._manager)
        if user in self._users:
            self.broken.append(f"two blocks have {transactional!r}")
        self._users.add(user)
        try:
            yield
        finally:
            self._users.discard(user)

    def trouble(self) -> None:
        """One event of the cluster, or of another process."""
        chance = self.draw.random()
        if chance < 0.1:
            self.stub.restart_broker(self.draw.randint(1, 3))
        elif chance < 0.2:
            self.stub.cut_connections()
        elif chance < 0.3 and self.instance is not None:
            slot = self.draw.randrange(self.size)
            with (
                suppress(FencepostError),
                TransactionalProducer(QUICK, bootstrap_servers=self.stub.bootstrap, transactional_id=f"p-a-{slot}") as other,
            ):
                other.init(5.0)
        else:
            rule = self.stub.faults.on(self.draw.choice(APIS)).times(self.draw.randint(1, 3))
            code = self.draw.choice(CODES)
            late = self.draw.random() < 0.5
            match self.draw.randrange(4):
                case 0:
                    (rule.reply() if late else rule).drop()
                case 1:
                    (rule.reply() if late else rule).delay(self.draw.randint(1, 300))
                case 2:
                    (rule.reply() if late else rule).disconnect()
                case _:
                    # A coordinator that has carried an EndTxn out does not say that another one is in its way.
                    (rule.reply() if late and code != ErrorCode.CONCURRENT_TRANSACTIONS else rule).error(code)

    def heard(self, value: bytes, error: BaseException | None) -> None:
        """How the block of the value ended."""
        self.told[value] = error if isinstance(error, CommitOutcomeUnknown) else error is None

    def judge(self) -> None:
        """What was told is so, and each transaction is visible as a whole or not at all."""
        with Producer(QUICK, bootstrap_servers=self.stub.bootstrap) as producer:
            for partition in range(PARTITIONS):
                producer.send("t", END, partition=partition)
        # Readers see nothing behind a transaction that was left open, until it expires.
        until(lambda: all(END in read_values(self.stub.bootstrap, "t", [each]) for each in range(PARTITIONS)), "no transaction is open")
        found = Counter(read_values(self.stub.bootstrap, "t", range(PARTITIONS)))
        self.broken += [f"{value!r} is there {number} times" for value, number in found.items() if number != PARTITIONS]
        for value, told in self.told.items():
            if isinstance(told, bool) and told != (value in found):
                self.broken.append(f"{value!r} was told to be {told}")
