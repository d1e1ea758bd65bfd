"""Whether another producer has taken a transactional id over. `Fenced` alone does not tell that from the producer's own timeout."""

from __future__ import annotations

from fencepost.producer.config.settings import Settings
from fencepost.txn.errors import TransactionTimeout
from fencepost.txn.protocol.cluster_client import ClusterClient, Deadline, Unanswered
from fencepost.txn.protocol.describe import describe_transaction
from fencepost.txn.recovery.outcome import registered_since


async def find_successor(
    transactional_id: str, identity: tuple[int, int] | None, settings: Settings, timeout_s: float, *, version2: bool
) -> bool:
    """Ask the coordinator. `identity`: the producer's newest, or None before its registration. Raises TransactionTimeout, and NotPermitted
    from a broker before Kafka 3.0."""
    if identity is None:
        return False
    async with ClusterClient(settings) as client:
        deadline = Deadline(timeout_s)
        try:
            state = await client.again(lambda: describe_transaction(client, transactional_id), deadline)
        except Unanswered as error:
            raise TransactionTimeout(
                f"replaced: the coordinator of transactional id {transactional_id!r} did not answer within {timeout_s:g} s: {error}"
            ) from None
    return state is not None and registered_since(identity, state, version2=version2)
