"""The ledger's topic, or another one of newest entries: found, or created if it is missing, and checked for configs that lose entries.

It does not change an existing topic. A topic that deletes by time or size is refused. If one lost broker loses the topic, or its configs
may not be read, a warning is logged.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final
from uuid import UUID

from fencepost.producer.core.cluster.view import NO_TOPIC_ID
from fencepost.producer.foundations.counted import counted
from fencepost.producer.foundations.printable import printable
from fencepost.producer.wire.codes import Api, ErrorCode, error_name
from fencepost.producer.wire.messages.metadata import MetadataResponse
from fencepost.txn.errors import NotPermitted
from fencepost.txn.keyed_topic.errors import LedgerUnusable
from fencepost.txn.keyed_topic.purpose import LEDGER, Purpose
from fencepost.txn.protocol.cluster_client import DENIED, ClusterClient, Deadline, Unanswered, refuse, the_one
from fencepost.txn.protocol.create_topic import IN_SYNC_MIN, REPLICAS, create_topic
from fencepost.txn.protocol.own_topics import MIN_IN_SYNC, POLICY, configs_of, parts_of, policy_of

log = logging.getLogger("fencepost.ledger")

PARTITIONS: Final = 8
CONFIGS: Final = {
    "cleanup.policy": "compact",
    "segment.ms": "14400000",
    "segment.bytes": "52428800",
}
"""The configs of a ledger that is created here. Kafka never compacts the newest segment, and each start reads it; these configs limit its
size."""

GONE_S = 5.0
"""How long to look for a topic that existed a while ago."""
WARNED: Final[set[tuple[UUID, str]]] = set()
"""The warnings that this process has logged, by topic, because each batch checks the topic."""

Leaders = dict[int, int]
"""The topic's partitions and their leaders, -1 for a partition without one."""


async def ensure_topic(
    client: ClusterClient, topic: str, deadline: Deadline, known: UUID | None = None, purpose: Purpose = LEDGER
) -> tuple[UUID, Leaders]:
    """The topic's id, its partitions and their leaders. A missing topic is created, and then all leaders are known. `known`: the id that it
    had; then it is not created again, and no other topic may replace it. Raises LedgerUnusable."""
    if known is not None:
        leaders: Leaders | None = await _find_known(client, topic, deadline, purpose)
    else:
        leaders = await client.again(lambda: find_topic(client, topic, purpose.noun), deadline)
    if leaders is None:
        await client.again(lambda: _create(client, topic, purpose), deadline)
        leaders = await client.again(lambda: _find_created(client, topic), deadline)
    topic_id = await client.again(lambda: _check(client, topic, known, purpose), deadline)
    return topic_id, leaders


async def find_topic(client: ClusterClient, topic: str, noun: str = LEDGER.noun) -> Leaders | None:
    """The topic's partitions and their leaders, None if it is missing. Raises LedgerUnusable if the client may not see it."""
    return leaders_of(await client.metadata([topic]), topic, noun)


async def _find_created(client: ClusterClient, topic: str) -> Leaders:
    leaders = await find_topic(client, topic)
    if leaders is None or min(leaders.values(), default=-1) < 0:
        raise Unanswered(f"topic {topic!r} has been created, and does not have all its leaders yet")
    return leaders


async def _find_known(client: ClusterClient, topic: str, deadline: Deadline, purpose: Purpose) -> Leaders:
    now_s = asyncio.get_running_loop().time
    unusable = LedgerUnusable(f"topic {topic!r} was deleted while it was in use: {purpose.at_stake}")
    gone_at: float | None = None

    async def find() -> Leaders:
        nonlocal gone_at
        leaders = await find_topic(client, topic)
        if leaders is not None:
            return leaders
        gone_at = now_s() if gone_at is None else gone_at
        if now_s() - gone_at >= GONE_S:  # A broker may know less than the others.
            raise unusable
        raise Unanswered(f"topic {topic!r} does not exist any more")

    try:
        return await client.again(find, deadline)
    except Unanswered:
        if gone_at is None:
            raise
        raise unusable from None


def leaders_of(metadata: MetadataResponse, topic: str, noun: str = LEDGER.noun) -> Leaders | None:
    """The part of `find_topic` that reads one answer."""
    for each in metadata.topics:
        if each.name != topic:
            continue
        if each.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            return None
        if each.error_code in DENIED:
            raise LedgerUnusable(f"topic {topic!r}: {error_name(each.error_code)}: the {noun} needs DESCRIBE, READ and WRITE on it")
        refuse(Api.METADATA, each.error_code, f"topic {topic!r}")
        return {partition.partition_index: partition.leader_id for partition in each.partitions}
    return None


async def _create(client: ClusterClient, topic: str, purpose: Purpose) -> None:
    try:
        if await create_topic(client, topic, PARTITIONS, CONFIGS):
            log.info("topic %r of the %s has been created, with %s", topic, purpose.noun, CONFIGS)
    except NotPermitted as error:
        settings = ", ".join(f"{name}={value}" for name, value in CONFIGS.items())
        raise LedgerUnusable(
            f"topic {topic!r} of the {purpose.noun} does not exist, and cannot be created: {error}. Create it with cleanup.policy=compact "
            f"({PARTITIONS} partitions and {settings} are recommended), or grant CREATE on it"
        ) from None


async def _check(client: ClusterClient, topic: str, known: UUID | None = None, purpose: Purpose = LEDGER) -> UUID:
    said = the_one((await client.metadata([topic])).topics, f"topic {topic!r}")
    refuse(Api.METADATA, said.error_code, f"topic {topic!r}")
    if known not in (None, NO_TOPIC_ID, said.topic_id) and said.topic_id != NO_TOPIC_ID:
        raise LedgerUnusable(
            f"topic {topic!r} is not the one that was in use: that one was deleted, and another client has created this "
            f"one{await _policy_words(client, topic)}: {purpose.at_stake}"
        )
    fewest = min((len(each.replica_nodes) for each in said.partitions), default=REPLICAS)
    if fewest < REPLICAS:
        _warn(
            said.topic_id,
            f"topic {topic!r} has a partition on {counted(fewest, 'broker')}: if that is lost, the {purpose.noun} is lost, "
            f"and {purpose.lost}. Have it on {REPLICAS}, with {MIN_IN_SYNC}={IN_SYNC_MIN}",
        )
    try:
        configs = await configs_of(client, topic, POLICY, MIN_IN_SYNC)
    except NotPermitted as error:
        _warn(
            said.topic_id,
            f"this client may not read the configs of the topic of the {purpose.noun}, so it cannot tell whether the topic keeps its"
            f" records: {error}; it must have {POLICY}=compact",
        )
        return said.topic_id
    policy, kept = parts_of(configs.get(POLICY, ""))
    if "delete" in kept:
        raise LedgerUnusable(
            f"topic {topic!r} has {POLICY}={policy}, which deletes entries after a time: {purpose.twice}. Set {POLICY}=compact for it"
        )
    if "compact" not in kept:
        _warn(
            said.topic_id,
            f"topic {topic!r} has {POLICY}={policy}: the {purpose.noun} grows without end, and is read whole at each start; set it"
            " to compact",
        )
    in_sync = configs.get(MIN_IN_SYNC, "")
    if fewest >= REPLICAS and in_sync.isdecimal() and int(in_sync) < IN_SYNC_MIN:
        _warn(
            said.topic_id,
            f"topic {topic!r} has {MIN_IN_SYNC}={in_sync}: what one broker alone has acknowledged is lost with it, and with it what the"
            f" {purpose.noun} has. Set {MIN_IN_SYNC}={IN_SYNC_MIN} for it",
        )
    return said.topic_id


async def _policy_words(client: ClusterClient, topic: str) -> str:
    try:
        return f", with {POLICY}={(await policy_of(client, topic))[0]}"
    except NotPermitted:
        return ""


def _warn(topic_id: UUID, words: str) -> None:
    """Log the warning once in a process."""
    if (topic_id, words) not in WARNED:
        WARNED.add((topic_id, words))
        log.warning("%s", printable(words))
