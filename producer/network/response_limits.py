"""How large the response to each request may be. A malicious broker could otherwise keep the producer busy with huge responses.

Decoding a megabyte of small parts takes the event loop 20 to 120 ms, and no other broker is served meanwhile. So most responses may have
one megabyte. The limit of Metadata grows with the topics of the request: a partition takes 20 to 60 bytes. Metadata of all topics, and
responses with records, may fill a frame.
"""

from __future__ import annotations

from typing import Final

from fencepost.producer.wire import MetadataRequest
from fencepost.producer.wire.codes import Api
from fencepost.producer.wire.frame import FRAME_BYTES_MAX
from fencepost.producer.wire.message import Message

MIB: Final = 1024 * 1024
BYTES_MAX: Final[dict[int, int]] = {
    Api.FETCH: FRAME_BYTES_MAX,
    Api.PRODUCE: 4 * MIB,
    Api.LIST_OFFSETS: 4 * MIB,
    Api.DESCRIBE_PRODUCERS: 16 * MIB,
    Api.DESCRIBE_TRANSACTIONS: 16 * MIB,
    Api.LIST_TRANSACTIONS: 16 * MIB,
    Api.LIST_GROUPS: 16 * MIB,
    Api.OFFSET_FETCH: 16 * MIB,
    Api.DESCRIBE_CONFIGS: 16 * MIB,
}
"""The requests whose responses may have more than one MiB."""

METADATA_TOPIC_BYTES: Final = MIB
METADATA_BYTES_MAX: Final = 16 * MIB


def answer_bytes_max(asked: Message) -> int:
    """The largest response to this request that is accepted."""
    if not isinstance(asked, MetadataRequest):
        return BYTES_MAX.get(asked.api, MIB)
    if asked.topics is None:
        return FRAME_BYTES_MAX
    return min(METADATA_BYTES_MAX, 2 * MIB + len(asked.topics) * METADATA_TOPIC_BYTES)
