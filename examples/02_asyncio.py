"""02: the producer on asyncio. Many tasks share it. `await send(...)` waits for room, and awaiting its result waits for the
acknowledgement."""

import asyncio

from fencepost import AsyncProducer, BrokerStub


async def visitor(producer: AsyncProducer, name: str) -> int:
    """Says hello a hundred times; returns the offset of the last one."""
    for number in range(99):
        await producer.send("greetings", f"{name} {number}".encode(), key=name.encode())
    metadata = await (await producer.send("greetings", f"{name} 99".encode(), key=name.encode()))
    return metadata.offset


async def main() -> None:
    with BrokerStub() as broker:
        async with AsyncProducer(bootstrap_servers=broker.bootstrap, buffer_memory=100_000) as producer:
            offsets = await asyncio.gather(*(visitor(producer, f"visitor-{n}") for n in range(20)))
        print(f"20 visitors, {len(broker.records('greetings', 0))} greetings, the last at offset {max(offsets)}")


asyncio.run(main())
