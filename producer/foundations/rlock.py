"""A reentrant lock that Ctrl-C cannot leave taken.

Up to Python 3.13 `with lock:` takes a lock of `_thread` in one step. Python 3.14 runs signal handlers between taking it and the block, so
that a handler that raises there leaves the lock taken for good, and every other thread waits for it. Here the lock is given back first.

A loop inside the block belongs in a function of its own: where it jumps back, Python 3.12 to 3.14 may run handlers outside the block.
"""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING, Final

IS_NEEDED: Final[bool] = sys.hexversion >= 0x030E0000 and sys.implementation.name == "cpython"
"""Whether Python runs signal handlers between taking a lock and the block."""

if TYPE_CHECKING or not IS_NEEDED:
    RLock = threading.RLock
else:
    import _thread

    class RLock(_thread.RLock):
        """See the module. `__exit__` is `_thread`'s, which no signal handler interrupts."""

        def __enter__(self) -> bool:
            depth = self._recursion_count()
            try:
                return self.acquire()
            except BaseException:
                while self._recursion_count() > depth:
                    self.release()
                raise
