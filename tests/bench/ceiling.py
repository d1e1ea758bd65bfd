"""The ceiling: replays Produce requests that were encoded before, on one socket with five in flight.

The batches have a real producer id and real sequences, so the broker does the same work as for any idempotent producer. The replay has no
deadline besides the socket's, and retries nothing.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

from fencepost.producer.accumulator.partitioner import partition_for_key
from fencepost.producer.wire import (
    ErrorCode,
    InitProducerIdRequest,
    InitProducerIdResponse,
    ProduceRequest,
    ProduceResponse,
    encode_request,
    error_name,
)
from fencepost.producer.wire.messages.produce import PartitionProduceData, TopicProduceData
from fencepost.producer.wire.records import BatchBuilder, Codec
from fencepost.producer.wire.records.batch_header import pack_batch
from fencepost.producer.wire.records.sizes import RECORD_OVERHEAD_MAX
from tests.bench.load import Figures, Load
from tests.conformance.raw import RawConnection

BATCH_HEADER_BYTES = 61
IN_FLIGHT = 5
PRODUCE_VERSION = 9
INIT_PRODUCER_ID_VERSION = 4
TIMEOUT_S = 60.0


def replay(load: Load) -> Figures:
    """Encode all records of the load, then send them as fast as the broker takes them."""
    host, _, port = load.bootstrap.split(",")[0].rpartition(":")
    with RawConnection((host, int(port)), timeout=TIMEOUT_S) as connection:
        frames, asked = encode_all(load, identity_of(connection)), ProduceRequest()
        cpu_ns, began_ns = time.process_time_ns(), time.perf_counter_ns()
        for number, frame in enumerate(frames):
            if number >= IN_FLIGHT:
                check(connection.receive(asked, PRODUCE_VERSION, correlation_id=number - IN_FLIGHT))
            connection.send_bytes(frame)
        for number in range(max(0, len(frames) - IN_FLIGHT), len(frames)):
            check(connection.receive(asked, PRODUCE_VERSION, correlation_id=number))
        spent_ns, cpu_ns = time.perf_counter_ns() - began_ns, time.process_time_ns() - cpu_ns
    return Figures(acked=load.records, acked_per_s=load.records * 1e9 / spent_ns, cpu_ns=cpu_ns / load.records)


def identity_of(connection: RawConnection) -> tuple[int, int]:
    """Get a producer id and epoch from the broker."""
    deadline = time.monotonic() + TIMEOUT_S
    while True:
        answer = connection.ask(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000), INIT_PRODUCER_ID_VERSION)
        assert isinstance(answer, InitProducerIdResponse)
        if not answer.error_code:
            return answer.producer_id, answer.producer_epoch
        if answer.error_code != ErrorCode.COORDINATOR_LOAD_IN_PROGRESS or time.monotonic() > deadline:
            raise RuntimeError(f"InitProducerId was answered with {error_name(answer.error_code)}")


def encode_all(load: Load, identity: tuple[int, int]) -> list[bytes]:
    """Every record in batches of the load's size, one batch per request, as frames that can be written."""
    sequences = [0] * load.partitions
    frames: list[bytes] = []
    codec = Codec[load.codec.upper()]
    for partition, builder in fill_batches(load):
        batch = pack_batch(
            builder.payload(codec),
            attributes=codec,
            last_offset_delta=int(builder.count) - 1,
            base_timestamp=int(builder.base_timestamp),
            max_timestamp=int(builder.max_timestamp),
            producer_id=identity[0],
            producer_epoch=identity[1],
            base_sequence=sequences[partition],
            records_count=int(builder.count),
        )
        sequences[partition] += int(builder.count)
        request = ProduceRequest(
            acks=-1,
            timeout_ms=30_000,
            topic_data=[TopicProduceData(name=load.topic, partition_data=[PartitionProduceData(index=partition, records=batch)])],
        )
        frames.append(b"".join(encode_request(request, PRODUCE_VERSION, correlation_id=len(frames), client_id="ceiling")))
    return frames


def fill_batches(load: Load) -> Iterator[tuple[int, BatchBuilder]]:
    """The batches, in the order in which they fill up, as a producer would send them."""
    places = [(key, partition_for_key(key, load.partitions)) for key in load.keys]
    value, now_ms = load.value, int(time.time() * 1000)
    room = load.batch_bytes - RECORD_OVERHEAD_MAX - len(places[0][0]) - len(value)
    open_batches = [BatchBuilder() for _ in range(load.partitions)]
    for number in range(load.records):
        key, partition = places[number % len(places)]
        builder = open_batches[partition]
        builder.append(now_ms, key, value, None)
        if builder.size > room:
            open_batches[partition] = BatchBuilder()
            yield partition, builder
    for partition, builder in enumerate(open_batches):
        if builder.count:
            yield partition, builder


def check(answer: object) -> None:
    """Check that the broker appended every batch."""
    assert isinstance(answer, ProduceResponse)
    for topic in answer.responses:
        for partition in topic.partition_responses:
            if partition.error_code:
                raise RuntimeError(f"{topic.name}-{partition.index}: {error_name(partition.error_code)}")
