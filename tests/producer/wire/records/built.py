"""The batch that a `BatchBuilder` makes."""

from __future__ import annotations

from fencepost.producer.wire.codecs.codec import Codec
from fencepost.producer.wire.records.batch_builder import BatchBuilder
from fencepost.producer.wire.records.batch_header import pack_batch


def built(builder: BatchBuilder, codec: Codec = Codec.NONE, *, pid: int = -1, epoch: int = -1, sequence: int = -1) -> bytes:
    """The builder's records as a batch with this identity."""
    count, base, highest = builder.count, builder.base_timestamp, builder.max_timestamp
    return pack_batch(
        builder.payload(codec),
        attributes=codec,
        last_offset_delta=count - 1,
        base_timestamp=base,
        max_timestamp=highest,
        records_count=count,
        producer_id=pid,
        producer_epoch=epoch,
        base_sequence=sequence,
    )
