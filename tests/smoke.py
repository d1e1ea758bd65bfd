"""Tries an installed fencepost where nothing else is: `python -P tests/smoke.py [--compiled]`. It prints what it did, and fails aloud.

It needs no pytest and no test requirements, so that each wheel can be tried where it was built.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

import fencepost
from fencepost import Api, BrokerStub, Producer, TransactionalProducer

THREADS = 4
EACH = 5_000
LIMIT_S = 60.0


def threads_write_once(data_dir: Path) -> None:
    """Threads share a producer, while replies are lost. A stub that starts again with its directory has each record once, in each
    thread's order."""
    with BrokerStub(brokers=3, data_dir=data_dir) as stub:
        stub.create_topic("numbers", partitions=THREADS, replication_factor=3)
        stub.faults.on(Api.PRODUCE).drop_reply().times(3)
        with Producer(bootstrap_servers=stub.bootstrap, linger_ms=1, request_timeout_ms=1_000) as producer:

            def write(thread: int) -> None:
                for number in range(EACH):
                    producer.send("numbers", b"%d" % number, partition=thread)

            threads = [threading.Thread(target=write, args=(thread,)) for thread in range(THREADS)]
            for each in threads:
                each.start()
            for each in threads:
                each.join(LIMIT_S)
            producer.flush(timeout=LIMIT_S)
        duplicates = stub.stats()["duplicates"]
    with BrokerStub(brokers=3, data_dir=data_dir) as stub:
        for thread in range(THREADS):
            values = [record.value for record in stub.records("numbers", thread)]
            assert values == [b"%d" % number for number in range(EACH)], (thread, len(values), Counter(values).most_common(1))
    assert duplicates > 0, "no batch came twice, so nothing was tried"
    print(f"{THREADS} threads: {THREADS * EACH:,} records, each once; {duplicates} batches came twice")


def transactions_are_whole() -> None:
    """Readers with read_committed see the committed transaction, and nothing of the aborted one."""
    with BrokerStub() as stub, TransactionalProducer(bootstrap_servers=stub.bootstrap, transactional_id="smoke") as producer:
        for number, is_committed in enumerate((True, False, True)):
            try:
                with producer.transaction(timeout=LIMIT_S) as transaction:
                    transaction.send("orders", b"%d" % number)
                    if not is_committed:
                        raise KeyError(number)
            except KeyError:
                pass
        values = [record.value for record in stub.records("orders", 0, isolation="read_committed")]
    assert values == [b"0", b"2"], values
    print("transactions: two committed, one aborted")


def commands_run() -> None:
    """The command line starts."""
    for arguments in (["--version"], ["--help"]):
        done = subprocess.run(
            [sys.executable, "-P", "-m", "fencepost", *arguments], capture_output=True, text=True, timeout=LIMIT_S, check=True
        )
        print(done.stdout.strip().splitlines()[0])


def main() -> None:
    """See the module."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--compiled", action="store_true", help="fail if the hot modules are not compiled")
    must_be_compiled = asked.parse_args().compiled
    build = fencepost.build_info()
    print(build)
    if must_be_compiled and not build.compiled:
        raise SystemExit(f"this wheel was to be compiled: {build.pure_because}")
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as directory:
        threads_write_once(Path(directory))
    transactions_are_whole()
    commands_run()
    print(f"all of it worked, in {time.monotonic() - began:.1f} s")


if __name__ == "__main__":
    main()
