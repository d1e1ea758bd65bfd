"""Asks the stub and Apache Kafka each question. Every answer must be the one recorded from Kafka."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.conformance.answers import Notes, load_cases, recorded
from tests.conformance.fixtures import require_kafka, shared_kafka
from tests.conformance.gaps import GAPS
from tests.conformance.targets import KafkaPool, stub_for
from tests.conformance.world import Case, play
from tests.drawn import drawn
from tests.once import once_is_enough

pytestmark = pytest.mark.timeout(600)

ALL = [case for case in load_cases().values() if not case.older]
Property = Callable[[str, object], None]


@pytest.fixture(scope="session")
def pool() -> Iterator[KafkaPool]:
    require_kafka()
    with KafkaPool(shared_kafka) as pool:
        yield pool


# A released Kafka does not change: what may be wrong is only what was recorded.
@drawn(12, site=lambda row: KafkaPool.own_kind(row["case"]))
@once_is_enough("asks Kafka itself")
@pytest.mark.parametrize("case", ALL, ids=lambda case: case.name)
def test_kafka_answers_as_recorded(case: Case, pool: KafkaPool, record_property: Property) -> None:
    """Apache Kafka gives its recorded answers; `python -m tests.conformance.record` records them again."""
    record_property("conformance", ("kafka", case.area, len(_expected(case)), 0))
    _compare(play(case, pool.target_for(case)), _expected(case))


@pytest.mark.parametrize("case", ALL, ids=lambda case: case.name)
def test_stub_answers_as_kafka(case: Case, record_property: Property) -> None:
    """The stub gives Kafka's answers word by word, apart from the recorded gaps."""
    gap = GAPS[case.name].answers if case.name in GAPS else {}
    record_property("conformance", ("stub", case.area, len(_expected(case)), len(gap)))
    with stub_for(case) as target:
        _compare(play(case, target), {**_expected(case), **gap})


def test_every_case_was_asked_and_every_gap_is_one() -> None:
    """Every case has Kafka's answers. Every gap names a case and an answer that exist, and differs from Kafka's answer."""
    assert [case.name for case in ALL if not recorded(case)] == []
    for name, gap in GAPS.items():
        expected = _expected(load_cases()[name])
        assert set(gap.answers) <= set(expected)
        assert [label for label, answer in gap.answers.items() if answer == expected[label]] == []


def _expected(case: Case) -> Notes:
    notes = recorded(case)
    assert notes is not None, f"no answers of Kafka to {case.name}: run python -m tests.conformance.record {case.name}"
    return notes


def _compare(notes: Notes, expected: Notes) -> None:
    lines = [
        f"{label}\n    expected {expected.get(label)}\n    answered {notes.get(label)}"
        for label in dict.fromkeys([*expected, *notes])
        if expected.get(label) != notes.get(label)
    ]
    assert not lines, f"{len(lines)} of {len(expected)} answers differ:\n" + "\n".join(lines)
