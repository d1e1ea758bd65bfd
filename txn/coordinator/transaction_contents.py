"""The contents of a transaction: its partitions and groups, those that are being added, and what is known about their writes.

It makes the requests and reads the answers. The error table and the manager decide what an error code means. With transaction version 1 a
partition or group is added before it is written. With version 2 (KIP-890) the broker that is written to adds it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from fencepost.producer.core.cluster.cluster_connection_states import Node, Request
from fencepost.producer.wire.codes import Api, ErrorCode
from fencepost.producer.wire.message import Message
from fencepost.producer.wire.messages.add_to_txn import AddOffsetsToTxnResponse, AddPartitionsToTxnResponse
from fencepost.producer.wire.messages.txn_offsets import TxnOffsetCommitResponse
from fencepost.txn.coordinator.added_partitions import AddedPartitions
from fencepost.txn.coordinator.coordinator_connection import CoordinatorConnection
from fencepost.txn.coordinator.offset_commits import OffsetCommits, Order
from fencepost.txn.coordinator.pending_calls import Call
from fencepost.txn.offsets import offsets_request
from fencepost.txn.protocol.error_table import Row, judge
from fencepost.txn.protocol.requests import (
    ADD_OFFSETS_VERSIONS,
    ADD_VERSIONS,
    Identity,
    Question,
    add_offsets_request,
    add_request,
    offsets_versions,
)


class TransactionContents:
    """See the module. `wrote`: a request that may have begun the transaction was written to a socket. `begun`: a broker acknowledged a part
    of it. `broken`: a request may still arrive at a broker, or the sequences have a gap."""

    def __init__(self, transactional_id: str, connection_to: Callable[[str], CoordinatorConnection]) -> None:
        self.wrote = False
        self.begun = False
        self.broken = False
        self.partitions = AddedPartitions()
        self.commits = OffsetCommits(connection_to)
        self._id = transactional_id
        self._adding = ""

    def begin(self) -> None:
        """A new transaction begins."""
        self.wrote = self.begun = self.broken = False
        self.partitions.clear()
        self.commits.clear()

    def question(self, identity: Identity, *, version2: bool) -> Question | None:
        """The request for the transaction's coordinator."""
        if self.partitions.wanted:
            return partial(self._add_partitions, identity)
        if not version2 and self.commits.to_be_added() is not None:
            return partial(self._add_group, identity)
        return None

    def questions(self, identity: Identity, *, version2: bool) -> Iterator[tuple[CoordinatorConnection, Question]]:
        """The requests for the groups' coordinators."""
        for order in self.commits.orders:
            if version2 or order.group.group_id in self.commits.added:
                yield order.connection, partial(self._commit_offsets, order, identity, version2)

    def lost(self, request: Request) -> None:
        """A request of the transaction was lost. It may be carried out after the end. If the epoch is the same then, it opens a
        transaction, or becomes part of the next one."""
        connection = self.commits.connection_of(request)
        if connection is not None and request.api is Api.TXN_OFFSET_COMMIT:
            self.commits.lost(connection)
        self.broken = self.broken or request.api in (Api.ADD_PARTITIONS_TO_TXN, Api.ADD_OFFSETS_TO_TXN, Api.TXN_OFFSET_COMMIT)

    def answered(
        self, connection: CoordinatorConnection, answer: AddPartitionsToTxnResponse | AddOffsetsToTxnResponse | TxnOffsetCommitResponse
    ) -> tuple[int, Row, list[Call]]:
        """Take an answer. Returns the deciding code, its row, and the calls that are done."""
        match answer:
            case AddPartitionsToTxnResponse():
                code, row = self.partitions.answered(answer)
                self.begun = self.begun or bool(self.partitions.added)
                return code, row, []
            case AddOffsetsToTxnResponse():
                if answer.error_code == ErrorCode.NONE:
                    self.begun = True
                    self.commits.added.add(self._adding)
                return answer.error_code, judge(Api.ADD_OFFSETS_TO_TXN, answer.error_code), []
        codes = [partition.error_code for topic in answer.topics for partition in topic.partitions]
        self.begun = self.begun or ErrorCode.NONE in codes
        return self.commits.answered(connection, answer)

    def _add_partitions(self, identity: Identity, node: Node) -> tuple[Message, range]:
        self.wrote = True
        return add_request(self._id, identity, self.partitions.wanted), ADD_VERSIONS

    def _add_group(self, identity: Identity, node: Node) -> tuple[Message, range]:
        group_id = self.commits.to_be_added()
        assert group_id is not None
        self.wrote = True
        self._adding = group_id
        return add_offsets_request(self._id, identity, group_id), ADD_OFFSETS_VERSIONS

    def _commit_offsets(self, order: Order, identity: Identity, version2: bool, node: Node) -> tuple[Message, range]:
        self.wrote = True
        self.commits.sending(order)
        return offsets_request(self._id, identity, order.group, order.offsets), offsets_versions(version2=version2, named=order.group.named)
