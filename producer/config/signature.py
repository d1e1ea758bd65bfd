"""The signature of `Producer(...)`, with annotations. A compiled class has none, so `inspect.signature` and `help` would show nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Unpack

from fencepost.producer.config.keywords import ProducerKeywords

if TYPE_CHECKING:
    from inspect import Signature


def producer(config: Mapping[str, Any] | None = None, **settings: Unpack[ProducerKeywords]) -> None:
    """Its signature is that of a producer."""


class ProducerSignature:
    """The attribute `__signature__` of one class. It imports `inspect` only when it is read. A subclass has the signature of its own
    `__init__`."""

    def __init__(self, of: type) -> None:
        self._of = of

    def __get__(self, instance: object, owner: type) -> Signature:
        import inspect

        if owner is not self._of:
            raise AttributeError("__signature__")
        return inspect.signature(producer)
