"""Creates a topic of fencepost's own, on three brokers if there are three, even if the cluster's default is less: one lost disk must not
break a promise. It does not change an existing topic."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from fencepost.producer.foundations.counted import counted
from fencepost.producer.foundations.printable import said
from fencepost.producer.wire import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest, CreateTopicsResponse
from fencepost.producer.wire.codes import Api, ErrorCode
from fencepost.txn.errors import NotPermitted
from fencepost.txn.protocol.cluster_client import ClusterClient, Unanswered, refuse, the_one
from fencepost.txn.protocol.own_topics import MIN_IN_SYNC

CREATE_VERSIONS: Final = range(8)
REPLICAS: Final = 3
IN_SYNC_MIN: Final = 2
CREATE_TIMEOUT_MS: Final = 15_000


async def create_topic(client: ClusterClient, topic: str, partitions: int, configs: Mapping[str, str]) -> bool:
    """Ask once for the topic. Returns whether it was created now; some brokers may not know it yet. Raises Unanswered if a later attempt
    may succeed, and NotPermitted with the broker's reason if not."""
    metadata = await client.metadata()
    replicas = min(REPLICAS, len(metadata.brokers))
    configs = {**configs, MIN_IN_SYNC: str(IN_SYNC_MIN)} if replicas == REPLICAS else configs
    new = CreatableTopic(
        name=topic,
        num_partitions=partitions,
        replication_factor=replicas,
        configs=[CreatableTopicConfig(name=name, value=value) for name, value in configs.items()],
    )
    request = CreateTopicsRequest(topics=[new], timeout_ms=CREATE_TIMEOUT_MS)
    if metadata.controller_id in client.brokers:
        answer: CreateTopicsResponse = await client.ask(metadata.controller_id, request, CREATE_VERSIONS)
    else:
        answer = await client.ask_any(request, CREATE_VERSIONS)
    told = the_one(answer.topics, f"topic {topic!r}")
    if told.error_code == ErrorCode.TOPIC_ALREADY_EXISTS:
        return False
    if told.error_code == ErrorCode.INVALID_REPLICATION_FACTOR:
        raise Unanswered(
            f"topic {topic!r}: {counted(replicas, 'broker was', 'brokers were')} there a moment ago, and fewer are "
            f"there now ({said(told.error_message)})"
        )
    if told.error_code == ErrorCode.NOT_CONTROLLER:
        raise Unanswered(f"topic {topic!r}: broker {metadata.controller_id} is no longer the controller")
    try:
        refuse(Api.CREATE_TOPICS, told.error_code, f"topic {topic!r}")
    except NotPermitted as error:
        raise NotPermitted(f"{error}{f' ({said(told.error_message)})' if told.error_message else ''}") from None
    return True
