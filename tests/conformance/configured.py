"""`python -m tests.conformance.configured`: runs some cases on Kafka brokers with other configs, and records the answers that differ from
the default.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from fnmatch import fnmatch
from pathlib import Path
from typing import NamedTuple

from tests.conformance.answers import Differences, Notes, differences, load_cases, with_differences
from tests.conformance.kafka import KafkaCluster
from tests.conformance.targets import KafkaTarget
from tests.conformance.world import Case, play

FILE = Path(__file__).parent / "answers_configured.json"


class Configured(NamedTuple):
    """Brokers with this config, and the cases for them."""

    config: Mapping[str, str]
    asked: tuple[str, ...]


BROKERS = {
    "unstable versions": Configured(
        {"unstable.api.versions.enable": "true"},
        ("two_phase_commit.*", "versions.api_versions", "versions.unstable_versions", "configs.some_broker_configs"),
    ),
    "two-phase commit": Configured(
        {"unstable.api.versions.enable": "true", "transaction.two.phase.commit.enable": "true"},
        ("two_phase_commit.*", "configs.some_broker_configs"),
    ),
    "no verification": Configured(
        {"transaction.partition.verification.enable": "false"},
        (
            "configs.some_broker_configs",
            "transaction_offsets.with_bumps",
            "transaction_offsets.without_bumps",
            "transactions.records_that_no_coordinator_verified",
            "transactions.with_bumps",
            "transactions.without_bumps",
        ),
    ),
}

Answers = dict[str, dict[str, Differences]]
"""By broker, case and label; None for an answer that only a broker without configs gives."""


def cases(broker: str) -> list[Case]:
    return [case for name, case in load_cases().items() if any(fnmatch(name, pattern) for pattern in BROKERS[broker].asked)]


def expected(case: Case, broker: str) -> Notes:
    """Kafka's answers with that config."""
    return with_differences(case, different()[broker].get(case.name, {}))


def different() -> Answers:
    found: Answers = json.loads(FILE.read_text())
    return found


def main() -> None:
    answers: Answers = {}
    for broker, (config, _) in BROKERS.items():
        found = answers[broker] = {}
        with KafkaCluster(config=config) as cluster:
            for case in cases(broker):
                notes = play(case, KafkaTarget(cluster))
                changed = differences(case, notes)
                if changed:
                    found[case.name] = changed
                print(f"{broker}: {case.name}: {len(notes)} answers, {len(changed)} differ from the default", flush=True)
    FILE.write_text(json.dumps(answers, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
