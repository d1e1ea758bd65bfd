"""A pool's registration of its instance, from when the pool registers the guard's transactional id until another process does.

In Kafka a transactional id is itself the lock: the coordinator gives each registration an identity, and keeps only the newest. No answer
of a coordinator says that an id is free. So a pool registers the guard's id once, when it opens, and writes nothing under it. Before it
registers a slot's id, it asks whether the coordinator still has the guard's identity. If not, the pool registers nothing more. Of two pools
with one instance only the newer one continues, and they do not fence each other in turns.

The question and the registration are two requests. A registration that is on its way while the pool is cut off from the brokers can arrive
after another pool has taken over, and fence one of its slots. So a slot asks the coordinator only for a short time after each question.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any, Final

from fencepost.producer.config.settings import Settings
from fencepost.txn.errors import TransactionTimeout
from fencepost.txn.pool.errors import PoolTakenOver
from fencepost.txn.pool.instance import Instance
from fencepost.txn.protocol.cluster_client import ClusterClient, Deadline, Unanswered
from fencepost.txn.protocol.describe import describe_transaction
from fencepost.txn.recovery.outcome import ONGOING


class InstanceRegistration:
    """See the module. `guard`: the producer that registered the guard's id; it is closed, and only asks whether it was replaced."""

    def __init__(self, instance: Instance, guard: Any) -> None:
        self.instance: Final = instance
        self.guard: Final = guard

    def lost(self, prefix: str) -> PoolTakenOver:
        """The error after another process has registered the guard's id."""
        return PoolTakenOver(
            f"instance {self.instance.name!r} of the pool {prefix!r} belongs to another process now, which has registered"
            f" {self.guard.transactional_id!r} since: two processes have the same instance, or a newer one has replaced this one. This pool"
            " begins no more transactions. Give each process an instance of its own, or leave `instance` out"
        )


class RegistrationWindow:
    """When a producer may send InitProducerId, which fences the earlier producer of its id: a while after the pool's newest question."""

    def __init__(self) -> None:
        self._until = 0.0

    def extend(self, seconds: float) -> None:
        """It may for so many seconds from now."""
        self._until = time.monotonic() + seconds

    def is_open(self) -> bool:
        """Whether it may now. Any thread may call this."""
        return time.monotonic() < self._until


class PendingRegistration:
    """A registration that the pool has begun. `window`: when the guard may register its id, which is while a call waits for that.
    `is_registered`: it has."""

    def __init__(self, instance: Instance, guard: Any, window: RegistrationWindow) -> None:
        self.instance: Final = instance
        self.guard: Final = guard
        self.window: Final = window
        self.is_registered = False


async def unfinished(ids: Iterable[str], settings: Settings, timeout_s: float) -> list[str]:
    """Those of the ids under which a transaction is open. Raises TransactionTimeout and NotPermitted."""
    async with ClusterClient(settings) as client:
        deadline = Deadline(timeout_s)
        found = []
        for each in ids:
            try:
                state = await client.again(lambda: describe_transaction(client, each), deadline)  # noqa: B023 - awaited at once
            except Unanswered as error:
                raise TransactionTimeout(f"the coordinator of {each!r} did not answer within {timeout_s:g} s: {error}") from None
            if state is not None and state.transaction_state == ONGOING:
                found.append(each)
        return found
