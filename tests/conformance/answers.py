"""The recorded answers of Apache Kafka: one file per area, case by case. `record` writes them, and the tests compare with them.

With the recorded answers the stub can be compared with Kafka where no Kafka is available.
"""

from __future__ import annotations

import importlib
import json
import pkgutil
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from tests.conformance import cases
from tests.conformance.world import CASES, Case

DIRECTORY = Path(__file__).parent / "answers"

Notes = dict[str, str]
Differences = dict[str, str | None]


@cache
def load_cases() -> Mapping[str, Case]:
    """Every case by its name; imports the modules that register them."""
    for module in pkgutil.iter_modules(cases.__path__):
        importlib.import_module(f"{cases.__name__}.{module.name}")
    return CASES


def recorded(case: Case) -> Notes | None:
    """Kafka's recorded answers to the case; None if the case was never recorded."""
    return _area(case.area).get(case.name)


def differences(case: Case, notes: Notes, usual: Notes | None = None) -> Differences:
    """The answers that differ from `usual`, or from the recorded ones. A value of None means that there is no such answer here."""
    before = recorded(case) or {} if usual is None else usual
    return {label: notes.get(label) for label in {**before, **notes} if before.get(label) != notes.get(label)}


def with_differences(case: Case, changed: Differences, usual: Notes | None = None) -> Notes:
    """The recorded answers, or `usual`, with these differences applied."""
    before = recorded(case) or {} if usual is None else usual
    return {label: answer for label, answer in {**before, **changed}.items() if answer is not None}


def write(answers: Mapping[str, Notes]) -> None:
    """Write these answers. Keep the recorded answers of cases that were not run, and delete those of removed cases."""
    DIRECTORY.mkdir(exist_ok=True)
    for area in {case.area for case in CASES.values()}:
        kept = {name: answers.get(name) or _area(area).get(name) for name in CASES if CASES[name].area == area}
        text = json.dumps({name: notes for name, notes in kept.items() if notes}, indent=1, ensure_ascii=False)
        (DIRECTORY / f"{area}.json").write_text(text + "\n")
    _area.cache_clear()


@cache
def _area(area: str) -> dict[str, Notes]:
    file = DIRECTORY / f"{area}.json"
    found: dict[str, Notes] = json.loads(file.read_text()) if file.exists() else {}
    return found
