"""The errors that a fault rule puts into a response."""

from __future__ import annotations

from typing import Any

from fencepost.broker_stub.faults.topics_and_partitions import with_error
from fencepost.producer import wire


def test_an_answer_that_is_made_to_fail_keeps_nothing_of_its_success() -> None:
    """with_error puts the code where it belongs and takes away what only a success carries; what is not covered stays as it was."""

    def failed(response: wire.Message, *, partition: int | None = None) -> Any:
        return with_error(response, 7, lambda _, index: partition in (None, index), lambda _: None)

    assert failed(wire.InitProducerIdResponse(producer_id=5, producer_epoch=0)) == wire.InitProducerIdResponse(
        error_code=7, producer_id=-1, producer_epoch=-1
    )
    brokers = [wire.MetadataResponseBroker(node_id=1, host="h", port=1)]
    topics = [wire.MetadataResponseTopic(name="t", partitions=[wire.MetadataResponsePartition(leader_id=1)])]
    known = failed(wire.MetadataResponse(brokers=brokers, topics=topics))
    assert (known.brokers, known.topics[0].error_code, known.topics[0].partitions) == (brokers, 7, [])
    answers = [wire.PartitionProduceResponse(index=index, base_offset=9, log_append_time_ms=3) for index in (0, 1)]
    produced = failed(wire.ProduceResponse(responses=[wire.TopicProduceResponse(name="t", partition_responses=answers)]), partition=1)
    good, bad = produced.responses[0].partition_responses
    assert good == answers[0]
    assert (bad.error_code, bad.base_offset, bad.log_append_time_ms) == (7, -1, -1)
    found = failed(wire.FindCoordinatorResponse(coordinators=[wire.Coordinator(key="g", node_id=1, host="h", port=1)]))
    assert found.coordinators == [wire.Coordinator(key="g", node_id=-1, host="", port=-1, error_code=7)]
