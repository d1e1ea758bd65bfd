"""What `produce` has in common with and without a job: a producer that has the topic's metadata, and the progress."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, NamedTuple

from fencepost.cli.error_lines import CommandError, running_command
from fencepost.cli.output import warn
from fencepost.cli.waiting import waiting

if TYPE_CHECKING:
    from fencepost.cli.console import Screen
    from fencepost.producer import Producer

TOPIC_WAIT_S: Final = 15.0
FULL_WAIT_S: Final = 60.0
ACCEPT_MS: Final = 500
LINE_S: Final = 10.0
"""How often the progress is a line, where standard error is no terminal."""


class Limits(NamedTuple):
    """How long to wait for room, for deliveries after a signal, and for a delivery."""

    patience_s: float
    leave_s: float
    deliver_s: float


def producer_for(bootstrap: str, topic: str, settings: dict[str, str]) -> tuple[Producer, Limits]:
    """A producer that has the topic's metadata."""
    from fencepost.cli.reachability import with_defaults
    from fencepost.producer import ConfigError, FencepostError, Misuse, Producer
    from fencepost.producer.config.reader import read_settings

    given = with_defaults(settings, {"client_id": "fencepost-produce"})
    try:
        read = read_settings({"bootstrap_servers": bootstrap, **given})
        chosen = given.keys() & {"max_block_ms", "max.block.ms"}
        given = {name: value for name, value in given.items() if name not in chosen}
        # The producer waits for room in short steps. Between them, the command checks for a signal.
        producer = Producer(bootstrap_servers=bootstrap, **given, max_block_ms=ACCEPT_MS)
    except ConfigError as error:
        raise CommandError(str(error)) from None
    wait_s = read.max_block_ms / 1000 if chosen else TOPIC_WAIT_S
    try:
        with waiting(f"topic {topic!r} at {bootstrap}", wait_s):
            producer.partitions_for(topic, wait_s)
    except (FencepostError, Misuse, ValueError) as error:
        closed(producer)
        raise CommandError(str(error)) from None
    except BaseException:
        closed(producer)
        raise
    return producer, Limits(
        patience_s=read.max_block_ms / 1000 if chosen else FULL_WAIT_S,
        leave_s=read.exit_flush_ms / 1000,
        deliver_s=read.delivery_timeout_ms / 1000,
    )


def closed(producer: Producer) -> None:
    from fencepost.producer import UndeliveredRecords

    try:
        producer.close(0)
    except UndeliveredRecords:
        return  # another error is already being raised


def _lines(count: Callable[[], int], total: int) -> Callable[[int], None]:
    begun = said = time.monotonic()

    def tick(done: int) -> None:
        nonlocal said
        now = time.monotonic()
        if now - said < LINE_S:
            return
        said = now
        acknowledged = count()
        read = f"{min(done / total, 1.0):.0%} read, " if total else ""
        warn(f"fencepost {running_command()}: {read}{acknowledged:,} acknowledged, {acknowledged / (now - begun):,.0f} records/s")

    return tick


@contextmanager
def bar(console: Screen, count: Callable[[], int], *, total: int, quiet: bool) -> Iterator[Callable[[int], None]]:
    """Shows how much of the input is read, how many records are acknowledged, and how fast: as a bar, or, if standard error is no terminal,
    as a line from time to time."""
    if quiet or not console.is_terminal:
        yield (lambda done: None) if quiet else _lines(count, total)
        return
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (BarColumn(), TextColumn("{task.fields[acknowledged]:,} acknowledged"), TextColumn("{task.fields[speed]:,.0f} records/s"))
    begun = time.monotonic()
    with Progress(*columns, TimeElapsedColumn(), console=console, transient=True) as progress:
        task = progress.add_task("", total=total or None, acknowledged=0, speed=0.0)

        def tick(done: int) -> None:
            acknowledged = count()
            speed = acknowledged / max(0.001, time.monotonic() - begun)
            progress.update(task, completed=done, acknowledged=acknowledged, speed=speed)

        yield tick
