"""Which sources are changed, and which tests stand nearest to them: the ones that a person who breaks such a file would run first."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Area:
    """Glob patterns below the repository; behind `::` stands the one test that is wanted of a file. Tests that bear the name of the changed
    file run first, the others in this order. `without`: tests of other things, which take long."""

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
        tests=("tests/producer/test_*.py", "tests/simulation/test_*.py", "tests/txn/spark/test_routing.py"),
        without=(
            *("tests/producer/test_auth.py", "tests/producer/test_crowds.py", "tests/producer/test_exit.py", "tests/producer/test_ipv6.py"),
            *("tests/producer/test_reauthentication.py", "tests/producer/test_security*.py", "tests/producer/test_uvloop.py"),
        ),
    ),
    "txn": Area(
        sources=("txn/*.py", "txn/coordinator/*.py", "txn/ledger/*.py", "txn/protocol/*.py", "txn/recovery/*.py", "txn/shared/*.py"),
        tests=("tests/txn/test_*.py", "tests/txn_walk/test_*.py"),
    ),
    "broker_stub/log": Area(
        sources=("broker_stub/log/*.py",),
        tests=(
            "tests/broker_stub/test_log_*.py",
            "tests/broker_stub/test_replication.py",
            "tests/broker_stub/test_transactions.py",
            AS_KAFKA,
        ),
    ),
    "coordinators": Area(
        sources=("broker_stub/groups/*.py", "broker_stub/transactions/*.py"),
        tests=(
            "tests/broker_stub/test_*group*.py",
            "tests/broker_stub/test_offsets_*.py",
            "tests/broker_stub/test_*txn*.py",
            "tests/broker_stub/test_transactions.py",
            "tests/txn_walk/test_*.py",
            AS_KAFKA,
        ),
    ),
    "access and quotas": Area(
        sources=(
            "broker_stub/security/acls.py",
            "broker_stub/security/authorizer.py",
            "broker_stub/requests/permissions.py",
            "broker_stub/quotas/quotas.py",
            "broker_stub/quotas/rates.py",
        ),
        tests=("tests/broker_stub/test_acls.py", "tests/broker_stub/test_quotas.py", "tests/broker_stub/test_admin.py", AS_KAFKA),
    ),
}


def expand(patterns: tuple[str, ...]) -> list[str]:
    found = []
    for pattern in patterns:
        files, marks, test = pattern.partition("::")
        found += [path.relative_to(ROOT).as_posix() + marks + test for path in sorted(ROOT.glob(files))]
    return list(dict.fromkeys(found))
