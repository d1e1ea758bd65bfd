"""The offsets of a transaction on their way to the coordinators of their groups.

Offsets for one group are combined: a newer offset replaces an older one of the same partition. A call is answered when the coordinator has
taken all offsets that were wanted by then. The error table and the manager decide what an answer means.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from fencepost.producer.core.cluster.cluster_connection_states import Request
from fencepost.producer.wire.codes import Api, ErrorCode
from fencepost.producer.wire.messages.txn_offsets import TxnOffsetCommitResponse
from fencepost.txn.coordinator.coordinator_connection import CoordinatorConnection
from fencepost.txn.coordinator.pending_calls import Call
from fencepost.txn.group_metadata import GroupMetadata
from fencepost.txn.offsets import OffsetAndMetadata, Offsets
from fencepost.txn.protocol.error_table import PARTIAL, Row, Step, worst
from fencepost.txn.shared.participation import name


class Order:
    """The offsets that are wanted for one member of a group. `connection`: to the group's coordinator. `sent`: the offsets in the
    request in flight."""

    def __init__(self, group: GroupMetadata, connection: CoordinatorConnection) -> None:
        self.group = group
        self.connection = connection
        self.offsets: Offsets = {}
        self.calls: list[Call] = []
        self.sent: Offsets = {}


class OffsetCommits:
    """See the module. `added`: the groups that are part of the transaction (transaction version 1). `taken`: the groups whose coordinator
    took offsets."""

    def __init__(self, connection_to: Callable[[str], CoordinatorConnection]) -> None:
        self.added: set[str] = set()
        self.taken: set[str] = set()
        self._connection_to = connection_to
        self._connections: dict[str, CoordinatorConnection] = {}
        self._used: set[str] = set()
        self._orders: dict[GroupMetadata, Order] = {}
        self._sent: dict[CoordinatorConnection, Order] = {}
        self._strays: dict[tuple[str, tuple[str, int]], set[OffsetAndMetadata]] = {}

    @property
    def orders(self) -> list[Order]:
        """The groups with offsets that are not taken yet, in the order of the calls."""
        return list(self._orders.values())

    @property
    def busy(self) -> bool:
        """Whether offsets are wanted, or a request without an answer may still write some."""
        return bool(self._orders) or any(
            connection.request is not None and connection.request.api is Api.TXN_OFFSET_COMMIT for connection in self.connections
        )

    @property
    def connections(self) -> Iterator[CoordinatorConnection]:
        return iter(self._connections.values())

    def want(self, call: Call, group: GroupMetadata, offsets: Offsets) -> None:
        """Commit these offsets for the call."""
        self._used.add(group.group_id)
        connection = self._connections.get(group.group_id)
        if connection is None:
            connection = self._connections[group.group_id] = self._connection_to(group.group_id)
        order = self._orders.setdefault(group, Order(group, connection))
        order.offsets.update(offsets)
        order.calls.append(call)

    def lost(self, connection: CoordinatorConnection) -> None:
        """The request was lost; the coordinator may still receive it at any time."""
        order = self._sent.pop(connection, None)
        if order is not None:
            for tp, at in order.sent.items():
                self._strays.setdefault((order.group.group_id, tp), set()).add(at)

    def overtaken(self) -> str | None:
        """A partition for which a lost request had an older offset than is wanted now. If the lost request arrives late, it replaces the
        newer offset."""
        for order in self.orders:
            for tp, at in order.offsets.items():
                if not self._strays.get((order.group.group_id, tp), {at}) <= {at}:
                    return f"{name(tp)} of group {order.group.group_id!r}"
        return None

    def drop(self) -> None:
        """Drop the wanted offsets; a request in flight stays."""
        self._orders.clear()

    def clear(self) -> None:
        """A new transaction begins. The connections of the last transaction's groups stay, because the next one usually has the same
        groups and their coordinators are known. Others stay only while a request is in flight."""
        self._connections = {
            group_id: connection
            for group_id, connection in self._connections.items()
            if group_id in self._used or connection.request is not None
        }
        self._used.clear()
        self._orders.clear()
        self.added.clear()
        self.taken.clear()
        self._strays.clear()

    def to_be_added(self) -> str | None:
        """A group that is not added to the transaction yet (transaction version 1)."""
        return next((order.group.group_id for order in self.orders if order.group.group_id not in self.added), None)

    def wants(self, connection: CoordinatorConnection) -> bool:
        """Whether there is something to send over that connection."""
        return any(order.connection is connection for order in self.orders)

    def connection_of(self, request: Request) -> CoordinatorConnection | None:
        """The connection that a request uses, if it is one of these."""
        return next((connection for connection in self.connections if connection.request is request), None)

    def sending(self, order: Order) -> None:
        """The wanted offsets are about to be sent."""
        order.sent = dict(order.offsets)
        self._sent[order.connection] = order

    def answered(self, connection: CoordinatorConnection, answer: TxnOffsetCommitResponse) -> tuple[int, Row, list[Call]]:
        """Take the coordinator's result for each partition. Returns the deciding code, its row, and the calls whose offsets are all
        taken."""
        order = self._sent.pop(connection, None)
        codes = {(topic.name, partition.partition_index): partition.error_code for topic in answer.topics for partition in topic.partitions}
        code, row = worst(Api.TXN_OFFSET_COMMIT, codes.values())
        if order is None or self._orders.get(order.group) is not order:
            return code, row, []  # The offsets were dropped meanwhile.
        taken = [tp for tp in order.sent if codes.get(tp) == ErrorCode.NONE]
        if taken:
            self.taken.add(order.group.group_id)
        if row.step is Step.DONE and len(taken) < len(order.sent):
            row = PARTIAL
        for tp in taken:
            if order.offsets.get(tp) == order.sent[tp]:
                del order.offsets[tp]
        if order.offsets:
            return code, row, []
        del self._orders[order.group]
        return code, row, order.calls
