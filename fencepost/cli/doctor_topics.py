"""The findings of `fencepost doctor --topic`: whether a topic exists and has leaders, and which of its configs make a producer fail.

It reads configs and changes none.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable

from fencepost.cli.doctor_findings import Finding, Verdict
from fencepost.producer.config.settings import Settings
from fencepost.producer.foundations.counted import counted
from fencepost.producer.wire import ErrorCode, Message, MetadataResponse, MetadataResponseTopic, error_name
from fencepost.producer.wire.messages.configs import DescribeConfigsRequest, DescribeConfigsResource, DescribeConfigsResponse
from fencepost.txn.protocol.cluster_client import the_one

ALL = -1
"""acks=all."""
TOPIC_RESOURCE = 2
WRITE, DESCRIBE = 1 << 4, 1 << 8
"""The bits of AclOperation. A client that sees the topic has DESCRIBE: without that bit the broker did not tell the operations."""
CONFIGS = ("min.insync.replicas", "max.message.bytes", "message.timestamp.type", "cleanup.policy")
NUMBER = re.compile("[0-9]{1,10}")
LOWERED_SINCE = 10
"""The first Produce of Kafka 3.7, whose brokers need no more replicas in sync than there are (`Partition.effectiveMinIsr`)."""
NUMBERS = ("min.insync.replicas", "max.message.bytes")
REASONS = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "it does not exist, or this client lacks DESCRIBE on it; `fencepost topics create` creates it",
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "permission is missing: grant DESCRIBE and WRITE on the topic to this client's principal",
    ErrorCode.INVALID_TOPIC_EXCEPTION: "a topic cannot have this name",
}

Ask = Callable[[Message], Awaitable[Message]]


async def topic_findings(ask: Ask, metadata: MetadataResponse, name: str, settings: Settings, *, produce: int) -> list[Finding]:
    """Its rows. `produce`: the newest version of Produce that the broker offers."""
    subject = f"topic {name}"
    topic = the_one(metadata.topics, subject)
    if topic.error_code:
        reason = REASONS.get(ErrorCode(topic.error_code)) if topic.error_code in list(ErrorCode) else None
        return [Finding(Verdict.FAIL, subject, f"{error_name(topic.error_code)}{f': {reason}' if reason else ''}")]
    return [*_permission(subject, topic), _leaders(subject, topic), *await _configs(ask, subject, topic, settings, produce)]


def _permission(subject: str, topic: MetadataResponseTopic) -> list[Finding]:
    """Whether the client may write. Brokers before Kafka 2.3 do not tell."""
    if not topic.topic_authorized_operations & DESCRIBE:
        return []
    if topic.topic_authorized_operations & WRITE:
        return [Finding(Verdict.OK, subject, "WRITE is permitted")]
    return [Finding(Verdict.FAIL, subject, "permission is missing: grant WRITE on the topic to this client's principal")]


def _leaders(subject: str, topic: MetadataResponseTopic) -> Finding:
    leaderless = [each.partition_index for each in topic.partitions if each.leader_id < 0]
    if leaderless:
        return Finding(Verdict.FAIL, subject, f"partitions {', '.join(map(str, sorted(leaderless)))} have no leader: writes to them wait")
    return Finding(Verdict.OK, subject, f"{counted(len(topic.partitions), 'partition, with', 'partitions, each with')} a leader")


async def _configs(ask: Ask, subject: str, topic: MetadataResponseTopic, settings: Settings, produce: int) -> list[Finding]:
    wanted = DescribeConfigsResource(resource_type=TOPIC_RESOURCE, resource_name=topic.name or "", configuration_keys=list(CONFIGS))
    answer = await ask(DescribeConfigsRequest(resources=[wanted]))
    assert isinstance(answer, DescribeConfigsResponse)
    found = the_one(answer.results, subject)
    if found.error_code:
        return [Finding(Verdict.WARN, subject, f"its configs cannot be read: {error_name(found.error_code)}; grant DESCRIBE_CONFIGS on it")]
    configs = {each.name: each.value or "" for each in found.configs}
    untold = [name for name in CONFIGS if name not in configs or (name in NUMBERS and not NUMBER.fullmatch(configs[name]))]
    if untold:
        return [Finding(Verdict.WARN, subject, f"the broker's answer lacks the configs {', '.join(untold)}")]
    replicas = _replicas(subject, topic, int(configs["min.insync.replicas"]), lowers=produce >= LOWERED_SINCE)
    if replicas.verdict is Verdict.FAIL and settings.acks != ALL:
        replicas = Finding(Verdict.WARN, subject, f"{replicas.words}; not with acks={settings.acks}, which does not wait for replicas")
    findings = [replicas]
    largest, batch = int(configs["max.message.bytes"]), settings.batch_size
    if largest < batch:
        words = (
            f"max.message.bytes={largest} is below batch_size={batch}: the broker refuses full batches, and the producer splits them; "
            "lower batch_size"
        )
        findings.append(Finding(Verdict.WARN, subject, words))
    else:
        findings.append(Finding(Verdict.OK, subject, f"max.message.bytes={largest} allows batches of batch_size={batch}"))
    kind = configs["message.timestamp.type"]
    meaning = "the broker replaces the records' timestamps" if kind == "LogAppendTime" else "records keep the producer's timestamps"
    findings.append(Finding(Verdict.OK, subject, f"message.timestamp.type={kind}: {meaning}"))
    if "compact" in configs["cleanup.policy"]:
        findings.append(
            Finding(Verdict.WARN, subject, f"cleanup.policy={configs['cleanup.policy']}: the broker refuses records without a key")
        )
    return findings


def _replicas(subject: str, topic: MetadataResponseTopic, needed: int, *, lowers: bool) -> Finding:
    """Whether writes with acks=all succeed, now and with one broker less. `lowers`: brokers need no more in sync than there are."""
    fewest = min((len(each.replica_nodes) for each in topic.partitions), default=0)
    in_sync = min((len(each.isr_nodes) for each in topic.partitions), default=0)
    behind = sorted({node for each in topic.partitions for node in each.replica_nodes if node not in each.isr_nodes})
    late = f"{'broker' if len(behind) == 1 else 'brokers'} {', '.join(map(str, behind))}"
    has, is_ = ("has", "is") if len(behind) == 1 else ("have", "are")
    stands = f"min.insync.replicas={needed}, {counted(fewest, 'replica')}, at least {in_sync} in sync"
    if fewest < needed and not lowers:
        return Finding(Verdict.FAIL, subject, f"{stands}: acks=all can never be satisfied (NOT_ENOUGH_REPLICAS)")
    if in_sync < min(needed, fewest):
        return Finding(Verdict.FAIL, subject, f"{stands}: writes with acks=all wait until {late} {has} caught up (NOT_ENOUGH_REPLICAS)")
    if behind:
        return Finding(Verdict.WARN, subject, f"{stands}: {late} {is_} down or behind")
    if fewest < needed:
        return Finding(Verdict.WARN, subject, f"{stands}: this Kafka needs only the {fewest} in sync; older than 3.7 it refuses acks=all")
    if fewest == 1:
        return Finding(Verdict.WARN, subject, f"{stands}: records that its only broker loses are lost")
    if fewest == needed:
        return Finding(Verdict.WARN, subject, f"{stands}: while one of these brokers is down, nothing can be written")
    if needed == 1:
        return Finding(Verdict.WARN, subject, f"{stands}: acknowledged records may be on one broker alone; 2 is safer")
    return Finding(Verdict.OK, subject, f"{stands}")
