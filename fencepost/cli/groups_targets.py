"""What `fencepost groups reset` is asked for: the partitions, and the new offset of each in words, dates, durations or a file.

It only reads its arguments and the file.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import msgspec

from fencepost.broker_stub.groups.assignors.subscriptions import TopicPartition
from fencepost.cli.error_lines import CommandError

DURATION: Final = re.compile(r"P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?")
UNITS: Final = ("days", "hours", "minutes", "seconds")


class SavedOffset(msgspec.Struct):
    """A line of `fencepost groups offsets --json`, as far as it counts."""

    topic: str
    partition: int
    offset: int | None


def moment_ms(text: str) -> int:
    """A date and time as ISO 8601 has it, in UTC unless it names another zone."""
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        raise CommandError(f"--to-datetime {text!r} is no date and time such as 2026-11-28T07:00:00.000") from None
    return int((when if when.tzinfo is not None else when.replace(tzinfo=UTC)).timestamp() * 1000)


def duration_ms(text: str) -> int:
    """A duration as ISO 8601 has it, in days, hours, minutes and seconds."""
    found = DURATION.fullmatch(text)
    if found is None or not any(found.groups()):
        raise CommandError(f"--by-duration {text!r} is no duration such as P7D, PT1H30M or PT10S")
    return int(timedelta(**{unit: float(value) for unit, value in zip(UNITS, found.groups(), strict=True) if value}).total_seconds() * 1000)


def topic_partitions(given: Iterable[str]) -> dict[str, list[int] | None]:
    """The topics of `--topic NAME[:PARTITION,...]`, with their partitions; None for all."""
    found: dict[str, list[int] | None] = {}
    for text in given:
        name, colon, numbers = text.partition(":")
        try:
            partitions = [int(each) for each in numbers.split(",")] if colon else None
        except ValueError:
            raise CommandError(f"--topic {text!r} does not name partitions as NAME:0,1,2") from None
        known = found.get(name, [])
        found[name] = None if partitions is None or known is None else [*known, *partitions]
    return found


def saved_offsets(path: str, group: str) -> dict[TopicPartition, int]:
    """The offsets of a file: lines TOPIC,PARTITION,OFFSET, with a group in front if they are of several, or JSON objects."""
    found: dict[TopicPartition, int] = {}
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(f"--from-file {path}: {getattr(error, 'strerror', None) or error}") from None
    for number, line in enumerate(lines, 1):
        try:
            saved = _saved(line, group)
        except (ValueError, csv.Error, msgspec.MsgspecError):
            raise CommandError(f"--from-file {path}: line {number} is neither [GROUP,]TOPIC,PARTITION,OFFSET nor a JSON object") from None
        for each in saved:
            if each.offset is not None:
                if each.offset < 0:
                    raise CommandError(f"--from-file {path}: line {number} has the offset {each.offset}, which is below 0")
                found[TopicPartition(each.topic, each.partition)] = each.offset
    if not found:
        raise CommandError(f"--from-file {path} has no offset of group {group!r}")
    return found


def _saved(line: str, group: str) -> Iterator[SavedOffset] | list[SavedOffset]:
    if not line.strip():
        return []
    if line.lstrip().startswith("{"):
        return [msgspec.json.decode(line, type=SavedOffset)]
    row = next(csv.reader([line]))
    if len(row) == 4 and row[0] != group:
        return []
    topic, partition, offset = row[-3:] if len(row) in (3, 4) else ("", "", "")
    return [SavedOffset(topic, int(partition), int(offset))]


def only_one(given: Mapping[str, Any]) -> str:
    """The one option of these that is given."""
    named = [name for name, value in given.items() if value is not None and value is not False]
    if len(named) != 1:
        raise CommandError(f"give one of {', '.join(given)}" + (f", not {' and '.join(named)}" if named else ""))
    return named[0]
