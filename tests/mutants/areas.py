"""Which sources the mutants change, and which tests run for each of them, nearest first."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Area:
    """Glob patterns below the repository. `::` and a name select one test of a file. Tests that have the name of the changed file run
    first, then the others in this order.

    `without`: tests of other subjects that take long.
    """

    sources: tuple[str, ...]
    tests: tuple[str, ...]
    without: tuple[str, ...] = ()

    def files(self) -> list[str]:
        """The sources, as paths below the repository."""
        return expand(self.sources)

    def nearest(self, source: str) -> list[str]:
        """The test files to run for a change of this source."""
        name = Path(source).stem
        without = expand(self.without)
        return sorted((test for test in expand(self.tests) if test not in without), key=lambda test: name not in Path(test).stem)


AS_KAFKA: Final = "tests/conformance/test_conformance.py::test_stub_answers_as_kafka"
"""The stub beside the answers that were recorded from Apache Kafka."""

AREAS: Final[dict[str, Area]] = {
    "producer/core": Area(
        sources=("producer/accumulator/*.py", "producer/bulk/*.py", "producer/core/*.py", "producer/core/*/*.py"),
        tests=(
            *("tests/producer/core/test_*.py", "tests/producer/core/*/test_*.py"),
            *("tests/producer/accumulator/test_*.py", "tests/producer/bulk/test_*.py", "tests/producer/test_*.py"),
            *("tests/producer/config/test_*.py", "tests/producer/network/test_*.py", "tests/producer/observe/test_*.py"),
            *("tests/simulation/test_*.py", "tests/txn/spark/rows/test_routing.py"),
        ),
        without=(
            *("tests/producer/test_exit.py", "tests/producer/test_many_senders.py", "tests/producer/test_uvloop.py"),
            *(
                "tests/producer/network/test_ipv6.py",
                "tests/producer/network/test_reauthentication.py",
                "tests/producer/network/test_sasl.py",
            ),
            *("tests/producer/config/test_security.py", "tests/producer/network/test_security*.py"),
        ),
    ),
    "txn": Area(
        sources=(
            *("txn/*.py", "txn/coordinator/*.py", "txn/keyed_topic/*.py", "txn/ledger/*.py"),
            *("txn/protocol/*.py", "txn/recovery/*.py", "txn/shared/*.py"),
        ),
        tests=(
            *("tests/txn/test_*.py", "tests/txn/coordinator/test_*.py", "tests/txn/foundations/test_*.py", "tests/txn/ledger/test_*.py"),
            *("tests/txn/protocol/test_*.py", "tests/txn/recovery/test_*.py", "tests/txn/shared/test_*.py", "tests/txn_walk/test_*.py"),
        ),
    ),
    "broker_stub/log": Area(
        sources=("broker_stub/log/*.py",),
        tests=(
            "tests/broker_stub/log/test_*.py",
            "tests/broker_stub/replication/test_replication.py",
            "tests/broker_stub/transactions/test_coordinators.py",
            AS_KAFKA,
        ),
    ),
    "coordinators": Area(
        sources=(
            *("broker_stub/groups/*.py", "broker_stub/groups/state/*.py", "broker_stub/groups/classic/*.py"),
            *("broker_stub/groups/consumer/*.py", "broker_stub/groups/offsets/*.py", "broker_stub/transactions/*.py"),
        ),
        tests=(
            "tests/broker_stub/groups/test_*.py",
            "tests/broker_stub/transactions/test_*.py",
            "tests/txn_walk/test_*.py",
            AS_KAFKA,
        ),
    ),
    "compat/aiokafka": Area(
        sources=("fencepost/compat/aiokafka/*.py",),
        tests=("tests/fencepost/compat/test_aiokafka_*.py",),
    ),
    "access and quotas": Area(
        sources=(
            "broker_stub/security/acls.py",
            "broker_stub/security/authorizer.py",
            "broker_stub/requests/permissions.py",
            "broker_stub/quotas/quotas.py",
            "broker_stub/quotas/rate.py",
        ),
        tests=(
            "tests/broker_stub/security/test_acls.py",
            "tests/broker_stub/quotas/test_quotas.py",
            "tests/broker_stub/handlers/test_admin.py",
            AS_KAFKA,
        ),
    ),
}


def expand(patterns: tuple[str, ...]) -> list[str]:
    found = []
    for pattern in patterns:
        files, marks, test = pattern.partition("::")
        found += [path.relative_to(ROOT).as_posix() + marks + test for path in sorted(ROOT.glob(files))]
    return list(dict.fromkeys(found))
