"""transaction.version 0 and 1: every answer about transactions is the recorded one of a Kafka 4.3 at that level."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import cache

import pytest

from tests.conformance.fixtures import require_kafka
from tests.conformance.targets import KafkaTarget, stub_for
from tests.conformance.transaction_levels import LEVELS, cases, expected, kafka_at
from tests.conformance.world import Case, play
from tests.drawn import drawn
from tests.once import once_is_enough

ALL = [(level, case) for level in LEVELS for case in cases(level)]


@pytest.fixture(scope="module")
def kafka_at_level() -> Iterator[Callable[[int], KafkaTarget]]:
    """A Kafka of each level, which starts with the first case that asks it."""
    require_kafka()
    with ExitStack() as running:
        yield cache(lambda level: KafkaTarget(running.enter_context(kafka_at(level))))


ROWS = pytest.mark.parametrize(("level", "case"), ALL, ids=lambda value: value.name if isinstance(value, Case) else str(value))


@drawn(8, site=lambda row: row["level"])  # a released Kafka does not change
@once_is_enough("asks Kafka itself")
@pytest.mark.timeout(600)
@ROWS
def test_kafka_answers_as_recorded(level: int, case: Case, kafka_at_level: Callable[[int], KafkaTarget]) -> None:
    """Apache Kafka at that level gives its recorded answers; `python -m tests.conformance.transaction_levels` records them again."""
    assert play(case, kafka_at_level(level)) == expected(case, level)


@drawn(2, kind=lambda row: row["case"].area)
@ROWS
def test_stub_answers_as_kafka_at_that_level(level: int, case: Case) -> None:
    """The stub's answers are Kafka's word by word, whether or not the level makes a difference."""
    with stub_for(case, transaction_version=level) as target:
        assert play(case, target) == expected(case, level)


def test_a_level_that_the_release_has_not_is_refused() -> None:
    """The error names the levels that exist."""
    from fencepost.broker_stub import BrokerStub

    with pytest.raises(ValueError, match=r"transaction_version=3: Kafka 4\.3 has 0 to 2"):
        BrokerStub(transaction_version=3)
    with pytest.raises(ValueError, match=r"transaction_version=1: Kafka 3\.9 has 0 to 0"):
        BrokerStub(transaction_version=1, emulate="3.9")
