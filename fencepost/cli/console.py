"""What rich draws for the commands, tables, bars and colours: every text in it as printable as what `shown` says.

Text is text: it has no markup and no emoji names. What is bold or green is so by a style.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from fencepost.cli.shown import printable


class Screen(Console):
    """Standard output or standard error."""

    def __init__(self, *, stderr: bool = False) -> None:
        super().__init__(stderr=stderr, highlight=False, markup=False, emoji=False)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Everything passes here on its way out; the controls of a segment that has some are rich's own."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(printable(segment.text, keep="\n"), segment.style)

    def say(self, words: str, style: str = "") -> None:
        """A line, however long."""
        self.print(printable(words), style=style or None, soft_wrap=True)


def cell(value: object) -> Any:
    """What stands in a table's cell: as wide as it will be."""
    from rich.text import Text

    if isinstance(value, Text):
        return value
    text = ",".join(map(str, value)) if isinstance(value, list) else "-" if value is None else str(value)
    return Text(printable(text))
