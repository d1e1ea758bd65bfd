"""What the pools for threads and for asyncio share: the settings, and what happens when the process forks.

A pool whose instance was chosen is made anew in a forked child, with an instance of its own. A pool whose instance was given is refused
there, because two children would have the same transactional ids.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any, Final, NoReturn

from fencepost.producer.base_producer import unpicklable
from fencepost.producer.errors import ProducerForked
from fencepost.producer.foundations.weak_list import WeakList
from fencepost.txn.pool.calls import PoolCalls
from fencepost.txn.pool.program import PoolProgram
from fencepost.txn.pool.settings import read_pool_settings
from fencepost.txn.pool.stats import PoolStats

ONCE: Final = "this block has begun before: call the pool's transaction() for each block"


class BasePool:
    """See the module."""

    def __init__(self, given: Mapping[str, Any], calls: Callable[[], PoolCalls], *, awaits: bool) -> None:
        self._settings, self._own = read_pool_settings(given, awaits=awaits)
        self._calls = calls
        self._program = PoolProgram(self._settings, self._own, calls())
        self._forked: ProducerForked | None = None
        LIVE.add(self)

    def __repr__(self) -> str:
        program, settings = self._program, self._settings
        told = "closed" if program.closed else f"in_use={program.in_use}"
        return (
            f"{type(self).__name__}(transactional_id_prefix={settings.transactional_id_prefix!r}, instance={program.instance!r},"
            f" size={settings.size}, {told})"
        )

    def __reduce__(self) -> NoReturn:
        raise unpicklable(type(self).__name__)

    @property
    def instance(self) -> str | None:
        """The instance of this process: the given one, or the chosen one once the pool has opened."""
        return self._program.instance

    def stats(self) -> PoolStats:
        """The counters now. Any thread may call this."""
        return self._ours().stats()

    def _ours(self) -> PoolProgram:
        if self._forked is not None:
            raise self._forked.again()
        return self._program

    def _after_fork_in_child(self) -> None:
        parents, settings = self._program, self._settings
        PARENTS_PROGRAMS.append(parents)
        parents.give_locks_away()
        if settings.instance is not None:
            self._forked = ProducerForked(
                f"this pool with instance={settings.instance!r} was made in process {os.getppid()}, and cannot be used in its child"
                f" {os.getpid()}, because two children would have the same transactional ids. Make the pool after the fork with an instance"
                " of the child's own, or leave `instance` out"
            )
        self._program = PoolProgram(settings, self._own, self._calls())
        self._program.closed = parents.closed


LIVE: Final[WeakList[BasePool]] = WeakList()
PARENTS_PROGRAMS: Final[list[PoolProgram]] = []
"""In a forked child: the parent's. They are kept, so that no destructor touches what the parent uses."""


def renew_all() -> None:
    """In a forked child."""
    for pool in LIVE.all():
        pool._after_fork_in_child()


if hasattr(os, "register_at_fork"):  # Windows has no fork.
    os.register_at_fork(after_in_child=renew_all)
