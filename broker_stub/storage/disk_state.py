"""The health of one broker's disk, which a test can change, and the error when the disk fails."""

from __future__ import annotations

import errno
import os
from typing import Final, Literal

DiskFault = Literal["full", "failed"]
FAULTS: Final[dict[DiskFault, int]] = {"full": errno.ENOSPC, "failed": errno.EIO}
"""What the system says to a write; a failed disk says it to a read, too."""


class StorageFailed(OSError):
    """A read or write of a broker's disk failed. Apache Kafka takes that log directory offline, and halts a broker that has no other one.
    `disk`: the one that failed."""

    def __init__(self, disk: DiskState, cause: OSError) -> None:
        super().__init__(cause.errno, f"{disk} fails: {cause.strerror or cause}")
        self.disk = disk

    @property
    def node_id(self) -> int:
        """The broker; 0 for what the controller keeps."""
        return self.disk.node_id


class DiskState:
    """See the module. `node_id`: the broker's; 0 for the controller's. `number`: from 1 on, of a broker with several; 0 for the only one.
    `fault`: None while it works."""

    __slots__ = ("fault", "node_id", "number")

    def __init__(self, node_id: int = 0, fault: DiskFault | None = None, *, number: int = 0) -> None:
        self.node_id = node_id
        self.number = number
        self.fault = fault

    def __str__(self) -> str:
        if not self.node_id:
            return "the disk of the controller"
        return f"disk {self.number} of broker {self.node_id}" if self.number else f"the disk of broker {self.node_id}"

    def check_write(self) -> None:
        """Raises StorageFailed if the disk takes nothing."""
        if self.fault is not None:
            code = FAULTS[self.fault]
            raise StorageFailed(self, OSError(code, os.strerror(code)))

    def check_read(self) -> None:
        """Raises StorageFailed if the disk gives nothing."""
        if self.fault == "failed":
            self.check_write()
