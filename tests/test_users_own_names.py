"""A user's own modules may have the names of fencepost's directories. fencepost imports nothing by a name like `producer` or `txn`."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

SCRIPT = """
from fencepost import BrokerStub, Producer, TransactionalProducer

with BrokerStub() as stub:
    with Producer(bootstrap_servers=stub.bootstrap) as writer:
        print(writer.send("flights", b"row").result(60).offset)
    with TransactionalProducer(bootstrap_servers=stub.bootstrap, transactional_id="t") as writer, writer.transaction() as transaction:
        transaction.send("flights", b"row")
    print([record.value for record in stub.records("flights", 0)])
"""
TEST = """
import producer, txn, broker_stub
from fencepost import Producer


def test_it(kafka_stub):
    with Producer(bootstrap_servers=kafka_stub.bootstrap) as writer:
        assert writer.send("flights", b"row").result(60).offset == 0
    assert (producer.MINE, txn.MINE, broker_stub.MINE) == (1, 1, 1)
"""
NAMES = ("producer", "txn", "broker_stub")


def run(*arguments: str, cwd: Path) -> str:
    """Run Python as a user does: the script's own directory comes first in the path."""
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONSAFEPATH", "PYTEST_ADDOPTS")}
    done = subprocess.run([sys.executable, *arguments], cwd=cwd, env=environment, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("name", NAMES)
def test_a_script_of_that_name(tmp_path: Path, name: str) -> None:
    """A script `producer.py` that uses fencepost runs."""
    (tmp_path / f"{name}.py").write_text(SCRIPT)
    assert run(f"{name}.py", cwd=tmp_path).split("\n")[0] == "0"


@pytest.mark.parametrize("name", NAMES)
def test_a_package_of_that_name_beside_the_script(tmp_path: Path, name: str) -> None:
    """A script beside a package `producer/` runs, and imports the user's own package."""
    (tmp_path / name).mkdir()
    (tmp_path / name / "__init__.py").write_text("MINE = 1\n")
    (tmp_path / "script.py").write_text(f"{SCRIPT}\nimport {name}\nprint({name}.MINE)\n")
    assert run("script.py", cwd=tmp_path).split() == ["0", "[b'row',", "b'row']", "1"]


@pytest.mark.parametrize("package", [False, True], ids=["modules", "packages"])
def test_the_pytest_fixture_beside_them(tmp_path: Path, package: bool) -> None:
    """`kafka_stub` works in a project that has modules or packages of these names."""
    for name in NAMES:
        file = tmp_path / name / "__init__.py" if package else tmp_path / f"{name}.py"
        file.parent.mkdir(exist_ok=True)
        file.write_text("MINE = 1\n")
    (tmp_path / "test_mine.py").write_text(TEST)
    assert "1 passed" in run("-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:hypothesispytest", "test_mine.py", cwd=tmp_path)


def test_what_is_installed(expected_build: str | None) -> None:
    """site-packages has only `fencepost`, `pyspark_fencepost` (Spark looks for this name), and the library that mypyc made."""
    if expected_build is None:
        pytest.skip("FENCEPOST_EXPECT is not set: this run was not started by make, which installs the package first")
    files = metadata.distribution("fencepost").files or []
    top = {file.parts[0] for file in files if file.parts[0] != ".." and ".dist-info" not in file.parts[0]}
    assert {name for name in top if not name.startswith("fencepost__mypyc")} == {"fencepost", "pyspark_fencepost"}
