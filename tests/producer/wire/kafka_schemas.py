"""Finds and reads Kafka's own message definitions: JSON with comments, kept beside the checkout or where FENCEPOST_SCHEMAS says."""

import json
import os
import re
from functools import cache
from pathlib import Path
from typing import Any

BESIDE_THE_CHECKOUT = Path(__file__).resolve().parents[3].parent / "shared" / "kafka" / "schemas"

DIRECTORY = Path(os.environ.get("FENCEPOST_SCHEMAS") or BESIDE_THE_CHECKOUT)

MISSING = not DIRECTORY.is_dir()

SKIP_REASON = "no Kafka schemas: set FENCEPOST_SCHEMAS to the directory of Kafka's message definitions"


@cache
def load(name: str) -> dict[str, Any]:
    """The definition of that name, with every struct in its place. Comments are whole lines in these files, and never inside a string."""
    text = (DIRECTORY / f"{name}.json").read_text(encoding="utf-8")
    document: dict[str, Any] = json.loads(re.sub(r"^\s*//.*$", "", text, flags=re.MULTILINE))
    _unfold(document.get("fields", []), {each["name"]: each["fields"] for each in document.get("commonStructs", [])})
    return document


def _unfold(fields: list[dict[str, Any]], common: dict[str, list[dict[str, Any]]]) -> None:
    """Give each field the fields of its struct, if the struct is defined elsewhere in the file."""
    for field in fields:
        _unfold(field.setdefault("fields", common.get(field["type"].removeprefix("[]"), [])), common)


def names() -> list[str]:
    """The names of all definitions."""
    return sorted(path.stem for path in DIRECTORY.glob("*.json"))


def snake_case(name: str) -> str:
    """`TopicData` as `topic_data`."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def version_range(text: str) -> range:
    """`3-13`, `0+` or `2` as a range; `none` is empty."""
    if text == "none":
        return range(0)
    first, _, last = text.removesuffix("+").partition("-")
    if text.endswith("+"):
        return range(int(first), 1 << 15)
    return range(int(first), int(last or first) + 1)


def overlap(left: range, right: range) -> range:
    """The versions in both ranges. Every empty result is the same object."""
    both = range(max(left.start, right.start), min(left.stop, right.stop))
    return both if both else range(0)
