"""A broker gives the memory of deleted records back to the system."""

from __future__ import annotations

import platform
import subprocess
import sys
from typing import Final

import pytest

from tests.gil import GIL_IS_OFF

MIB: Final = 1 << 20
STORED_MIB: Final = 400
PROGRAM: Final = f"""
import gc
from fencepost import BrokerStub, Producer

def resident():
    with open("/proc/self/status") as status:
        return int(next(line for line in status if line.startswith("VmRSS")).split()[1]) // 1024

with BrokerStub() as stub:
    stub.create_topic("t", partitions=1, config={{"segment.bytes": "16777216", "retention.bytes": "16777216"}})
    before = resident()
    with Producer(bootstrap_servers=stub.bootstrap, batch_size=262144, max_request_size=2000000) as producer:
        for _ in range({STORED_MIB} // 50):
            producer.send_many("t", [bytes(1000)] * 52429)
            producer.flush(60)
    stored = resident()
    stub.clean_logs()
    gc.collect()
    stub.clean_logs()
    print(before, stored, resident())
"""


@pytest.mark.skipif(GIL_IS_OFF, reason="the allocator of Python without the GIL keeps what is freed")
@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries have no malloc_trim")
def test_retention_gives_memory_back() -> None:
    """After retention the process holds what it held before, up to the active segment and what clients keep."""
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    before, stored, left = map(int, done.stdout.split())
    assert stored - before > STORED_MIB * 0.9
    assert left - before < STORED_MIB / 4
