"""What programs ask of a producer's `client` in aiokafka: which topics, partitions and brokers the cluster has.

Health checks call `fetch_all_metadata` or `force_metadata_update`. The producer below does not use this client, and each call opens a
connection of its own.
"""

from __future__ import annotations

import asyncio
from typing import Final

from fencepost.compat.aiokafka.structs import BrokerMetadata
from fencepost.compat.aiokafka.translation import translating
from fencepost.producer.config.settings import Settings
from fencepost.producer.wire.codes import ErrorCode
from fencepost.producer.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from fencepost.txn.protocol.cluster_client import ClusterClient, Unanswered

VERSIONS: Final = range(4, 14)
"""Those in which a client can say that no topic is to be created."""


class Cluster:
    """The cluster as the newest answer described it; empty before the first one."""

    def __init__(self) -> None:
        self._answer = MetadataResponse()

    def brokers(self) -> set[BrokerMetadata]:
        """The live brokers."""
        return {BrokerMetadata(each.node_id, each.host, each.port, each.rack) for each in self._answer.brokers}

    def topics(self, exclude_internal_topics: bool = True) -> set[str]:
        """The topics that were asked for and exist."""
        there = [each for each in self._answer.topics if each.error_code == ErrorCode.NONE and each.name]
        return {each.name for each in there if each.name and not (exclude_internal_topics and each.is_internal)}

    def partitions_for_topic(self, topic: str) -> set[int] | None:
        """The topic's partitions; None if it is not known."""
        found = next((each for each in self._answer.topics if each.name == topic and each.error_code == ErrorCode.NONE), None)
        return None if found is None else {each.partition_index for each in found.partitions}

    def take(self, answer: MetadataResponse) -> None:
        """A broker's answer."""
        self._answer = answer


class Client:
    """aiokafka's client, as far as programs use a producer's. `cluster`: what the newest answer said."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._topics: set[str] = set()
        self.cluster = Cluster()

    def add_topic(self, topic: str) -> asyncio.Future[bool]:
        """Ask for this topic, too, from the next update on, which creates it if the cluster allows that. Without any, an update asks for
        all topics."""
        self._topics.add(topic)
        added: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        added.set_result(True)
        return added

    async def force_metadata_update(self) -> bool:
        """Ask a broker now. False if none answered."""
        return await self._update([MetadataRequestTopic(name=name) for name in self._topics] or None)

    async def fetch_all_metadata(self) -> Cluster:
        """Ask for all topics, and return the cluster. If no broker answered, it is as it was before."""
        await self._update(None)
        return self.cluster

    async def _update(self, topics: list[MetadataRequestTopic] | None) -> bool:
        request = MetadataRequest(topics=topics, allow_auto_topic_creation=topics is not None)
        async with ClusterClient(self._settings) as client:
            with translating:
                try:
                    self.cluster.take(await client.ask_any(request, VERSIONS))
                except Unanswered:
                    return False
        return True
