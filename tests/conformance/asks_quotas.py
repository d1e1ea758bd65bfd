"""Questions about quotas: set and described quotas, and how long they throttle a client."""

from __future__ import annotations

from collections.abc import Mapping

from fencepost.producer import wire
from fencepost.producer.wire import error_name
from fencepost.producer.wire.messages.alter_quotas import AlterClientQuotasRequest, AlterClientQuotasResponse, EntityData, EntryData, OpData
from fencepost.producer.wire.messages.describe_quotas import ComponentData, DescribeClientQuotasRequest, DescribeClientQuotasResponse
from tests.conformance.raw import RawConnection
from tests.conformance.stage import READY_TIMEOUT_S, Stage, Topic
from tests.waiting import until

Entity = Mapping[str, str | None]
Values = Mapping[str, float | None]


def entry(entity: Entity, values: Values) -> EntryData:
    """None as a value removes the quota."""
    return EntryData(
        entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in entity.items()],
        ops=[OpData(key=key, value=value or 0.0, remove=value is None) for key, value in values.items()],
    )


def about(entity: Entity, *, strict: bool = True) -> DescribeClientQuotasRequest:
    """The quotas of exactly that entity."""
    return DescribeClientQuotasRequest(
        components=[ComponentData(entity_type=kind, match_type=0 if name is not None else 1, match=name) for kind, name in entity.items()],
        strict=strict,
    )


class QuotaAsks(Stage):
    """A part of the world of a case."""

    def client(self, number: int = 1) -> str:
        """A client id of this run. All have the same length."""
        return f"client-{self._run}-{number}"

    def limit(self, entity: Entity, values: Values) -> None:
        """Set quotas, and wait until the broker applies them."""
        self._set(entity, values)
        # A broker describes quotas before it applies them. Once it describes a later quota, it applies the earlier ones.
        self._set({"client-id": self.client(0)}, {"request_percentage": 1e6 + self._names})
        self._names += 1

    def throttled_produce(self, topic: Topic, size_bytes: int, *, client: str, label: str, acks: int = -1, version: int = 9) -> None:
        """Send one record of that size on a new connection, and note the throttle time."""
        from tests.conformance.batches import Rec, plain

        data = wire.PartitionProduceData(records=plain(Rec(value=bytes(size_bytes))).encode())
        topics = [wire.TopicProduceData(name=topic.name, partition_data=[data])]
        request = wire.ProduceRequest(acks=acks, timeout_ms=1000, topic_data=topics)
        with self.open(client_id=client) as connection:
            answer = connection.ask(request, version)
            assert isinstance(answer, wire.ProduceResponse)
            code = answer.responses[0].partition_responses[0].error_code
            self.note(label, f"{error_name(code)} throttled for {answer.throttle_time_ms}")

    def throttled_fetches(self, connection: RawConnection, topic: Topic, *, session: tuple[int, int], label: str, version: int = 12) -> int:
        """A Fetch from the start of the topic in that session; returns the session's id."""
        parts = [wire.FetchPartition(partition_max_bytes=1 << 20)]
        request = wire.FetchRequest(
            max_wait_ms=0,
            max_bytes=1 << 20,
            session_id=session[0],
            session_epoch=session[1],
            topics=[wire.FetchTopic(topic=topic.name, partitions=parts)] if session[1] <= 0 else [],
        )
        answer = connection.ask(request, version)
        assert isinstance(answer, wire.FetchResponse)
        sizes = [len(part.records or b"") for each in answer.responses for part in each.partitions]
        self.note(
            label,
            f"{error_name(answer.error_code)} throttled for {answer.throttle_time_ms} records={sizes} session={answer.session_id != 0}",
        )
        return answer.session_id

    def _set(self, entity: Entity, values: Values) -> None:
        answer = self.ask(AlterClientQuotasRequest(entries=[entry(entity, values)]), 1, AlterClientQuotasResponse)
        assert [each.error_code for each in answer.entries] == [0], answer
        wanted = {key: repr(value) for key, value in values.items() if value is not None}  # as text, because NaN is not equal to NaN
        gone = values.keys() - wanted.keys()

        def told() -> dict[str, str]:
            found = self.ask(about(entity), 1, DescribeClientQuotasResponse).entries or []
            return {each.key: repr(each.value) for one in found for each in one.values}

        until(told, "the new quotas", good=lambda now: wanted.items() <= now.items() and not gone & now.keys(), timeout_s=READY_TIMEOUT_S)
