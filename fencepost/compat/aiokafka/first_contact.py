"""What `AIOKafkaProducer.start` finds out before there is a topic: whether any bootstrap server answers."""

from __future__ import annotations

from fencepost.compat.aiokafka.errors import BootstrapAuthenticationFailed, KafkaConnectionError
from fencepost.compat.aiokafka.translation import translating, with_underlying
from fencepost.producer.config.settings import Settings
from fencepost.producer.errors import AuthenticationFailed
from fencepost.txn.protocol.cluster_client import ClusterClient, Unanswered


async def first_contact(settings: Settings) -> None:
    """Ask the bootstrap servers for the cluster's brokers, each once, until one answers. Raises KafkaConnectionError if none does.

    The connection is closed: the producer opens its own when it has a record.
    """
    async with ClusterClient(settings) as client:
        with translating:
            try:
                await client.metadata()
            except Unanswered as error:
                servers = ", ".join(settings.bootstrap_servers)
                raise with_underlying(KafkaConnectionError(f"no broker answers at {servers}: {error}"), error) from error
            except AuthenticationFailed as error:
                raise with_underlying(BootstrapAuthenticationFailed(str(error)), error) from error
