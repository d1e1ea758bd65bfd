"""Tables, bars and colours, which rich draws for the commands. Every text in them is escaped as in `output`.

Rich interprets no markup and no emoji names in texts. Colours come from styles.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from fencepost.cli.output import printable

if TYPE_CHECKING:
    from rich.table import Table


WIDTH_MAX: Final = 1_000_000


class Screen(Console):
    """Standard output or standard error."""

    def __init__(self, *, stderr: bool = False) -> None:
        super().__init__(stderr=stderr, highlight=False, markup=False, emoji=False)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Escape all output. Segments with control codes are rich's own, and stay as they are."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(printable(segment.text, keep="\n"), segment.style)

    def show(self, table: Table) -> None:
        """Print a table, as wide as its contents where standard output is no terminal."""
        if not self.is_terminal:
            self.width = WIDTH_MAX
        self.print(table)

    def say(self, words: str, style: str = "") -> None:
        """Print a line without wrapping it."""
        self.print(printable(words), style=style or None, soft_wrap=True)


def cell(value: object) -> Any:
    """The content of a table's cell, escaped before rich measures its width."""
    from rich.text import Text

    if isinstance(value, Text):
        return value
    text = ",".join(map(str, value)) if isinstance(value, list) else "-" if value is None else str(value)
    return Text(printable(text))
