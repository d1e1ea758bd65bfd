"""The signature of `Producer(...)`, with annotations. A compiled class has none, so `inspect.signature` and `help` would show nothing."""

from __future__ import annotations

from collections.abc import Mapping
from types import FunctionType
from typing import Any, Unpack

from fencepost.producer.config.keywords import ProducerKeywords


def show_signature(of: Any) -> None:
    """Give a compiled class an `__init__` with a signature, which calls the compiled one."""
    compiled = of.__init__
    if isinstance(compiled, FunctionType):
        return

    def __init__(self: Any, config: Mapping[str, Any] | None = None, **settings: Unpack[ProducerKeywords]) -> None:
        compiled(self, config, **settings)

    __init__.__qualname__ = f"{of.__name__}.__init__"
    of.__init__ = __init__
