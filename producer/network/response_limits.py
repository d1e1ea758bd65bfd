"""How large an answer may be, by what was asked: a broker that says much more only means to keep the producer busy.

To read a megabyte of small parts takes the event loop 20 to 120 ms, and meanwhile no other broker is heard. So an answer about a few things
is given a megabyte, and Metadata what its topics can plausibly need: a partition takes 20 to 60 bytes. Whoever asks about all topics, or
reads records, takes what fits in a frame.
"""

from __future__ import annotations

from typing import Final

from fencepost.producer.wire.codes import Api
from fencepost.producer.wire.frame import FRAME_BYTES_MAX
from fencepost.producer.wire.message import Message
from fencepost.producer.wire.messages import MetadataRequest

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
"""Where it is more than one MiB."""

METADATA_TOPIC_BYTES: Final = MIB
METADATA_BYTES_MAX: Final = 16 * MIB


def answer_bytes_max(asked: Message) -> int:
    """The largest answer that is taken."""
    if not isinstance(asked, MetadataRequest):
        return BYTES_MAX.get(asked.api, MIB)
    if asked.topics is None:
        return FRAME_BYTES_MAX
    return min(METADATA_BYTES_MAX, 2 * MIB + len(asked.topics) * METADATA_TOPIC_BYTES)
