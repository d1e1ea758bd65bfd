"""A partition's log as its broker's files show it, also while the broker is dead.

Only headers are read until a caller asks for the records of a batch. Only logs of one segment, which is enough for a gigabyte.
"""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct

from fencepost.producer.wire.records import BATCH_OVERHEAD, LOG_OVERHEAD, BatchHeader, Record, check_crc, read_header, read_records
from tests.conformance.kafka import KafkaCluster


class BatchOnDisk(Struct, frozen=True):
    """One batch, whole."""

    position: int
    header: BatchHeader

    @property
    def identity(self) -> tuple[int, int, int]:
        return (self.header.producer_id, self.header.producer_epoch, self.header.base_sequence)


class PartitionFile:
    """A replica's segment file; `refresh` takes in what was appended since."""

    def __init__(self, cluster: KafkaCluster, node: int, topic: str, partition: int) -> None:
        self._path = cluster.brokers[node].directory / "data" / f"{topic}-{partition}" / "00000000000000000000.log"
        self._position = 0
        self.batches: list[BatchOnDisk] = []

    @property
    def path(self) -> Path:
        return self._path

    def refresh(self) -> list[BatchOnDisk]:
        """Every whole batch, oldest first. A batch that is only half there is not there."""
        if not self._path.exists():
            return self.batches
        size = self._path.stat().st_size
        with self._path.open("rb") as file:
            while self._position + BATCH_OVERHEAD <= size:
                file.seek(self._position)
                head = file.read(BATCH_OVERHEAD)
                if len(head) < BATCH_OVERHEAD:
                    break  # it was cut off meanwhile
                header = read_header(head)
                end = self._position + LOG_OVERHEAD + header.batch_length
                if end > size or header.batch_length <= 0:
                    break
                self.batches.append(BatchOnDisk(self._position, header))
                self._position = end
        return self.batches

    def records(self, batch: BatchOnDisk) -> list[Record]:
        """The records of one batch, its checksum verified."""
        with self._path.open("rb") as file:
            file.seek(batch.position)
            data = file.read(LOG_OVERHEAD + batch.header.batch_length)
        assert check_crc(data), f"{self._path} at {batch.position}: the checksum does not match"
        return read_records(data)
