"""A pure installation on a platform where librt has no wheel, without any extra and without what only the command line needs."""

from __future__ import annotations

import os
import subprocess
import sys

ABSENT = ("librt", "pyarrow", "pyspark", "pandas", "confluent_kafka", "typer", "rich", "tenacity")
PROGRAM = f"""
import sys

sys.modules.update(dict.fromkeys({ABSENT}))  # an import of these fails from now on

from fencepost import BrokerStub, Producer, TransactionalProducer
from fencepost.producer.foundations.runtime import BytesWriter

assert BytesWriter.__module__ == "fencepost.producer.foundations.plain_byte_writer", BytesWriter
with BrokerStub() as stub:
    stub.create_topic("t")
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        with Producer(bootstrap_servers=stub.bootstrap, compression_type=codec) as producer:
            producer.send_many("t", [(b"key %d" % number, b"v" * number) for number in range(300)]).result(30)
            producer.send("t", b"with a header", headers=[("name", b"value")], timestamp=1_700_000_000_000).result(30)
    with TransactionalProducer(bootstrap_servers=stub.bootstrap, transactional_id="id") as producer:
        with producer.transaction(30) as tx:
            tx.send("t", b"committed")
    records = stub.records("t", 0)
    print(len(records), records[-1].value, records[300].headers, records[300].timestamp)
"""


def test_the_main_job_needs_none_of_them() -> None:
    """Every codec, headers, a bulk and a transaction, with plain Python in place of librt."""
    env = {**os.environ, "FENCEPOST_PURE": "1", "FENCEPOST_EXPECT": ""}
    ran = subprocess.run([sys.executable, "-P", "-c", PROGRAM], capture_output=True, text=True, timeout=120, check=False, env=env)
    assert (ran.returncode, ran.stderr, ran.stdout) == (0, "", "1506 b'committed' (('name', b'value'),) 1700000000000\n")


def cli(absent: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The command line without that package."""
    program = (
        f"import sys; sys.modules[{absent!r}] = None; sys.argv = ['fencepost', *{arguments!r}]; from fencepost.cli import main; main()"
    )
    env = {**os.environ, "FENCEPOST_PURE": "1", "FENCEPOST_EXPECT": ""}
    return subprocess.run([sys.executable, "-P", "-c", program], capture_output=True, text=True, timeout=60, check=False, env=env)


def test_the_command_line_names_a_missing_package() -> None:
    """One sentence, which says what to install, in place of a traceback."""
    ran = cli("typer", "broker", "--help")
    assert (ran.returncode, ran.stdout) == (1, "")
    assert ran.stderr == "fencepost: this command needs typer, which is not installed: pip install typer\n"


def test_commands_without_confluent_kafka_do_not_need_it() -> None:
    """Their help is there, and so is that of the demo, which needs it only to run."""
    for command in ("broker", "produce", "demo"):
        ran = cli("confluent_kafka", command, "--help")
        assert (ran.returncode, ran.stderr) == (0, "")
