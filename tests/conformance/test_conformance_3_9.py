"""The stub as Kafka 3.9: the questions for 4.3 and those for 3.9 alone, with the answers of a Kafka 3.9.1.

With FENCEPOST_KAFKA_3_9=1 that Kafka is asked again (`make conformance-3.9`).
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.conformance.fixtures import require_kafka
from tests.conformance.release_3_9 import GAPS_3_9, LEFT_OUT, cases, different, expected, expected_of_the_stub, kafka_3_9, stub_3_9
from tests.conformance.targets import KafkaPool
from tests.conformance.world import CASES, Case, play

pytestmark = pytest.mark.timeout(600)

DIFFERENT = [case for case in cases() if case.name in different()]
ASK_KAFKA = bool(os.environ.get("FENCEPOST_KAFKA_3_9"))
NOT_ASKED = pytest.param(None, marks=pytest.mark.skip(reason="asks a Kafka 3.9.1 for some minutes: FENCEPOST_KAFKA_3_9=1"))


@pytest.fixture(scope="module")
def pool() -> Iterator[KafkaPool]:
    require_kafka()
    with kafka_3_9() as pool:
        yield pool


@pytest.mark.parametrize("case", cases() if ASK_KAFKA else DIFFERENT, ids=lambda case: case.name)
def test_stub_answers_as_kafka_3_9(case: Case) -> None:
    """The stub gives 3.9's answers word by word, apart from the gaps: where 3.9 differs from 4.3, and with FENCEPOST_KAFKA_3_9 in every
    case.
    """
    with stub_3_9(case) as target:
        assert play(case, target) == expected_of_the_stub(case)


@pytest.mark.parametrize("case", cases() if ASK_KAFKA else [NOT_ASKED], ids=lambda case: case.name if isinstance(case, Case) else "none")
def test_kafka_3_9_answers_as_recorded(case: Case, pool: KafkaPool) -> None:
    """Apache Kafka 3.9.1 gives its recorded answers; `python -m tests.conformance.release_3_9` records them again."""
    assert play(case, pool.target_for(case)) == expected(case)


def test_what_is_left_out_is_there() -> None:
    """Every case that is left out exists, and every case that is compared has answers."""
    assert set(LEFT_OUT) <= set(CASES)
    for name, gap in GAPS_3_9.items():
        answers = expected(CASES[name])
        assert [label for label, answer in gap.answers.items() if answers[label] == answer] == []
    assert [case.name for case in cases() if case.older and not expected(case)] == []
