"""A partition's log in its broker's files, also while the broker is dead.

It reads only headers until a caller asks for the records of a batch. It reads logs of one segment, which is enough for a gigabyte.
"""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct

from fencepost.producer.wire.records import BATCH_OVERHEAD, LOG_OVERHEAD, BatchHeader, Record, check_crc, read_header, read_records
from tests.conformance.kafka import KafkaCluster


class BatchOnDisk(Struct, frozen=True):
    """One whole batch."""

    position: int
    header: BatchHeader

    @property
    def identity(self) -> tuple[int, int, int]:
        return (self.header.producer_id, self.header.producer_epoch, self.header.base_sequence)


class PartitionFile:
    """A replica's segment file. `refresh` reads what was appended since."""

    def __init__(self, cluster: KafkaCluster, node: int, topic: str, partition: int) -> None:
        self._path = cluster.brokers[node].directory / "data" / f"{topic}-{partition}" / "00000000000000000000.log"
        self._position = 0
        self.batches: list[BatchOnDisk] = []

    @property
    def path(self) -> Path:
        return self._path

    def refresh(self) -> list[BatchOnDisk]:
        """Every whole batch, oldest first. A partial batch at the end is left out."""
        if not self._path.exists():
            return self.batches
        size = self._path.stat().st_size
        with self._path.open("rb") as file:
            while self._position + BATCH_OVERHEAD <= size:
                file.seek(self._position)
                head = file.read(BATCH_OVERHEAD)
                if len(head) < BATCH_OVERHEAD:
                    break  # the log was truncated meanwhile
                header = read_header(head)
                end = self._position + LOG_OVERHEAD + header.batch_length
                if end > size or header.batch_length <= 0:
                    break
                self.batches.append(BatchOnDisk(self._position, header))
                self._position = end
        return self.batches

    def records(self, batch: BatchOnDisk) -> list[Record]:
        """The records of one batch, after its checksum was verified."""
        with self._path.open("rb") as file:
            file.seek(batch.position)
            data = file.read(LOG_OVERHEAD + batch.header.batch_length)
        assert check_crc(data), f"{self._path} at {batch.position}: the checksum does not match"
        return read_records(data)
