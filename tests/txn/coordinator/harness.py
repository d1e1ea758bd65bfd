"""A core with a transaction manager: a test makes the user's calls, and answers the manager's requests one by one.

The harness answers FindCoordinator at once, with node 1. All other requests wait in `open` for the test.
"""

from __future__ import annotations

from typing import Any

from fencepost.producer.core.events import Called, Command, Connected, Features
from fencepost.producer.core.events import Event as Happened
from fencepost.producer.wire import Api, FindCoordinatorResponse, InitProducerIdResponse
from fencepost.producer.wire.message import Message
from fencepost.producer.wire.messages.add_to_txn import (
    AddOffsetsToTxnResponse,
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult,
)
from fencepost.producer.wire.messages.end_txn import EndTxnResponse
from fencepost.producer.wire.messages.find_coordinator import Coordinator
from fencepost.producer.wire.messages.txn_offsets import (
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from fencepost.txn.coordinator.kip_939 import TwoPhase
from fencepost.txn.coordinator.pending_calls import Call
from fencepost.txn.coordinator.registration_guard import Guard
from fencepost.txn.coordinator.state_machine import Event, State
from fencepost.txn.coordinator.transaction_manager import FEATURE, TransactionManager
from fencepost.txn.group_metadata import GroupMetadata
from fencepost.txn.offsets import OffsetAndMetadata
from tests.producer.core.harness import PID, CoreHarness, Flight

CALL_MS = 10_000.0


class CoordinatorHarness(CoreHarness):
    """See the module docstring. `version`: the cluster's transaction.version. `newest`: the newest version of InitProducerId that brokers
    offer.
    """

    newest = 5

    def __init__(
        self,
        *,
        version: int = 2,
        partitions: int = 1,
        guard: Guard | None = None,
        two_phase: TwoPhase | None = None,
        **settings: Any,
    ) -> None:
        self.manager = TransactionManager("tx", timeout_ms=60_000, guard=guard, two_phase=two_phase)
        super().__init__(partitions=partitions, transactions=self.manager, **settings)
        self.features = Features(1, {FEATURE: version})
        self.auto = {Api.METADATA, Api.FIND_COORDINATOR}

    # -- the user's part ---------------------------------------------------------------------------------------------

    def call(self, event: Event, *, number: int = 0, within_ms: float = CALL_MS) -> Call:
        """Start a call, and do not wait for it."""
        call = Call(event, deadline_ms=self.now + within_ms, number=number)
        self.happen(Called(call))
        return call

    def send_offsets(self, *offsets: int, group: str = "g", number: int = 0, within_ms: float = CALL_MS) -> Call:
        """Pass these offsets to `send_offsets`, one for each partition of the topic."""
        given = {("t", partition): OffsetAndMetadata(offset) for partition, offset in enumerate(offsets)}
        member = GroupMetadata(group, 1, "member")
        call = Call(Event.SEND_OFFSETS, deadline_ms=self.now + within_ms, number=number, offsets=(member, given))
        self.happen(Called(call))
        return call

    def begin(self) -> CoordinatorHarness:
        """Begin a transaction. If there is no identity, register one with epoch 0."""
        self.learn()
        call = self.call(Event.BEGIN)
        if not call.outcome.done():
            self.identify()
        assert call.outcome.result(0) > 0
        return self

    # -- the coordinator's part --------------------------------------------------------------------------------------

    def asked(self, api: Api) -> Flight:
        """The only unanswered request of that type."""
        (flight,) = [flight for flight in self.open if flight.api is api]
        return flight

    def silent(self) -> bool:
        """Whether no request waits for an answer."""
        return not self.open

    def identify(self, *, epoch: int = 0, code: int = 0) -> None:
        self.reply(self.asked(Api.INIT_PRODUCER_ID), InitProducerIdResponse(error_code=code, producer_id=PID, producer_epoch=epoch))

    def add(self, *codes: int) -> None:
        """Answer an AddPartitionsToTxn partition by partition: the last code applies to the rest. Without codes all succeed."""
        flight = self.asked(Api.ADD_PARTITIONS_TO_TXN)
        said = iter(codes)
        last = codes[-1] if codes else 0
        results = [
            AddPartitionsToTxnTopicResult(
                name=topic.name,
                results_by_partition=[
                    AddPartitionsToTxnPartitionResult(partition_index=index, partition_error_code=int(next(said, last)))
                    for index in topic.partitions
                ],
            )
            for topic in flight.message.v3_and_below_topics
        ]
        self.reply(flight, AddPartitionsToTxnResponse(results_by_topic_v3_and_below=results))

    def add_group(self, code: int = 0) -> str:
        """Answer an AddOffsetsToTxn. Returns its group."""
        flight = self.asked(Api.ADD_OFFSETS_TO_TXN)
        self.reply(flight, AddOffsetsToTxnResponse(error_code=int(code)))
        return str(flight.message.group_id)

    def take_offsets(self, *codes: int) -> list[int]:
        """Answer a TxnOffsetCommit partition by partition, with these codes or without error. Return the offsets that it had."""
        flight = self.asked(Api.TXN_OFFSET_COMMIT)
        (topic,) = flight.message.topics
        said = [int(code) for code in codes] or [0] * len(topic.partitions)
        partitions = [
            TxnOffsetCommitResponsePartition(partition_index=partition.partition_index, error_code=code)
            for partition, code in zip(topic.partitions, said, strict=False)
        ]
        self.reply(flight, TxnOffsetCommitResponse(topics=[TxnOffsetCommitResponseTopic(name=topic.name, partitions=partitions)]))
        return [partition.committed_offset for partition in topic.partitions]

    def end(self, code: int = 0, *, epoch: int | None = None) -> None:
        """Answer an EndTxn; in version 2 with the next epoch."""
        flight = self.asked(Api.END_TXN)
        answer = EndTxnResponse(error_code=int(code))
        if not code and flight.command.version >= 5:
            answer = EndTxnResponse(producer_id=PID, producer_epoch=flight.message.producer_epoch + 1 if epoch is None else epoch)
        self.reply(flight, answer)

    def answer_to(self, command: Any) -> Message:
        if command.api is Api.FIND_COORDINATOR:
            return FindCoordinatorResponse(coordinators=[Coordinator(key="tx", node_id=1, host="b", port=1)])
        return super().answer_to(command)

    def _do(self, command: Command) -> list[Happened]:
        api = int(Api.INIT_PRODUCER_ID)
        return [
            Connected(event.node, {**event.versions, api: (0, min(self.newest, event.versions[api][1]))}, event.features)
            if isinstance(event, Connected) and api in event.versions
            else event
            for event in super()._do(command)
        ]

    @property
    def state(self) -> State:
        return self.manager.machine.state
