"""Requests that lead to rare ends of transactions: a known coordinator, a partition without a leader, a producer at its last epoch."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from fencepost.producer import wire
from fencepost.producer.wire import error_name
from tests.conformance.asks_txn import TIMEOUT_MS, Txn, TxnAsks
from tests.conformance.stage import READY_TIMEOUT_S, Topic
from tests.waiting import until

NO_LEADER = -1
PIPELINED = 200
"""How many requests are in flight at once."""
REGISTERED = 400


class TxnEndAsks(TxnAsks):
    """A part of the world of a case."""

    def coordinated_by(self, node: int) -> Txn:
        """A transactional id with a producer, whose coordinator is that broker."""
        while True:
            txn = Txn(f"txn-{self._run}-{len(self._txns())}")
            self._txns().append(txn)
            if self._coordinator_of(txn) == node:
                assert self._init(txn, (-1, -1), 5, TIMEOUT_MS).error_code == 0
                return txn

    def wear(self, txn: Txn, epoch: int) -> None:
        """Register until the producer has that epoch; nothing is noted. The stub passes over all epochs but the last ones."""
        if epoch - REGISTERED > txn.epoch and self.target.pass_epochs(txn.name, epoch - REGISTERED):
            txn.epoch = epoch - REGISTERED
        request = wire.InitProducerIdRequest(transactional_id=txn.name, transaction_timeout_ms=TIMEOUT_MS)
        with self.open() as connection:
            for start in range(txn.epoch, epoch, PIPELINED):
                count = min(PIPELINED, epoch - start)
                for _ in range(count):
                    connection.send(request, 5)
                for _ in range(count):
                    answer = connection.receive(request, 5)
                    assert isinstance(answer, wire.InitProducerIdResponse)
                    assert answer.error_code == 0, error_name(answer.error_code)
                    txn.pid, txn.epoch = answer.producer_id, answer.producer_epoch
        assert txn.epoch == epoch, txn.epoch

    @contextmanager
    def without(self, node: int, topic: Topic, index: int) -> Iterator[None]:
        """The broker is stopped until the end of the block, and the partition has no leader."""
        with self._down(node):
            until(
                lambda: self.look_up(topic.name).partitions,
                "a partition without a leader",
                good=lambda parts: any(part.partition_index == index and part.leader_id == NO_LEADER for part in parts),
                timeout_s=READY_TIMEOUT_S,
            )
            yield
        self.known_topic(topic.name)

    def _coordinator_of(self, txn: Txn) -> int:
        request = wire.FindCoordinatorRequest(key_type=1, coordinator_keys=[txn.name])
        found = until(
            lambda: self.ask(request, 4, wire.FindCoordinatorResponse).coordinators[0],
            "a transaction coordinator",
            good=lambda each: not each.error_code,
            timeout_s=READY_TIMEOUT_S,
        )
        return found.node_id
