"""The partitions of a transaction with transaction version 1, which adds a partition before the first write.

This module sends no request. With version 2 (KIP-890) the partition's leader adds the partition, and this module is not used.
"""

from __future__ import annotations

from collections.abc import Iterable

from fencepost.producer.wire.codes import Api, ErrorCode
from fencepost.producer.wire.messages.add_to_txn import AddPartitionsToTxnResponse
from fencepost.txn.protocol.error_table import PARTIAL, Row, Step, worst


class AddedPartitions:
    """See the module. `wanted`: batches wait for these. `added`: the coordinator has added these."""

    def __init__(self) -> None:
        self.wanted: dict[tuple[str, int], None] = {}
        self.added: set[tuple[str, int]] = set()

    def clear(self) -> None:
        """A new transaction begins."""
        self.wanted.clear()
        self.added.clear()

    def request(self, topic: str, partition: int) -> bool:
        """Whether the partition is added, so that it may be written. If not, it becomes wanted."""
        if (topic, partition) in self.added:
            return True
        self.wanted[topic, partition] = None
        return False

    def give_up(self, partitions: Iterable[tuple[str, int]]) -> None:
        """The batches that wanted these partitions no longer wait."""
        for tp in partitions:
            self.wanted.pop(tp, None)

    def answered(self, answer: AddPartitionsToTxnResponse) -> tuple[int, Row]:
        """Take the coordinator's result for each partition. Returns the deciding error code and its row."""
        had = len(self.added)
        codes = []
        for topic in answer.results_by_topic_v3_and_below:
            for result in topic.results_by_partition:
                codes.append(result.partition_error_code)
                if result.partition_error_code == ErrorCode.NONE:
                    self.added.add((topic.name, result.partition_index))
                    self.wanted.pop((topic.name, result.partition_index), None)
        # The coordinator skips some partitions because of others; the codes of the others decide.
        reasons = [code for code in codes if code != ErrorCode.OPERATION_NOT_ATTEMPTED]
        code, row = worst(Api.ADD_PARTITIONS_TO_TXN, reasons if any(reasons) else codes)
        # Otherwise the sender would ask again at once, as long as the coordinator gives no result for them.
        return code, PARTIAL if row.step is Step.DONE and len(self.added) == had else row
