"""Questions about transactions: to their coordinator, to partitions' leaders, and to the brokers that list them.

Producer ids are shown as p1, p2 and so on, in the order of their assignment. After an end, and after a fence, the case waits until the
markers are written, because Kafka does not promise how long that takes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from fencepost.broker_stub.cluster.coordinator_partition import partition_for
from fencepost.broker_stub.cluster.topics import STATE_TOPIC
from fencepost.broker_stub.transactions.records import read_txn, txn_key, txn_value
from fencepost.producer import wire
from fencepost.producer.wire import ErrorCode, error_name
from fencepost.producer.wire.messages import add_to_txn, describe_transactions, end_txn, list_transactions, txn_offsets
from fencepost.producer.wire.records import iter_batches, read_records
from tests.conformance.asks_fetch import FETCH_VERSION, fetch_request
from tests.conformance.asks_log import LogAsks, list_offsets_request
from tests.conformance.batches import TRANSACTIONAL, of
from tests.conformance.raw import Closed
from tests.conformance.stage import READY_TIMEOUT_S, Topic
from tests.waiting import until

LATER = (ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR)
ENDING = ("PrepareCommit", "PrepareAbort")
TIMEOUT_MS = 60_000
LOOKED_AT = 500


class Txn:
    """A transactional id, and the identity of its newest producer."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.pid, self.epoch = -1, -1

    @property
    def identity(self) -> tuple[int, int]:
        return self.pid, self.epoch


class TxnAsks(LogAsks):
    """A part of the world of a case."""

    def txn(self) -> Txn:
        """An unused transactional id with a coordinator that is ready."""
        txn = Txn(f"txn-{self._run}-{len(self._txns())}")
        self._txns().append(txn)
        request = wire.FindCoordinatorRequest(key_type=1, coordinator_keys=[txn.name])
        until(
            lambda: self.ask(request, 4, wire.FindCoordinatorResponse).coordinators[0].error_code or self._state(txn.name).error_code,
            "a transaction coordinator",
            good=lambda code: code not in LATER,
            timeout_s=READY_TIMEOUT_S,
        )
        return txn

    def begun(self, *, timeout_ms: int = TIMEOUT_MS) -> Txn:
        """An unused transactional id that has a producer id. Nothing is noted."""
        txn = self.txn()
        answer = self._init(txn, (-1, -1), 5, timeout_ms)
        assert answer.error_code == 0, error_name(answer.error_code)
        return txn

    def init(
        self,
        txn: Txn,
        *,
        label: str,
        expected: tuple[int, int] = (-1, -1),
        version: int = 5,
        timeout_ms: int = TIMEOUT_MS,
        wait: bool = True,
    ) -> None:
        """InitProducerId. Its result is the id's identity from then on. `wait`: until a transaction that it aborts has ended."""
        answer = self._init(txn, expected, version, timeout_ms)
        self.note(label, f"{error_name(answer.error_code)} {self.show_producer(answer.producer_id)} epoch={answer.producer_epoch}")
        if wait:
            self.settled(txn)

    def init_prepared(self, txn: Txn | None, *, label: str, two_phase: bool, keep: bool = False, timeout_ms: int = TIMEOUT_MS) -> None:
        """InitProducerId in version 6, which most brokers do not accept. Without an id it is for an idempotent producer."""
        request = wire.InitProducerIdRequest(
            transactional_id=txn.name if txn is not None else None,
            transaction_timeout_ms=timeout_ms,
            enable2_pc=two_phase,
            keep_prepared_txn=keep,
        )

        def ask() -> str:
            try:
                answer = self.ask(request, 6, wire.InitProducerIdResponse)
            except Closed:
                return "closed"
            if answer.error_code in LATER:
                return ""
            if answer.error_code == 0 and txn is not None:
                txn.pid, txn.epoch = answer.producer_id, answer.producer_epoch
                self._pids.setdefault(txn.pid, f"p{len(self._pids) + 1}")
            given = "an id" if answer.producer_id >= 0 else "none"
            ongoing = f"ongoing={answer.ongoing_txn_producer_id}:{answer.ongoing_txn_producer_epoch}"
            return f"{error_name(answer.error_code)} {given} epoch={answer.producer_epoch} {ongoing}"

        self.note(label, until(ask, "a final answer", timeout_s=READY_TIMEOUT_S))

    def add(
        self,
        txn: Txn,
        partitions: Mapping[Topic, Sequence[int]],
        *,
        label: str,
        version: int = 3,
        identity: tuple[int, int] | None = None,
        verify_only: bool = False,
    ) -> None:
        """AddPartitionsToTxn, sent as a client or, from version 4 on, as a broker."""
        pid, epoch = identity or txn.identity
        topics = [add_to_txn.AddPartitionsToTxnTopic(name=topic.name, partitions=list(parts)) for topic, parts in partitions.items()]
        if version < 4:
            request = add_to_txn.AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=txn.name,
                v3_and_below_producer_id=pid,
                v3_and_below_producer_epoch=epoch,
                v3_and_below_topics=topics,
            )
        else:
            transaction = add_to_txn.AddPartitionsToTxnTransaction(
                transactional_id=txn.name, producer_id=pid, producer_epoch=epoch, verify_only=verify_only, topics=topics
            )
            request = add_to_txn.AddPartitionsToTxnRequest(transactions=[transaction])

        def show(answer: add_to_txn.AddPartitionsToTxnResponse) -> str:
            results = [topic for each in answer.results_by_transaction for topic in each.topic_results]
            shown = [
                f"{self.show_topic(topic.name)}-{part.partition_index} {error_name(part.partition_error_code)}"
                for topic in (*results, *answer.results_by_topic_v3_and_below)
                for part in topic.results_by_partition
            ]
            return f"{error_name(answer.error_code)} [{'; '.join(sorted(shown))}]"

        self.note_answer(label, request, version, add_to_txn.AddPartitionsToTxnResponse, show)

    def add_many(self, *asked: tuple[Txn, Sequence[tuple[Topic, Sequence[int]]], bool], label: str, version: int) -> None:
        """Several transactions in one request, as a broker sends it: (transaction, its topics, whether to verify only). Some come twice."""
        transactions = [
            add_to_txn.AddPartitionsToTxnTransaction(
                transactional_id=txn.name,
                producer_id=txn.pid,
                producer_epoch=txn.epoch,
                verify_only=verify_only,
                topics=[add_to_txn.AddPartitionsToTxnTopic(name=topic.name, partitions=list(parts)) for topic, parts in topics],
            )
            for txn, topics, verify_only in asked
        ]
        names = {txn.name: f"x{number}" for number, txn in enumerate(dict.fromkeys(txn for txn, _, _ in asked), start=1)}

        def show(answer: add_to_txn.AddPartitionsToTxnResponse) -> str:
            shown = [
                f"{names[txn.transactional_id]} {self.show_topic(topic.name)}-{one.partition_index} {error_name(one.partition_error_code)}"
                for txn in answer.results_by_transaction
                for topic in txn.topic_results
                for one in topic.results_by_partition
            ]
            return f"{error_name(answer.error_code)} [{'; '.join(sorted(shown))}]"

        request = add_to_txn.AddPartitionsToTxnRequest(transactions=transactions)
        self.note_answer(label, request, version, add_to_txn.AddPartitionsToTxnResponse, show)

    def add_twice(self, txn: Txn, topic: Topic, *, label: str) -> None:
        """AddPartitionsToTxn as a client sends it, with a topic twice and a partition three times."""
        named = (
            add_to_txn.AddPartitionsToTxnTopic(name=topic.name, partitions=[0, 0]),
            add_to_txn.AddPartitionsToTxnTopic(name=topic.name, partitions=[0, 1]),
        )
        request = add_to_txn.AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=txn.name,
            v3_and_below_producer_id=txn.pid,
            v3_and_below_producer_epoch=txn.epoch,
            v3_and_below_topics=list(named),
        )

        def show(answer: add_to_txn.AddPartitionsToTxnResponse) -> str:
            return "; ".join(
                sorted(
                    f"{self.show_topic(each.name)}-{part.partition_index} {error_name(part.partition_error_code)}"
                    for each in answer.results_by_topic_v3_and_below
                    for part in each.results_by_partition
                )
            )

        self.note_answer(label, request, 3, add_to_txn.AddPartitionsToTxnResponse, show)

    def write(
        self,
        txn: Txn,
        topic: Topic,
        sequence: int,
        *,
        label: str,
        version: int = 12,
        partition: int = 0,
        identity: tuple[int, int] | None = None,
    ) -> None:
        """Write one transactional record."""
        pid, epoch = identity or txn.identity
        batch = replace(of(pid, epoch, sequence), attributes=TRANSACTIONAL)
        self.produce(batch, topic, label=label, version=version, partition=partition, transactional_id=txn.name)

    def end(
        self,
        txn: Txn,
        *,
        label: str,
        commit: bool = True,
        version: int = 5,
        identity: tuple[int, int] | None = None,
        wait: bool = True,
    ) -> None:
        """EndTxn. An identity in the response is the id's from then on. `wait`: until the markers are written."""
        pid, epoch = identity or txn.identity
        request = end_txn.EndTxnRequest(transactional_id=txn.name, producer_id=pid, producer_epoch=epoch, committed=commit)

        def show(answer: end_txn.EndTxnResponse) -> str:
            if answer.error_code == 0 and answer.producer_id >= 0:
                txn.pid, txn.epoch = answer.producer_id, answer.producer_epoch
                self._name_producer(txn.pid)
            return f"{error_name(answer.error_code)} {self.show_producer(answer.producer_id)} epoch={answer.producer_epoch}"

        self.note_answer(label, request, version, end_txn.EndTxnResponse, show)
        if wait:
            self.settled(txn)

    def settled(self, txn: Txn) -> None:
        """Wait until no transaction of that id is about to end."""
        until(lambda: self._state(txn.name).transaction_state, "an end", good=lambda state: state not in ENDING, timeout_s=READY_TIMEOUT_S)

    def describe_txn(self, txn: Txn, *, label: str) -> None:
        state = self._state(txn.name)
        if state.error_code:
            self.note(label, error_name(state.error_code))
            return
        topics = [f"{self.show_topic(each.topic)}{sorted(each.partitions)}" for each in state.topics]
        started = self.show_time(state.transaction_start_time_ms)
        self.note(
            label,
            f"{error_name(state.error_code)} {state.transaction_state!r} timeout={state.transaction_timeout_ms} start={started}"
            f" {self.show_producer(state.producer_id)} epoch={state.producer_epoch} {'; '.join(sorted(topics))}",
        )

    def list_txns(
        self,
        *,
        label: str,
        version: int = 2,
        states: Sequence[str] = (),
        producers: Sequence[int] = (),
        duration_ms: int = -1,
        pattern: str | None = None,
    ) -> None:
        """Note this case's ids among the listed ones."""
        request = list_transactions.ListTransactionsRequest(
            state_filters=list(states), producer_id_filters=list(producers), duration_filter=duration_ms, transactional_id_pattern=pattern
        )
        names = {txn.name: f"x{number}" for number, txn in enumerate(self._txns(), start=1)}

        def show(answer: list_transactions.ListTransactionsResponse) -> str:
            shown = [
                f"{names[each.transactional_id]} {self.show_producer(each.producer_id)} {each.transaction_state!r}"
                for each in answer.transaction_states
                if each.transactional_id in names
            ]
            return f"{error_name(answer.error_code)} unknown={sorted(answer.unknown_state_filters)} [{'; '.join(sorted(shown))}]"

        self.note_answer(label, request, version, list_transactions.ListTransactionsResponse, show)

    def add_offsets(self, txn: Txn, group: str, *, label: str, version: int = 4, identity: tuple[int, int] | None = None) -> None:
        pid, epoch = identity or txn.identity
        request = add_to_txn.AddOffsetsToTxnRequest(transactional_id=txn.name, producer_id=pid, producer_epoch=epoch, group_id=group)
        self.note_answer(label, request, version, add_to_txn.AddOffsetsToTxnResponse, lambda answer: error_name(answer.error_code))

    def commit_in_txn(
        self,
        txn: Txn,
        group: str,
        offsets: Mapping[Topic, Mapping[int, int]],
        *,
        label: str,
        version: int = 5,
        identity: tuple[int, int] | None = None,
        generation: int = -1,
        member_id: str = "",
        instance: str | None = None,
        metadata: str | None = "",
    ) -> None:
        """TxnOffsetCommit."""
        pid, epoch = identity or txn.identity
        request = txn_offsets.TxnOffsetCommitRequest(
            transactional_id=txn.name,
            group_id=group,
            producer_id=pid,
            producer_epoch=epoch,
            generation_id=generation,
            member_id=member_id,
            group_instance_id=instance,
            topics=[
                txn_offsets.TxnOffsetCommitRequestTopic(
                    name=topic.name,
                    partitions=[
                        txn_offsets.TxnOffsetCommitRequestPartition(
                            partition_index=index, committed_offset=offset, committed_leader_epoch=0, committed_metadata=metadata
                        )
                        for index, offset in parts.items()
                    ],
                )
                for topic, parts in offsets.items()
            ],
        )

        def show(answer: txn_offsets.TxnOffsetCommitResponse) -> str:
            return "; ".join(
                sorted(
                    f"{self.show_topic(topic.name)} p{each.partition_index} {error_name(each.error_code)}"
                    for topic in answer.topics
                    for each in topic.partitions
                )
            )

        self.note_answer(label, request, version, txn_offsets.TxnOffsetCommitResponse, show)

    def mark(
        self,
        identity: tuple[int, int],
        topic: Topic,
        *,
        label: str,
        commit: bool = False,
        partitions: Sequence[int] = (0,),
        coordinator_epoch: int = 0,
        transaction_version: int = 0,
        version: int = 2,
    ) -> None:
        """WriteTxnMarkers, sent as an administrator."""
        marker = end_txn.WritableTxnMarker(
            producer_id=identity[0],
            producer_epoch=identity[1],
            transaction_result=commit,
            topics=[end_txn.WritableTxnMarkerTopic(name=topic.name, partition_indexes=list(partitions))],
            coordinator_epoch=coordinator_epoch,
            transaction_version=transaction_version,
        )

        def show(answer: end_txn.WriteTxnMarkersResponse) -> str:
            shown = (
                f"{self.show_producer(each.producer_id)} {self.show_topic(topic.name)}-{part.partition_index} {error_name(part.error_code)}"
                for each in answer.markers
                for topic in each.topics
                for part in topic.partitions
            )
            return "; ".join(sorted(shown))

        self.note_answer(label, end_txn.WriteTxnMarkersRequest(markers=[marker]), version, end_txn.WriteTxnMarkersResponse, show)

    def log_of(self, txn: Txn, *, label: str) -> None:
        """What the coordinator wrote about that id, and whether the stub writes the same bytes, apart from the order of partitions."""
        topic = self.known_topic(STATE_TOPIC)
        index = partition_for(txn.name, len(topic.leaders))
        node = topic.leaders[index]
        # Earlier cases may have written thousands of records.
        latest = wire.ListOffsetsPartition(partition_index=index, timestamp=-1)
        end = self.ask(list_offsets_request(topic, [latest]), 7, wire.ListOffsetsResponse, node=node).topics[0].partitions[0].offset
        request = fetch_request([(topic, index, max(0, end - LOOKED_AT))], FETCH_VERSION)
        answer = self.ask(request, FETCH_VERSION, wire.FetchResponse, node=node)
        stored = bytes(answer.responses[0].partitions[0].records or b"")
        shown = []
        for header, batch in iter_batches(stored):
            for record in read_records(batch):
                assert record.key is not None
                assert record.value is not None
                name, read = read_txn(record.key, record.value)
                if name != txn.name or read is None:
                    continue
                flexible = record.value[:2] == b"\0\1"
                same = sorted(txn_value(read, flexible=flexible)) == sorted(record.value) and txn_key(name) == record.key
                shown.append(
                    f"{read.state.name} {self.show_producer(read.producer_id)} before={self.show_producer(read.previous_producer_id)}"
                    f" next={read.next_producer_id} epoch={read.epoch} timeout={read.timeout_ms} client={read.client_version}"
                    f" {sorted(partition for _, partition in read.partitions)} start={self.show_time(read.start_ms)}"
                    f" updated={self.show_time(read.updated_ms)} attributes={header.attributes} flexible={flexible} same={same}"
                )
        for number, each in enumerate(shown, start=1):
            self.note(f"{label} {number}", each)

    def show_producer(self, pid: int) -> str:
        return "-" if pid == -1 else self._pids.get(pid, str(pid))

    def _init(self, txn: Txn, expected: tuple[int, int], version: int, timeout_ms: int) -> wire.InitProducerIdResponse:
        request = wire.InitProducerIdRequest(
            transactional_id=txn.name, transaction_timeout_ms=timeout_ms, producer_id=expected[0], producer_epoch=expected[1]
        )
        answer = until(
            lambda: self.ask(request, version, wire.InitProducerIdResponse),
            "a final answer",
            good=lambda answer: answer.error_code not in LATER,
            timeout_s=READY_TIMEOUT_S,
        )
        if answer.error_code == 0:
            txn.pid, txn.epoch = answer.producer_id, answer.producer_epoch
            self._name_producer(txn.pid)
        return answer

    def _name_producer(self, pid: int) -> None:
        self._pids.setdefault(pid, f"p{len(self._pids) + 1}")

    def _state(self, name: str) -> describe_transactions.TransactionState:
        request = describe_transactions.DescribeTransactionsRequest(transactional_ids=[name])
        return self.ask(request, 0, describe_transactions.DescribeTransactionsResponse).transaction_states[0]

    def _txns(self) -> list[Txn]:
        txns: list[Txn] = self.__dict__.setdefault("_transactions", [])
        return txns
