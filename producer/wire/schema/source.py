"""Builds Python source: lines with indentation, unique local names, and the constants that the source refers to."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from struct import Struct
from typing import Any


class Source:
    """The body of one function. Names handed out by `local` and `constant` are unique in it and readable in a debugger."""

    def __init__(self, *reserved: str) -> None:
        self.lines: list[str] = []
        self.constants: dict[str, Any] = {}
        self._names: set[str] = set(reserved)
        self._depth = 0

    def line(self, text: str) -> None:
        """Add one line at the current indentation."""
        self.lines.append("    " * self._depth + text)

    @contextmanager
    def block(self, header: str) -> Iterator[None]:
        """Add a line that opens a block. Lines that are added inside the `with` belong to the block."""
        self.line(header)
        self._depth += 1
        yield
        self._depth -= 1

    def local(self, wish: str) -> str:
        """A name like `wish` that is unique in this function."""
        name = wish
        number = 2
        while name in self._names:
            name = f"{wish}_{number}"
            number += 1
        self._names.add(name)
        return name

    def constant(self, wish: str, value: Any) -> str:
        """A name for an object from outside. The same object with the same wish gets the same name."""
        for name, known in self.constants.items():
            if known is value and re.fullmatch(f"{re.escape(wish)}(_[0-9]+)?", name):
                return name
        name = self.local(wish)
        self.constants[name] = value
        return name

    def layout(self, codes: str, method: str) -> tuple[str, int]:
        """A name for `method` of the big-endian struct.Struct with these format characters, and its size in bytes."""
        name = f"{method}_{codes.replace('?', 't')}"
        packer = Struct(">" + codes)
        if name not in self.constants:
            self._names.add(name)
            self.constants[name] = getattr(packer, method)
        return name, packer.size

    def text(self) -> str:
        """The whole source."""
        return "\n".join(self.lines) + "\n"
