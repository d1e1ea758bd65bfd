"""`python -m tests.conformance.transaction_levels`: runs the cases of transactions on a Kafka 4.3 with transaction.version 0, and then 1.

It records the answers that differ from level 2. The meaning of a request's version is the same at all levels. The coordinator's own
actions, and what it tells clients to do, are not.
"""

from __future__ import annotations

import json
from pathlib import Path

from tests.conformance.answers import Differences, Notes, differences, load_cases, with_differences
from tests.conformance.kafka import KafkaCluster
from tests.conformance.targets import KafkaTarget
from tests.conformance.world import Case, play

LEVELS = (0, 1)
AREAS = ("transactions", "transaction_ends", "transaction_markers", "transaction_offsets")
FILE = Path(__file__).parent / "answers_transaction_levels.json"

NOT_AT_0 = frozenset(
    (
        "transaction_ends.of_nothing",
        "transaction_ends.of_the_last_epoch_with_bumps",
        "transaction_markers.with_bumps",
        "transaction_markers.without_bumps",
        "transaction_offsets.deleted_before_they_count",
        "transaction_offsets.members",
        "transaction_offsets.with_bumps",
        "transactions.a_transactional_batch_whose_length_lies",
        "transactions.admins",
        "transactions.names_that_come_twice",
        "transactions.partitions_of_every_version",
        "transactions.recovery_after_a_fence",
        "transactions.records_that_no_coordinator_verified",
        "transactions.records_without_a_transaction",
        "transactions.takeovers",
        "transactions.two_producers_in_one_request",
        "transactions.what_is_written_with_bumps",
        "transactions.with_bumps",
    )
)
"""Cases whose requests clients and brokers send at level 2 only. At level 0 Kafka's log cannot store their result: Kafka answers
UNSUPPORTED_VERSION, and the id is busy from then on."""

Answers = dict[str, dict[str, Differences]]
"""By level, case and label; None for an answer that only level 2 gives."""


def cases(level: int) -> list[Case]:
    """The cases that one broker can run."""
    asked = [case for name, case in load_cases().items() if case.area in AREAS or name == "versions.finalized_features"]
    return [case for case in asked if case.brokers == 1 and (level > 0 or case.name not in NOT_AT_0)]


def expected(case: Case, level: int) -> Notes:
    """Kafka's answers at that level."""
    return with_differences(case, different()[str(level)].get(case.name, {}))


def different() -> Answers:
    found: Answers = json.loads(FILE.read_text())
    return found


def kafka_at(level: int) -> KafkaCluster:
    return KafkaCluster(features={"transaction.version": level})


def main() -> None:
    answers: Answers = {}
    for level in LEVELS:
        found = answers[str(level)] = {}
        with kafka_at(level) as cluster:
            for case in cases(level):
                notes = play(case, KafkaTarget(cluster))
                changed = differences(case, notes)
                if changed:
                    found[case.name] = changed
                print(f"{level} {case.name}: {len(notes)} answers, {len(changed)} differ from level 2", flush=True)
    FILE.write_text(json.dumps(answers, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
