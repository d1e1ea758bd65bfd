"""Any iterator as a source, if it can say and take its position."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from fencepost.producer.errors import ConfigError


class IteratorSource:
    """Records from a function: it gets the committed position (None for the first run), and returns an iterator of pairs of a record and
    the position after it.

        IteratorSource(lambda position: ((b"%d" % number, number + 1) for number in range(position or 0, 1_000)))

    A position is any value that JSON can hold. The same position must always lead to the same records. `kind` names the kind of source: a
    job refuses a source of another kind than before. Without a `transform` a record is bytes, a (key, value) pair, or an `OutputRecord`.
    The iterator may yield None when there is nothing for now; then the job commits what it has.
    """

    def __init__(self, open: Callable[[Any], Iterator[tuple[Any, Any] | None]], *, kind: str = "iterator") -> None:
        if not callable(open):
            raise ConfigError(f"IteratorSource({open!r:.300}): a function that takes a position and returns an iterator")
        self.open = open
        self.kind = kind

    def __repr__(self) -> str:
        return f"IteratorSource({self.open!r})"
