"""What a pool, a pipeline, a job and the Spark writer see of their own transactional producers, blocking or asyncio, beyond the public
methods.

Programs do not use it. It makes no call to a broker.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, SupportsFloat

from fencepost.producer.config.settings import Settings
from fencepost.txn.coordinator.state_machine import Event, State


def state_of(producer: Any) -> State:
    """The state of its transactions."""
    state: State = producer._manager.machine.state
    return state


def settings_of(producer: Any) -> Settings:
    """The settings of its connections."""
    settings: Settings = producer._inner.settings
    return settings


def record_limit(producer: Any) -> tuple[int, str]:
    """The bytes that a record may take, and the setting that says so."""
    limit: tuple[int, str] = producer._inner.record_limit
    return limit


def register_while(producer: Any, permitted: Callable[[], bool]) -> None:
    """Have the producer send its first InitProducerId, and repeat it, only while this returns True. Each call of `init` asks it again."""
    producer._manager.may_register = permitted


def expect_abort_at_close(producer: Any) -> None:
    """`close` aborts what is open without the warning that the program may have forgotten to commit."""
    producer._manager.aborts_at_close = True


def enter_block(producer: Any, transaction: Any, timeout: SupportsFloat | None) -> None:
    """A `with` block ends this transaction, which `begin` returned, within so many seconds. None: no limit of the caller's."""
    transaction._timeout = timeout
    producer._manager.block = transaction._number


def is_prepared(transaction: Any) -> bool:
    """Whether `prepare` has returned its token."""
    prepared: bool = transaction._prepared
    return prepared


def was_committed(producer: Any, transaction: Any) -> bool | None:
    """Whether the transaction of this producer was committed. None: the producer does not know it."""
    if transaction.over:
        return not transaction._aborted
    manager, number = producer._manager, transaction._number
    return bool(manager.about_the_past(Event.COMMIT, number) is None) if manager.knows(number) else None
