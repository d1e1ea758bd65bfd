"""Whether `run` may repeat its work in a new transaction. It makes no attempt itself."""

from __future__ import annotations

import inspect

from fencepost.producer.errors import DeliveryError, Misuse, RecordRefused
from fencepost.txn.errors import MustAbort
from fencepost.txn.protocol.error_table import HOPELESS


def worth_another(error: MustAbort | DeliveryError) -> bool:
    """Whether the same records and offsets may succeed in another transaction."""
    if isinstance(error, MustAbort) and error.cause is None:
        return error.code not in HOPELESS
    cause = error.cause if isinstance(error, MustAbort) else error
    return not isinstance(cause, RecordRefused) or not cause.permanent


def refuse_undone(work: object, result: object) -> None:
    """Raise Misuse if the function only returned a coroutine or generator: a transaction without its work would be committed."""
    if inspect.iscoroutine(result):
        result.close()
        raise Misuse(
            f"run: {work!r} returned the coroutine of a function, so its body has not run: await it in an async function, which "
            "AsyncTransactionalProducer.run takes"
        )
    if inspect.isgenerator(result) and inspect.isgeneratorfunction(work):
        raise Misuse(
            f"run: {work!r} is a generator function, so its body has not run, and the transaction would be committed without its work"
        )
