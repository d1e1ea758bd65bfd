"""What matters of the batches in a Produce request, and of the partitions' results in its response."""

from __future__ import annotations

from typing import Any, Final

from fencepost.broker_stub.inspector.message_tree import NameOf
from fencepost.producer.wire import ZERO_UUID, Message, ProduceRequest, error_name
from fencepost.producer.wire.records import CorruptBatch, read_header

Facts = dict[str, Any]
UNKNOWN_TOPIC: Final = "?"


def topic_of(entry: Any, name_of: NameOf) -> str:
    """The topic that an entry names, by its name or by its id."""
    for field in ("topic", "name", "topic_name"):
        if isinstance(name := getattr(entry, field, None), str) and name:
            return name
    topic_id = getattr(entry, "topic_id", ZERO_UUID)
    return UNKNOWN_TOPIC if topic_id == ZERO_UUID else name_of(topic_id) or str(topic_id)


def produced(request: ProduceRequest, name_of: NameOf) -> list[Facts]:
    """One entry for each partition: `topic`, `partition`, and of its batch `pid`, `epoch`, `seq` to `last`, `count`, `bytes`, `txn`.
    Without a producer id also `crc` and `stamp`, its newest timestamp."""
    found = []
    for topic in request.topic_data:
        name = topic_of(topic, name_of)
        for part in topic.partition_data:
            found.append({"topic": name, "partition": part.index, **_batch(part.records)})
    return found


def _batch(records: bytes | bytearray | memoryview | None) -> Facts:
    if not records:
        return {"count": 0}
    try:
        header = read_header(records)
    except CorruptBatch as error:
        return {"count": 0, "unreadable": str(error)}
    known = {"crc": header.crc, "stamp": header.max_timestamp} if header.producer_id < 0 else {}
    return {
        **known,
        "count": header.records_count,
        "pid": header.producer_id,
        "epoch": header.producer_epoch,
        "seq": header.base_sequence,
        "last": header.last_sequence,
        "bytes": header.size,
        "txn": header.is_transactional,
    }


def add_results(batches: list[Facts], response: Message, name_of: NameOf) -> None:
    """Adds the result of each partition to its entry: `offset`, or `code` and `why`."""
    by_partition = {(each["topic"], each["partition"]): each for each in batches}
    for topic in getattr(response, "responses", ()):
        name = topic_of(topic, name_of)
        for part in topic.partition_responses:
            batch = by_partition.get((name, part.index))
            if batch is None:
                continue
            if not part.error_code:
                batch["offset"] = part.base_offset
                continue
            batch["code"] = error_name(part.error_code)
            if part.error_message:
                batch["why"] = part.error_message[:300]
            if part.record_errors:
                batch["records"] = [[each.batch_index, each.batch_index_error_message] for each in part.record_errors[:20]]


def batch_text(batch: Facts) -> str:
    """Such as `orders-0: 3 records, pid 4000 epoch 0 seq 0-2`."""
    where = f"{batch['topic']}-{batch['partition']}"
    count = batch["count"]
    text = f"{where}: {count} record{'' if count == 1 else 's'}"
    if batch.get("pid", -1) >= 0:
        text += f", {identity(batch['pid'], batch['epoch'])} seq {batch['seq']}-{batch['last']}"
    return text


def result_text(batch: Facts) -> str:
    """Such as `offset 12`, or the name of the error code."""
    if "code" in batch:
        index = f" (record {batch['records'][0][0]})" if batch.get("records") else ""
        return f"{batch['code']}{index}"
    return f"offset {batch['offset']}" if "offset" in batch else ""


def identity(pid: int, epoch: int) -> str:
    return f"pid {pid} epoch {epoch}"
