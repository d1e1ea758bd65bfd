"""The partitions of a transaction, where they are added before they are written (transaction version 1).

It asks nobody itself. With version 2 (KIP-890) the partition's leader adds it, and none of this is used.
"""

from __future__ import annotations

from collections.abc import Iterable

from fencepost.producer.wire.codes import Api, ErrorCode
from fencepost.producer.wire.messages.add_to_txn import AddPartitionsToTxnResponse
from fencepost.txn.protocol.error_table import PARTIAL, Row, Step, worst


class AddedPartitions:
    """See the module. `wanted`: batches wait for them. `added`: the coordinator has them."""

    def __init__(self) -> None:
        self.wanted: dict[tuple[str, int], None] = {}
        self.added: set[tuple[str, int]] = set()

    def clear(self) -> None:
        """Another transaction begins."""
        self.wanted.clear()
        self.added.clear()

    def has(self, topic: str, partition: int) -> bool:
        """Whether it may be written; where not, it is wanted."""
        if (topic, partition) in self.added:
            return True
        self.wanted[topic, partition] = None
        return False

    def give_up(self, partitions: Iterable[tuple[str, int]]) -> None:
        """Who wanted these waits no longer."""
        for tp in partitions:
            self.wanted.pop(tp, None)

    def heard(self, answer: AddPartitionsToTxnResponse) -> tuple[int, Row]:
        """Take what the coordinator said of each: the code that decides what is to be done, and its row."""
        had = len(self.added)
        codes = []
        for topic in answer.results_by_topic_v3_and_below:
            for result in topic.results_by_partition:
                codes.append(result.partition_error_code)
                if result.partition_error_code == ErrorCode.NONE:
                    self.added.add((topic.name, result.partition_index))
                    self.wanted.pop((topic.name, result.partition_index), None)
        # Some are not looked at because of others, and those say what is to be done.
        reasons = [code for code in codes if code != ErrorCode.OPERATION_NOT_ATTEMPTED]
        code, row = worst(Api.ADD_PARTITIONS_TO_TXN, reasons if any(reasons) else codes)
        # Otherwise it would be asked again at once, for as long as it says nothing.
        return code, PARTIAL if row.step is Step.DONE and len(self.added) == had else row
