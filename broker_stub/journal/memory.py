"""The memory that a message takes, and the message without its large record batches.

Of a record batch above 4 KiB only the header stays, which has producer id, epoch, sequence and count. No frame is kept alive.
"""

from __future__ import annotations

from sys import getsizeof
from typing import Any

import msgspec

from fencepost.producer.wire import Api, Message
from fencepost.producer.wire.records import BATCH_OVERHEAD

RECORDS_BYTES_MAX = 4096  # record batches up to here are kept whole
NUMBER_BYTES = 32


def lightened(message: Message) -> Message:
    """The message without its large record batches; the same message if it has none."""
    walk = _WITH_RECORDS.get((message.api, message.is_request))
    if walk is None:
        return message
    topics, partitions = walk
    lighter = [
        msgspec.structs.replace(topic, **{partitions: [_light(each) for each in getattr(topic, partitions)]})
        for topic in getattr(message, topics)
    ]
    return msgspec.structs.replace(message, **{topics: lighter})


_WITH_RECORDS = {(Api.PRODUCE, True): ("topic_data", "partition_data"), (Api.FETCH, False): ("responses", "partitions")}


def footprint(message: Message, most: int) -> int:
    """The bytes of memory that a message takes, up to a hundred times its frame's. Stops counting above `most`."""
    total = 0
    waiting: list[Any] = [message]
    while waiting and total <= most:
        value = waiting.pop()
        total += getsizeof(value)
        if isinstance(value, msgspec.Struct):
            waiting += [each for name in value.__struct_fields__ if not isinstance(each := getattr(value, name), int)]
        elif isinstance(value, list) and total <= most:
            if value and isinstance(value[0], int):
                total += NUMBER_BYTES * len(value)
            else:
                waiting += value
    return total


def _light(partition: Any) -> Any:
    """A copy of a small batch, or of a large one's header, so that the frame can be freed."""
    records = partition.records
    if records is None:
        return partition
    return msgspec.structs.replace(partition, records=bytes(records if len(records) <= RECORDS_BYTES_MAX else records[:BATCH_OVERHEAD]))
