"""A transaction that is shared from an event loop: what the blocking producer promises of it, awaited."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from fencepost.broker_stub import BrokerStub
from fencepost.producer.wire import Api
from fencepost.txn.async_producer import AsyncTransactionalProducer
from fencepost.txn.coordinator.send_admission import NoTransaction
from fencepost.txn.shared.participant import Participant
from fencepost.txn.shared.participation import BadParticipation, Participation, Written
from fencepost.txn.shared.shared_partitions import NotShareable
from tests.producer.stub_helpers import QUICK
from tests.reading import read_values
from tests.txn.stub_helpers import LIMIT_S, SETTINGS

TPS = [("t", 0), ("t", 1)]

Story = Callable[[BrokerStub, AsyncTransactionalProducer], Awaitable[None]]


def tell(version: int, story: Story) -> list[bytes]:
    """Run it, and return what readers find after it."""

    async def bounded(stub: BrokerStub) -> None:
        async with AsyncTransactionalProducer({**SETTINGS, "bootstrap_servers": stub.bootstrap}) as producer:
            await asyncio.wait_for(story(stub, producer), LIMIT_S)

    with BrokerStub(transaction_version=version) as stub:
        stub.create_topic("t", partitions=2)
        asyncio.run(bounded(stub))
        return sorted(read_values(stub.bootstrap, "t", range(2)))


async def write(participant: Participant, participation: Participation, value: bytes) -> list[Written]:
    """The value to every partition of the participation, in another thread."""

    def run() -> list[Written]:
        participant.begin(participation, LIMIT_S)
        for topic, partition in participation.partitions:
            participant.send(topic, value, partition=partition)
        return participant.finish(LIMIT_S)

    return await asyncio.to_thread(run)


@pytest.mark.parametrize("version", [1, 2])
def test_what_a_participant_writes_is_part_of_the_transaction(version: int) -> None:
    """Seen with it or not at all; sequences go on with the next participation, what is shared is shared once, and past transactions share
    nothing."""

    async def story(stub: BrokerStub, producer: AsyncTransactionalProducer) -> None:
        with Participant(bootstrap_servers=stub.bootstrap, **QUICK) as participant:
            async with producer.transaction(LIMIT_S) as tx:
                participation = await tx.share(TPS)
                with pytest.raises(NotShareable, match="t-0 was shared"):
                    await tx.share(TPS)
                await tx.returned(await write(participant, participation, b"one"))
                again = await tx.share(TPS[:1])
                assert again.sequences == (("t", 0, 1),)
                await tx.returned(await write(participant, again, b"two"))
                with pytest.raises(BadParticipation):
                    await tx.returned([Written("t", 0, 1, 0, 0, 1)])
            with pytest.raises(NoTransaction):
                await tx.share(TPS)
            with pytest.raises(NoTransaction):
                await tx.returned([])
            tx = await producer.begin(LIMIT_S)
            await write(participant, await tx.share(TPS, LIMIT_S), b"never seen")
            await tx.abort(LIMIT_S)

    assert tell(version, story) == [b"one", b"one", b"two"]


def test_a_share_that_is_cancelled() -> None:
    """While the coordinator is asked (version 1) nothing is shared by it, and the same can be shared by the next call."""

    async def story(stub: BrokerStub, producer: AsyncTransactionalProducer) -> None:
        held = stub.faults.on(Api.ADD_PARTITIONS_TO_TXN).hold()
        with Participant(bootstrap_servers=stub.bootstrap, **QUICK) as participant:
            async with producer.transaction(LIMIT_S) as tx:
                sharing = asyncio.create_task(tx.share(TPS))
                await asyncio.to_thread(held.wait, 1, LIMIT_S)
                sharing.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await sharing
                held.release()
                await tx.returned(await write(participant, await tx.share(TPS), b"one"))

    assert tell(1, story) == [b"one", b"one"]
