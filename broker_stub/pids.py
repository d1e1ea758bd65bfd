"""Producer ids: unique ones for idempotent producers, and one per transactional id whose epoch grows with every call.

For now a transactional id has no state but its identity, so the rules of InitProducerId are those for a transaction that is not open (I2
and I4 to I8 of the coordinator's table). It knows nothing of transactions.
"""

from itertools import count
from typing import NamedTuple

NONE = -1
EPOCH_EXHAUSTED = 32766  # the largest epoch that a client may own


class Identity(NamedTuple):
    producer_id: int
    epoch: int


class Fenced(Exception):
    """The caller's identity has been taken over by another one."""


class _Known:
    __slots__ = ("identity", "last_epoch", "previous_id")

    def __init__(self, identity: Identity) -> None:
        self.identity = identity
        self.last_epoch = NONE
        self.previous_id = NONE


class ProducerIds:
    """The identities of one cluster."""

    def __init__(self) -> None:
        self._next_id = count()
        self._known: dict[str, _Known] = {}

    def fresh(self) -> Identity:
        """An id that nobody had before, at epoch 0."""
        return Identity(next(self._next_id), 0)

    def of(self, transactional_id: str, expected: Identity | None = None) -> Identity:
        """The next identity of that transactional id; raises Fenced when `expected` is not its newest one."""
        known = self._known.get(transactional_id)
        if known is None:
            known = self._known[transactional_id] = _Known(Identity(next(self._next_id), NONE))
        pid, epoch = known.identity
        if expected is not None and epoch != NONE and not self._is_owner(known, expected):
            raise Fenced
        if epoch >= EPOCH_EXHAUSTED and (expected is None or expected.epoch == epoch):  # I4: a new id
            known.previous_id, known.last_epoch = pid, epoch if expected is not None else NONE
            known.identity = self.fresh()
        elif expected is None:  # I5
            known.last_epoch = NONE
            known.identity = Identity(pid, epoch + 1)
        elif epoch in (NONE, expected.epoch):  # I6
            known.last_epoch = epoch
            known.identity = Identity(pid, epoch + 1)
        elif expected.epoch != known.last_epoch:  # I8; else I7, the retry of a call whose answer was lost
            raise Fenced
        return known.identity

    def _is_owner(self, known: _Known, expected: Identity) -> bool:
        """I2."""
        return expected.producer_id == known.identity.producer_id or (
            expected.producer_id == known.previous_id and expected.epoch >= EPOCH_EXHAUSTED
        )
