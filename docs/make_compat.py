"""Writes the tables of properties in docs/compat.md from those of `fencepost.compat`: `python docs/make_compat.py`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from fencepost.compat.confluent.config_names import FLAGS, HARMLESS, NUMBERS, OWN, PASSED_ON, REFUSED, SAME

PAGE: Final = Path(__file__).with_name("compat.md")
PART: Final = re.compile(r"(<!-- properties of confluent-kafka: .*? -->\n).*?(<!-- end -->)", re.DOTALL)
UNITS: Final = {"buffer_memory": ", in bytes"}


def confluent_properties() -> str:
    """The tables of confluent-kafka's properties."""
    ours = {name: kind.setting for name, kind in NUMBERS.items()} | FLAGS | PASSED_ON
    also: dict[str, list[str]] = {}
    for other, name in SAME.items():
        also.setdefault(name, []).append(other)

    def spelled(name: str) -> str:
        return ", ".join(f"`{each}`" for each in (name, *also.get(name, ())))

    lines = ["| property | our setting |", "|---|---|"]
    lines += [f"| {spelled(name)} | `{setting}`{UNITS.get(setting, '')} |" for name, setting in sorted(ours.items()) if setting]
    handled = sorted([name for name, setting in ours.items() if not setting] + list(OWN))
    lines += ["", f"Read by this package itself: {', '.join(map(spelled, handled))}."]
    lines += ["", "| accepted without effect | because |", "|---|---|"]
    lines += [f"| {', '.join(f'`{name}`' for name in names)} | {reason} |" for reason, names in HARMLESS.items()]
    lines += ["", "| refused | what to do |", "|---|---|"]
    lines += [f"| {', '.join(f'`{name}`' for name in names)} | {reason} |" for reason, names in REFUSED.items()]
    return "\n".join(lines) + "\n"


def page() -> str:
    """The whole page, with the tables as they are now."""
    text, places = PART.subn(lambda part: part[1] + confluent_properties() + part[2], PAGE.read_text(encoding="utf-8"))
    assert places == 1, f"{PAGE} has {places} places for the tables"
    return text


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
