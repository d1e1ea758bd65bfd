"""Finds the offsets of batches that a later batch confirmed, by reading batch headers from the log (Fetch)."""

from __future__ import annotations

from collections.abc import Sequence

from fencepost.producer.core.idempotence.in_flight_batch import InFlightBatch
from fencepost.producer.core.idempotence.sequence import distance
from fencepost.producer.errors import DeliveryUnknown
from fencepost.producer.wire.records.batch_header import BatchHeader


class OffsetSearch:
    """The search in one partition's log. `end_offset`: the offset after the last published batch, so all batches of the window are at or
    after it. `_read_to`: the log was read up to this offset. `_asked`: a Fetch is in flight, and its response is still valid."""

    def __init__(self) -> None:
        self.end_offset = 0
        self._read_to = 0
        self._asked = False

    def begin(self) -> int:
        """Begin to read the log, and return the first offset at which an unplaced batch can be."""
        self._asked = True
        return max(self.end_offset, self._read_to)

    def read(self, headers: Sequence[BatchHeader], in_flight_batches: Sequence[InFlightBatch]) -> bool:
        """Use the batches of a Fetch response, all below the high watermark. An unplaced batch that the reading passed is not in the log
        any more (deleted, or compacted). Returns whether to read on at once: False if there was nothing new, or if the search changed after
        the Fetch was sent."""
        if not self._asked:
            return False
        begun = self.begin()
        for header in headers:
            self._read_to = max(self._read_to, header.last_offset + 1)
            for in_flight in in_flight_batches:
                if in_flight.unplaced and in_flight.identity == (header.producer_id, header.producer_epoch):
                    before = distance(header.base_sequence, in_flight.base_sequence)
                    if 0 <= before <= header.last_offset_delta:
                        in_flight.place(header.base_offset + before, header.max_timestamp if header.timestamp_type else -1)
        for place, in_flight in enumerate(in_flight_batches):
            after = [later.base_offset for later in in_flight_batches[place + 1 :] if later.base_offset >= 0]
            if in_flight.unplaced and not in_flight.decided and after and self._read_to >= after[0]:
                in_flight.fail(DeliveryUnknown, "acknowledged, but not in the log any more when its offset was looked up")
        return self._read_to > begun

    def read_again(self) -> None:
        """The reading so far may have passed a batch that is searched from now on."""
        self._read_to = 0
        self._asked = False

    def start_over(self) -> None:
        """Search the whole log: it does not have the offset at which it was read."""
        self.end_offset = 0
        self.read_again()
