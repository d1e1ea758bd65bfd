"""The offsets of a transaction on their way to the coordinators of their groups.

What is wanted for one group is put together: an offset that is given again takes the older one's place, and a call is answered when all
that was wanted by then has been taken. It decides nothing about an answer: `verdict` and `manager` do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from fencepost.producer.core.cluster.broker_connections import Request
from fencepost.producer.wire.codes import Api, ErrorCode
from fencepost.producer.wire.messages.txn_offsets import TxnOffsetCommitResponse
from fencepost.txn.coordinator.coordinator_connection import CoordinatorConnection
from fencepost.txn.coordinator.pending_calls import Call
from fencepost.txn.group_metadata import GroupMetadata
from fencepost.txn.offsets import OffsetAndMetadata, Offsets
from fencepost.txn.protocol.error_table import PARTIAL, Row, Step, worst
from fencepost.txn.shared.participation import name


class Order:
    """What is wanted for one member of a group. `line`: to the group's coordinator. `sent`: what is in the request on its way."""

    def __init__(self, group: GroupMetadata, line: CoordinatorConnection) -> None:
        self.group = group
        self.line = line
        self.offsets: Offsets = {}
        self.calls: list[Call] = []
        self.sent: Offsets = {}


class OffsetCommits:
    """See the module. `added`: the groups that are part of the transaction (transaction version 1). `taken`: those that took offsets."""

    def __init__(self, line_to: Callable[[str], CoordinatorConnection]) -> None:
        self.added: set[str] = set()
        self.taken: set[str] = set()
        self._line_to = line_to
        self._lines: dict[str, CoordinatorConnection] = {}
        self._orders: dict[GroupMetadata, Order] = {}
        self._sent: dict[CoordinatorConnection, Order] = {}
        self._strays: dict[tuple[str, tuple[str, int]], set[OffsetAndMetadata]] = {}

    @property
    def orders(self) -> list[Order]:
        """What has not been taken yet, in the order in which it was wanted."""
        return list(self._orders.values())

    @property
    def busy(self) -> bool:
        """Whether anything is wanted, or may be written by a request that has no answer."""
        return bool(self._orders) or any(line.request is not None and line.request.api is Api.TXN_OFFSET_COMMIT for line in self.lines)

    @property
    def lines(self) -> Iterator[CoordinatorConnection]:
        return iter(self._lines.values())

    def want(self, call: Call, group: GroupMetadata, offsets: Offsets) -> None:
        """Have these offsets committed for the call."""
        line = self._lines.get(group.group_id)
        if line is None:
            line = self._lines[group.group_id] = self._line_to(group.group_id)
        order = self._orders.setdefault(group, Order(group, line))
        order.offsets.update(offsets)
        order.calls.append(call)

    def lost(self, line: CoordinatorConnection) -> None:
        """What was sent may still come, whenever it likes."""
        order = self._sent.pop(line, None)
        if order is not None:
            for tp, at in order.sent.items():
                self._strays.setdefault((order.group.group_id, tp), set()).add(at)

    def overtaken(self) -> str | None:
        """A partition of which a request that was lost had another offset than is wanted now: coming late, it would put the older one in
        the place of the newer."""
        for order in self.orders:
            for tp, at in order.offsets.items():
                if not self._strays.get((order.group.group_id, tp), {at}) <= {at}:
                    return f"{name(tp)} of group {order.group.group_id!r}"
        return None

    def drop(self) -> None:
        """None of it is wanted any more; what is on its way stays there."""
        self._orders.clear()

    def clear(self) -> None:
        """Another transaction begins."""
        self._orders.clear()
        self.added.clear()
        self.taken.clear()
        self._strays.clear()

    def to_be_added(self) -> str | None:
        """A group that the transaction's coordinator has not heard of (transaction version 1)."""
        return next((order.group.group_id for order in self.orders if order.group.group_id not in self.added), None)

    def wants(self, line: CoordinatorConnection) -> bool:
        """Whether anything is to go over that line."""
        return any(order.line is line for order in self.orders)

    def line_of(self, request: Request) -> CoordinatorConnection | None:
        """The line that a request is on, if it is one of these."""
        return next((line for line in self.lines if line.request is request), None)

    def sending(self, order: Order) -> None:
        """What is wanted now is about to be sent."""
        order.sent = dict(order.offsets)
        self._sent[order.line] = order

    def heard(self, line: CoordinatorConnection, answer: TxnOffsetCommitResponse) -> tuple[int, Row, list[Call]]:
        """Take what a coordinator said of each partition: the code that decides, its row, and the calls that have what they wanted."""
        order = self._sent.pop(line, None)
        codes = {(topic.name, partition.partition_index): partition.error_code for topic in answer.topics for partition in topic.partitions}
        code, row = worst(Api.TXN_OFFSET_COMMIT, codes.values())
        if order is None or self._orders.get(order.group) is not order:
            return code, row, []  # It was given up meanwhile.
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
