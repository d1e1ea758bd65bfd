"""The health of one broker's disk, which a test can change, and the error when the disk fails."""

from __future__ import annotations

import errno
import os
from typing import Final, Literal

DiskFault = Literal["full", "failed"]
FAULTS: Final[dict[DiskFault, int]] = {"full": errno.ENOSPC, "failed": errno.EIO}
"""What the system says to a write; a failed disk says it to a read, too."""


class StorageFailed(OSError):
    """A read or write of a broker's disk failed. Apache Kafka halts such a broker, because it has no other log directory. `node_id`: 0 for
    what the controller keeps."""

    def __init__(self, node_id: int, cause: OSError) -> None:
        whose = f"the disk of broker {node_id}" if node_id else "the disk of the controller"
        super().__init__(cause.errno, f"{whose} fails: {cause.strerror or cause}")
        self.node_id = node_id


class DiskState:
    """See the module. `fault`: None while it works."""

    __slots__ = ("fault", "node_id")

    def __init__(self, node_id: int = 0, fault: DiskFault | None = None) -> None:
        self.node_id = node_id
        self.fault = fault

    def check_write(self) -> None:
        """Raises StorageFailed if the disk takes nothing."""
        if self.fault is not None:
            code = FAULTS[self.fault]
            raise StorageFailed(self.node_id, OSError(code, os.strerror(code)))

    def check_read(self) -> None:
        """Raises StorageFailed if the disk gives nothing."""
        if self.fault == "failed":
            self.check_write()
