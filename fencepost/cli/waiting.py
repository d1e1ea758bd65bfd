"""Says what a command waits for: one line on standard error after SAY_AFTER_S seconds, with the address and the time limit."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from fencepost.cli.error_lines import running_command
from fencepost.cli.output import warn

SAY_AFTER_S: Final = 5.0


@contextmanager
def waiting(for_what: str, at_most_s: float | None = None) -> Iterator[None]:
    """Print the line if the block takes longer. `at_most_s`: the limit in seconds; None if `for_what` names it."""
    limit = "" if at_most_s is None else f", for at most {at_most_s:g} s"
    words = f"fencepost {running_command()}: still waiting for {for_what}{limit}"
    saying = threading.Timer(SAY_AFTER_S, warn, (words,))
    saying.daemon = True
    saying.start()
    try:
        yield
    finally:
        saying.cancel()
