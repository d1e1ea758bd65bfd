"""docs/services.md has every setting of a pool with its default, and names only errors that there are."""

from __future__ import annotations

import re

import msgspec

import fencepost
from fencepost.txn.pool.settings import PoolSettings
from tests.pages import page_text

PAGE = page_text("services.md")


def test_the_table_has_every_setting() -> None:
    """With its default."""
    section = PAGE.partition("## Settings\n")[2].partition("\n## ")[0]
    told = dict(re.findall(r"^\| `(\w+)` \| ([^|]+) \|", section, re.MULTILINE))
    defaults = {
        field.name: "required" if field.required else f"{field.default:,}" if isinstance(field.default, int) else str(field.default)
        for field in msgspec.structs.fields(PoolSettings)
    }
    assert told == defaults


def test_the_errors_are_there() -> None:
    """Each error of the table about statuses is a public name."""
    section = PAGE.partition("What the client gets")[2].partition("\n## ")[0]
    named = {name for row in re.findall(r"^\| ([^|]+) \|", section, re.MULTILINE) for name in re.findall(r"\b[A-Z][a-z]+[A-Z]\w+", row)}
    assert len(named) >= 8
    assert {name for name in named if not hasattr(fencepost, name)} == set()
