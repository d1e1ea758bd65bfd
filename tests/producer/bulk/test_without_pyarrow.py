"""Without pyarrow everything works but `send_arrow`, which says what to install."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import asyncio, sys
sys.modules["pyarrow"] = None
from fencepost import AsyncProducer, BrokerStub, Producer
async def bulk(settings):
    async with AsyncProducer(settings) as producer:
        try:
            await producer.send_arrow("t", object())
        except ImportError as error:
            print(error)
with BrokerStub() as stub:
    with Producer(stub.settings) as producer:
        print(producer.send("t", b"one").result(20).offset)
        try:
            producer.send_arrow("t", object())
        except ImportError as error:
            print(error)
    asyncio.run(bulk(stub.settings))
"""
NEEDED = "send_arrow needs pyarrow: install fencepost's extra `arrow`, in a checkout with pip install '.[arrow]'"


def test_send_arrow_names_the_extra() -> None:
    """Both producers name the extra. Records go without it."""
    ran = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=60, check=True)
    assert ran.stdout.splitlines() == ["0", NEEDED, NEEDED]
