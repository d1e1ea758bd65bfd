"""The records that a group's coordinator wrote into `__consumer_offsets`, and whether the stub writes the same bytes."""

from __future__ import annotations

from fencepost.broker_stub.cluster.coordinator_partition import partition_for
from fencepost.broker_stub.cluster.topics import OFFSETS_TOPIC
from fencepost.broker_stub.groups.state.classic_and_offset_records import (
    WITH_EXPIRY,
    GroupRecord,
    OffsetRecord,
    group_key,
    group_value,
    offset_key,
    offset_value,
    read_record,
)
from fencepost.producer import wire
from fencepost.producer.wire.records import BatchHeader, ControlType, iter_batches, read_marker, read_records
from tests.conformance.asks_fetch import FETCH_VERSION, fetch_request
from tests.conformance.asks_groups import GroupAsks
from tests.conformance.asks_txn import TxnAsks


class OffsetAsks(GroupAsks, TxnAsks):
    """A part of the world of a case."""

    def records_of(self, group: str, *, label: str, in_order: bool = True) -> None:
        """Note every record of the group, and the markers of the case's producers.

        The records of one batch are sorted, because Kafka does not promise the order in which a coordinator writes them. `in_order`: all
        are sorted if this is False, because what Kafka writes at once depends on how fast it resolves a regular expression.
        """
        topic = self.known_topic(OFFSETS_TOPIC)
        index = partition_for(group, len(topic.leaders))
        request = fetch_request([(topic, index, 0)], FETCH_VERSION)
        answer = self.ask(request, FETCH_VERSION, wire.FetchResponse, node=topic.leaders[index])
        shown: list[str] = []
        for header, batch in iter_batches(bytes(answer.responses[0].partitions[0].records or b"")):
            if header.is_control:
                if header.producer_id in self._pids:
                    shown.append(f"{ControlType(read_marker(batch)[0]).name} of {self._batch(header)}")
                continue
            found = [self._record(group, record.key or b"", record.value) for record in read_records(batch)]
            shown += sorted(f"{each} in a batch of {self._batch(header)}" for each in found if each)
        for number, each in enumerate(shown if in_order else sorted(shown), start=1):
            self.note(f"{label} {number}", each)

    def _batch(self, header: BatchHeader) -> str:
        return f"{self.show_producer(header.producer_id)} epoch={header.producer_epoch} attributes={header.attributes}"

    def _record(self, group: str, key: bytes, value: bytes | None) -> str:
        """One record in short form; empty for another group's record."""
        read = read_record(key, value)
        if isinstance(read, GroupRecord) and read.group_id == group:
            return self._group_record(read, key, value)
        if isinstance(read, OffsetRecord) and read.key[0] == group:
            return self._offset_record(read, key, value)
        return ""

    def _offset_record(self, read: OffsetRecord, key: bytes, value: bytes | None) -> str:
        where = f"{self.show_topic(read.key[1])} p{read.key[2]}"
        committed = read.committed
        if committed is None or value is None:
            return f"{where} is gone, same={offset_key(read.key) == key}"
        version = int.from_bytes(value[:2])
        written = offset_value(committed, with_ids=version > WITH_EXPIRY + 2)
        expires = f" expires after {committed.expires_ms - committed.at_ms}" if committed.expires_ms != -1 else ""
        return (
            f"{where} v{version} {committed.offset} epoch={committed.leader_epoch} {committed.metadata!r}"
            f" at={self.show_time(committed.at_ms)}{expires} topic={self.show_topic('', committed.topic_id)}"
            f" same={(offset_key(read.key), written) == (key, value)}"
        )

    def _group_record(self, read: GroupRecord, key: bytes, value: bytes | None) -> str:
        found = read.value
        if found is None or value is None:
            return f"the group is gone, same={group_key(read.group_id) == key}"
        members = [
            f"{self.show_member(each.member_id)} {each.group_instance_id} {each.client_id} {each.client_host} {each.rebalance_timeout}"
            f" {each.session_timeout} {self.show_data(each.subscription)} {self.show_data(each.assignment)}"
            for each in found.members
        ]
        leader = self.show_member(found.leader) if found.leader is not None else None
        return (
            f"the group v{int.from_bytes(value[:2])} {found.protocol_type!r} generation={found.generation} protocol={found.protocol!r}"
            f" leader={leader} at={self.show_time(found.current_state_timestamp)} {sorted(members)}"
            f" same={(group_key(read.group_id), group_value(found)) == (key, value)}"
        )
