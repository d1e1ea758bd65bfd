"""The ledger's topic: found, created where it is not there, and looked at whether it keeps what is written to it.

Nothing of a topic that is there is changed. One that deletes by time or size is refused; one that is lost with a broker, or may not be
looked at, is taken as it is, with a warning in the log.
"""

from __future__ import annotations

import logging
from typing import Final
from uuid import UUID

from producer.core.printable import printable
from producer.wire.codes import Api, ErrorCode, error_name
from producer.wire.messages.metadata import MetadataResponse
from txn.envoy import DENIED, Deadline, Envoy, Unanswered, refuse, the_one
from txn.errors import NotPermitted
from txn.ledger_errors import LedgerUnusable
from txn.own_topics import MIN_IN_SYNC, POLICY, configs_of, parts_of
from txn.topic_creation import IN_SYNC_MIN, REPLICAS, create_topic

log = logging.getLogger("fencepost.ledger")

PARTITIONS: Final = 8
CONFIGS: Final = {
    "cleanup.policy": "compact",
    "segment.ms": "14400000",
    "segment.bytes": "52428800",
}
"""Of a ledger that is created here. What is in the newest segment is never compacted, and is read at each start; these bound it."""

WARNED: Final[set[tuple[UUID, str]]] = set()
"""Which topics this process was warned of, and of what: they are looked at with every batch."""

Leaders = dict[int, int]
"""The partitions of the topic and their leaders, -1 where there is none at the moment."""


async def ensure_topic(envoy: Envoy, topic: str, deadline: Deadline) -> Leaders:
    """The topic's partitions and their leaders; it is created where it is not there, and has them all then. Raises LedgerUnusable."""
    leaders = await envoy.again(lambda: find_topic(envoy, topic), deadline)
    if leaders is None:
        await envoy.again(lambda: _create(envoy, topic), deadline)
        leaders = await envoy.again(lambda: _find_created(envoy, topic), deadline)
    await envoy.again(lambda: _check(envoy, topic), deadline)
    return leaders


async def find_topic(envoy: Envoy, topic: str) -> Leaders | None:
    """The topic's partitions and their leaders, None where there is no such topic. Raises LedgerUnusable where it may not be seen."""
    return leaders_of(await envoy.metadata([topic]), topic)


async def _find_created(envoy: Envoy, topic: str) -> Leaders:
    leaders = await find_topic(envoy, topic)
    if leaders is None or min(leaders.values(), default=-1) < 0:
        raise Unanswered(f"topic {topic!r} has been created, and does not have all its leaders yet")
    return leaders


def leaders_of(metadata: MetadataResponse, topic: str) -> Leaders | None:
    """What `find_topic` finds in an answer."""
    for each in metadata.topics:
        if each.name != topic:
            continue
        if each.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            return None
        if each.error_code in DENIED:
            raise LedgerUnusable(f"topic {topic!r}: {error_name(each.error_code)}: the ledger needs DESCRIBE, READ and WRITE on it")
        refuse(Api.METADATA, each.error_code, f"topic {topic!r}")
        return {partition.partition_index: partition.leader_id for partition in each.partitions}
    return None


async def _create(envoy: Envoy, topic: str) -> None:
    try:
        if await create_topic(envoy, topic, PARTITIONS, CONFIGS):
            log.info("the ledger's topic %r has been created, with %s", topic, CONFIGS)
    except NotPermitted as error:
        settings = ", ".join(f"{name}={value}" for name, value in CONFIGS.items())
        raise LedgerUnusable(
            f"the ledger's topic is not there, and cannot be created: {error}. Have somebody create it, with cleanup.policy=compact"
            f" ({PARTITIONS} partitions and {settings} would be asked for), or grant CREATE on it"
        ) from None


async def _check(envoy: Envoy, topic: str) -> None:
    said = the_one((await envoy.metadata([topic])).topics, f"topic {topic!r}")
    fewest = min((len(each.replica_nodes) for each in said.partitions), default=REPLICAS)
    if fewest < REPLICAS:
        _warn(
            said.topic_id,
            f"topic {topic!r} has a partition on {fewest} broker{'s' if fewest > 1 else ''}: where that is lost, so is what the ledger has,"
            f" and batches are refused or written twice. Have it on {REPLICAS}, with {MIN_IN_SYNC}={IN_SYNC_MIN}",
        )
    try:
        configs = await configs_of(envoy, topic, POLICY, MIN_IN_SYNC)
    except NotPermitted as error:
        _warn(
            said.topic_id,
            f"whether the ledger's topic keeps what is written to it, nobody may tell: {error}; it must have {POLICY}=compact",
        )
        return
    policy, kept = parts_of(configs.get(POLICY, ""))
    if "delete" in kept:
        raise LedgerUnusable(
            f"topic {topic!r} has {POLICY}={policy}, which deletes entries after a time: batches would be written twice. Set"
            f" {POLICY}=compact for it"
        )
    if "compact" not in kept:
        _warn(
            said.topic_id,
            f"topic {topic!r} has {POLICY}={policy}: the ledger grows without end, and is read whole at each start; set it to compact",
        )
    in_sync = configs.get(MIN_IN_SYNC, "")
    if fewest >= REPLICAS and in_sync.isdecimal() and int(in_sync) < IN_SYNC_MIN:
        _warn(
            said.topic_id,
            f"topic {topic!r} has {MIN_IN_SYNC}={in_sync}: what one broker alone has acknowledged is lost with it, and with it what the"
            f" ledger has. Set {MIN_IN_SYNC}={IN_SYNC_MIN} for it",
        )


def _warn(topic_id: UUID, words: str) -> None:
    """Once in a process."""
    if (topic_id, words) not in WARNED:
        WARNED.add((topic_id, words))
        log.warning("%s", printable(words))
