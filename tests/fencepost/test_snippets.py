"""Each program of each page runs as it stands, alone. Here are those that no other test runs, and a table of the tests of the others."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from fencepost.broker_stub import BrokerStub
from fencepost.producer import Producer
from tests.certificates import Authority
from tests.gil import needs_gil
from tests.pages import ROOT, programs
from tests.waiting import until

HERE: Final = "here"
DOCS: Final = "tests/fencepost/test_docs"
RUN_BY: Final[dict[str, list[str]]] = {
    "README.md": ["tests/fencepost/test_readme.py::test_the_program_runs_as_printed", HERE],
    "docs/choosing.md": ["tests/fencepost/test_docs_choosing.py::test_the_outbox_is_relayed_once"],
    "docs/compat.md": [HERE, HERE],
    "docs/inspector.md": [HERE],
    "docs/jobs.md": [f"{DOCS}_jobs.py"] * 4,
    "docs/log.md": [HERE],
    "docs/observing.md": [f"{DOCS}.py::test_the_programs_about_observing_run"] * 2,
    "docs/operating.md": [HERE],
    "docs/pipelines.md": [
        HERE,
        f"{DOCS}_pipelines.py::test_dead_letters_are_sent_again",
        HERE,
        f"{DOCS}_pipelines.py::test_the_loop_reads_again_after_an_abort",
    ],
    "docs/quickstart.md": ["tests/fencepost/test_readme.py"] * 5,
    "docs/replication.md": [f"{DOCS}_replication.py"] * 2,
    "docs/security.md": [HERE] * 2,
    "docs/serializers.md": [*[f"{DOCS}_serializers.py"] * 4, "tests/txn/spark/test_docs_spark.py::test_values_in_avro"],
    "docs/services.md": [HERE],
    "docs/spark-reference.md": ["tests/txn/spark/test_docs_spark.py::test_each_program_runs"] * 3,
    "docs/spark-source.md": ["tests/txn/spark/test_docs_spark.py::test_each_program_runs"],
    "docs/spark.md": ["tests/txn/spark/test_docs_spark.py::test_each_program_runs"] * 2,
    "docs/testing.md": [f"{DOCS}_testing.py"] * 11,
    "docs/transactions.md": [HERE, HERE, HERE, f"{DOCS}_transactions.py::test_the_program_reads_again_after_an_abort", HERE, HERE],
}
"""For each page the tests that run its programs, in their order. docs/api.md has signatures, not programs."""
ENDLESS: Final = {("docs/pipelines.md", 0): "invoices", ("docs/pipelines.md", 2): "invoices"}
"""Programs that run until they are stopped, and the topic to which they write."""
NEED_GIL: Final = {("docs/compat.md", 1)}
"""Programs with the producer that refuses a Python without the GIL."""


def test_no_program_is_left_out() -> None:
    """Each page's programs are in the table, and each test of the table is there."""
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    found = {str(page.relative_to(ROOT)): len(programs(page.read_text(encoding="utf-8"))) for page in pages if page.name != "api.md"}
    assert {page: count for page, count in found.items() if count} == {page: len(each) for page, each in RUN_BY.items()}
    for test in {each for runners in RUN_BY.values() for each in runners} - {HERE}:
        file, _, name = test.partition("::")
        assert f"def {name}" in (ROOT / file).read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("page", "number"),
    [
        pytest.param(page, number, marks=[needs_gil] if (page, number) in NEED_GIL else [])
        for page, runners in RUN_BY.items()
        for number, runner in enumerate(runners)
        if runner == HERE
    ],
)
def test_it_runs_alone(page: str, number: int, tmp_path: Path) -> None:
    """In a process and a directory of its own. Only the address of the brokers and the place of certificates are other ones."""
    program = programs((ROOT / page).read_text(encoding="utf-8"))[number]
    authority = Authority(tmp_path)
    server = authority.issue("localhost")
    for name, content in (
        ("server.pem", server.certfile),
        ("server.key", server.keyfile),
        ("me.pem", server.certfile),
        ("me.key", server.keyfile),
    ):
        (tmp_path / name).write_bytes(Path(content).read_bytes())
    with BrokerStub() as stub:
        for topic in ("orders", "invoices", "report", "progress"):
            stub.create_topic(topic, partitions=2)
        program = program.replace("localhost:9092", stub.bootstrap).replace("/etc/kafka", str(tmp_path))
        environment = {**os.environ, "KAFKA_PASSWORD": "secret", "KAFKA_TOKEN": "token"}
        process = subprocess.Popen(
            [sys.executable, "-c", program], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
        )
        try:
            if (page, number) in ENDLESS:
                with Producer(bootstrap_servers=stub.bootstrap) as producer:
                    producer.send("orders", b"order 1", partition=0)
                until(
                    lambda: stub.records(ENDLESS[page, number], 0) or stub.records(ENDLESS[page, number], 1), "it has written", timeout_s=60
                )
            else:
                out, errors = process.communicate(timeout=60)
                assert (process.returncode, "Traceback" in errors) == (0, False), (out, errors)
        finally:
            process.kill()
            process.communicate(timeout=30)
