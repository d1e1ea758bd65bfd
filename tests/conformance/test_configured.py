"""The stub with brokers' configs: every answer is the one that Apache Kafka gave with the same configs."""

from __future__ import annotations

import pytest

from tests.conformance.configured import BROKERS, cases, expected
from tests.conformance.targets import stub_for
from tests.conformance.world import Case, play

ALL = [(broker, case) for broker in BROKERS for case in cases(broker)]


@pytest.mark.parametrize(("broker", "case"), ALL, ids=lambda value: value.name if isinstance(value, Case) else value)
def test_stub_answers_as_kafka_with_that_config(broker: str, case: Case) -> None:
    """The stub's answers are Kafka's word by word, whether or not the config makes a difference."""
    with stub_for(case, config=BROKERS[broker].config) as target:
        assert play(case, target) == expected(case, broker)
