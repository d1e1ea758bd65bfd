"""`python -m tests.conformance.release_3_9 [pattern ...]`: runs the cases on a Kafka 3.9.1, and records the answers that differ from 4.3.

If 3.9 does not have the version of a request, the case uses the newest version of 3.9. Some answers are then to another question than the
case asks, but to the same one on both sides.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from fnmatch import fnmatch
from pathlib import Path

from fencepost.producer.wire import Api
from tests.conformance.answers import Differences, Notes, differences, load_cases, with_differences
from tests.conformance.gaps import GAPS, Gap
from tests.conformance.kafka_home import OLDER_VERSION
from tests.conformance.targets import KafkaPool, stub_for
from tests.conformance.world import Case, Target, play

EMULATED = "3.9"
FILE = Path(__file__).parent / "answers_3_9.json"

NEWEST: Mapping[int, int] = {
    Api.PRODUCE: 11,
    Api.FETCH: 17,
    Api.LIST_OFFSETS: 9,
    Api.METADATA: 12,
    Api.OFFSET_COMMIT: 9,
    Api.OFFSET_FETCH: 9,
    Api.END_TXN: 4,
    Api.WRITE_TXN_MARKERS: 1,
    Api.TXN_OFFSET_COMMIT: 4,
    Api.LIST_TRANSACTIONS: 1,
    Api.DESCRIBE_GROUPS: 5,
    Api.DESCRIBE_CLUSTER: 1,
    Api.DESCRIBE_LOG_DIRS: 4,
    Api.ALTER_PARTITION_REASSIGNMENTS: 0,
    Api.CONSUMER_GROUP_HEARTBEAT: 0,
    Api.CONSUMER_GROUP_DESCRIBE: 0,
}

LEFT_OUT = {
    "acls.what_implies_what": "makes ACLs of an operation that 3.9 does not know",
    "cluster_admin.the_cluster": "asks for what only DescribeCluster 2 can",
    "coordinators.odd_keys": "3.9 has no share groups and never finds their coordinator",
    "configs.every_topic_config": "the stub's configs are 4.3's",
    "configs.some_topic_configs": "the stub's configs are 4.3's",
    "configs.some_broker_configs": "the stub's configs are 4.3's",
    "offset_records.of_transactions": "begins its transactions with TxnOffsetCommit 5",
    "topics.configs": "the stub's configs are 4.3's",
    "topics.told_configs": "the stub's configs are 4.3's",
    "configs.what_is_wrong_with_a_value": "the stub's configs are 4.3's",
    "topics.what_is_wrong_with_a_placement": "says in words what 4.3 says",
    "leaders.eligible_to_lead": "in 3.9 only in-sync replicas can be elected",
    "groups.members_that_stay_away": "3.9 forgets assignments when a rebalance begins, 4.3 when it ends",
    "reassignments.back_to_the_replicas_of_before": "3.9 ends such a reassignment at once",
    "reassignments.the_number_of_replicas": "asks for what only AlterPartitionReassignments 1 can",
    "reassignments.the_number_that_is_aimed_for": "the same",
    "restarts.killed": "3.9 keeps the leader epoch of a killed broker that has the only replica",
    "restarts.a_restart_keeps_the_records_and_moves_the_leader_epoch": "the same",
    "transaction_offsets.epochs_to_come": "3.9 accepts a future epoch while a transaction is open, and the transaction then never ends",
    "transactions.patterns": "needs ListTransactions 2",
    "versions.unsupported_versions": "the stub does not serve Produce 0 to 2 and Fetch 0 to 3",
    "versions.produce_zero_to_two": "the stub does not serve Produce 0 to 2",
}
"""Cases that do not run, or are not compared, and why."""

AREAS_LEFT_OUT = (
    *("config_resources", "consumer_groups", "consumer_offsets", "controllers", "dynamic_configs"),
    *("share_fetch", "share_groups", "telemetry"),
)
"""3.9 serves the consumer protocol only where it is switched on, and has no share groups. Configs, and what changes while brokers run, are
4.3's."""

_NOWHERE = "empty p{} NONE offset=-1 epoch=-1 ''"
GAPS_3_9: dict[str, Gap] = {
    "fetching.read_committed": Gap(
        "for an unknown isolation level the records are null in 3.9 and empty in 4.3; no client sends that level",
        {"isolation 2": "UNKNOWN_SERVER_ERROR for all; UNKNOWN_SERVER_ERROR hw=-1 lso=-1 start=-1 aborted=0 []"},
    ),
    "leaders.an_unclean_election": Gap(
        "3.9 elects the broker, which still refuses requests as if there were no leader. The stub's broker leads at once, as in 4.3",
        {"after it": "NONE @1 time=- start=0", "end offset after it": "NONE @2 time=- epoch=2"},
    ),
    "group_offsets.topics_that_are_not_there": Gap(
        "the response repeats a partition that OffsetFetch names twice; the case's version 10 has topic ids, which version 9 does not have",
        {"fetch v10": f"g1 NONE [{_NOWHERE.format(0)}; {_NOWHERE.format(0)}; {_NOWHERE.format(7)}]"},
    ),
}
"""Known differences between the stub and 3.9, besides the gaps of the stub as 4.3."""

Answers = dict[str, Differences]


def cases() -> list[Case]:
    return [case for name, case in load_cases().items() if name not in LEFT_OUT and case.area not in AREAS_LEFT_OUT]


def expected(case: Case) -> Notes:
    """Kafka 3.9's answers: those of 4.3 with the recorded differences."""
    return with_differences(case, different().get(case.name, {}), {} if case.older else None)


def expected_of_the_stub(case: Case) -> Notes:
    """The answers of a stub that emulates Kafka 3.9: Kafka's, with the known gaps of the stub."""
    notes = expected(case)
    for gaps in (GAPS, GAPS_3_9):
        if case.name in gaps:
            notes |= gaps[case.name].answers
    return notes


def different() -> Answers:
    found: Answers = json.loads(FILE.read_text()) if FILE.exists() else {}
    return found


@contextmanager
def stub_3_9(case: Case) -> Iterator[Target]:
    with stub_for(case, emulate=EMULATED, newest=NEWEST) as target:
        yield target


def kafka_3_9() -> KafkaPool:
    return KafkaPool(version=OLDER_VERSION, newest=NEWEST)


def main() -> None:
    patterns = sys.argv[1:] or ["*"]
    kept = {name: notes for name, notes in different().items() if name in load_cases() and name not in LEFT_OUT}
    with kafka_3_9() as pool:
        for case in cases():
            if any(fnmatch(case.name, pattern) for pattern in patterns):
                notes = play(case, pool.target_for(case))
                changed = differences(case, notes, {} if case.older else None)
                kept.pop(case.name, None)
                if changed:
                    kept[case.name] = changed
                print(f"{case.name}: {len(notes)} answers, {len(changed)} differ from 4.3", flush=True)
    ordered = {name: kept[name] for name in load_cases() if name in kept}
    FILE.write_text(json.dumps(ordered, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
