"""Topics of fencepost's own besides the user's: names that they cannot have, and their configs.

It creates and changes no topic.
"""

from __future__ import annotations

from typing import Final

from fencepost.producer.base_producer import check_topic
from fencepost.producer.errors import ConfigError
from fencepost.producer.wire.codes import Api, ErrorCode
from fencepost.producer.wire.messages.configs import DescribeConfigsRequest, DescribeConfigsResource, DescribeConfigsResponse
from fencepost.txn.protocol.cluster_client import ClusterClient, Unanswered, refuse, the_one

KAFKAS: Final = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state", "__cluster_metadata"})
"""Kafka's internal topics, to which clients may not write."""

TOPIC: Final = 2
POLICY: Final = "cleanup.policy"
MIN_IN_SYNC: Final = "min.insync.replicas"


def check_own_topic(setting: str, name: object) -> None:
    """Raises ConfigError for a name that no topic can have, or that is one of Kafka's."""
    if not isinstance(name, str):
        raise ConfigError(f"{setting}={name!r}: a topic's name")
    try:
        check_topic(name)
    except ValueError as error:
        raise ConfigError(f"{setting}={name[:300]!r}: {str(error).split(': ', 1)[-1]}") from None
    if name in KAFKAS:
        raise ConfigError(f"{setting}={name!r}: one of Kafka's internal topics, to which clients may not write; use another name")


async def configs_of(client: ClusterClient, topic: str, *names: str) -> dict[str, str]:
    """The topic's values of these configs. Raises NotPermitted if the client may not read them."""
    resource = DescribeConfigsResource(resource_type=TOPIC, resource_name=topic, configuration_keys=list(names))
    answer: DescribeConfigsResponse = await client.ask_any(DescribeConfigsRequest(resources=[resource]))
    said = the_one(answer.results, f"topic {topic!r}")
    if said.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        raise Unanswered(f"topic {topic!r} is not known to every broker yet")
    refuse(Api.DESCRIBE_CONFIGS, said.error_code, f"topic {topic!r}")
    return {config.name: config.value or "" for config in said.configs if config.name in names}


async def policy_of(client: ClusterClient, topic: str) -> tuple[str, frozenset[str]]:
    """The topic's cleanup.policy, as text and as its parts. Raises NotPermitted if the client may not read it."""
    return parts_of((await configs_of(client, topic, POLICY)).get(POLICY, ""))


def parts_of(policy: str) -> tuple[str, frozenset[str]]:
    """A cleanup.policy, as text and as its parts."""
    return policy, frozenset(each.strip() for each in policy.split(","))
