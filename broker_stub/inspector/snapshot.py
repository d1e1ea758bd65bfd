"""A stub's cluster as one snapshot: brokers, partitions with their lanes, producers, transactions, groups, faults and changes.

It runs on the thread of the cluster, where nothing changes meanwhile. Everything in it is bounded. It changes nothing, and has no keys and
values of records.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sized
from typing import Any, Final, Protocol, TypeVar
from uuid import UUID

from fencepost.broker_stub.cluster.broker import Broker
from fencepost.broker_stub.cluster.history import BrokerChange, PartitionChange
from fencepost.broker_stub.cluster.topics import Topic
from fencepost.broker_stub.inspector.coordinators import Data, groups, transactions
from fencepost.broker_stub.inspector.lanes import LaneCache, bars
from fencepost.broker_stub.log import PartitionLog
from fencepost.broker_stub.replication.partition import Partition
from fencepost.broker_stub.requests.services import Services

FORMAT: Final = 1
PARTITIONS_MAX: Final = 1000
PRODUCERS_MAX: Final = 50
BATCHES_TOTAL: Final = 10_000
BATCHES_MIN: Final = 20
"""A snapshot has about so many batches, and of each partition at least so many of the newest."""


class Named(Protocol):
    """A topic, of the stub or of a response."""

    @property
    def name(self) -> str: ...
    @property
    def partitions(self) -> Sized: ...


T = TypeVar("T", bound=Named)


class Snapshots:
    """Takes the snapshots of one cluster."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._lanes = LaneCache()
        self._batches_max = BATCHES_TOTAL

    def take(self, first: Collection[str] = ()) -> Data:
        """The cluster now. `first`: the topics to show if not all fit."""
        cluster = self._services.cluster
        txns = transactions(self._services)
        open_txns = {each["pid"]: each for each in txns}
        topics = list(cluster.topics)
        filled = sum(each.log.log_end_offset > 0 for topic in topics if not topic.internal for each in topic.partitions)
        self._batches_max = max(BATCHES_MIN, BATCHES_TOTAL // max(1, filled))
        shown = [self._topic(topic, open_txns) for topic in fitting(topics, first, internal=lambda each: each.internal)]
        self._lanes.forget_others((topic["name"], each["index"]) for topic in shown for each in topic["partitions"])
        return {
            "format": FORMAT,
            "kind": "stub",
            "now_ms": cluster.now_ms(),
            "cluster_id": cluster.cluster_id,
            "release": cluster.release.name,
            "brokers": [self._broker(each) for each in cluster.brokers.values()],
            "open_connections": sorted(each.id for broker in cluster.brokers.values() for each in broker.connections),
            "topics": shown,
            "topics_left_out": len(topics) - len(shown),
            "transactions": txns,
            "groups": groups(self._services),
            "changes": self._changes(),
            "severed": sorted(list(each) for each in cluster.severed),
            "stats": cluster.counters.as_dict(),
        }

    def _changes(self) -> list[Data]:
        names = {topic.id: topic.name for topic in self._services.cluster.topics}
        return [_change(each, names) for each in self._services.cluster.history.changes]

    def _broker(self, broker: Broker) -> Data:
        led = replicas = 0
        for partition in self._services.cluster.every_partition():
            led += partition.leader == broker.node_id
            replicas += broker.node_id in partition.replicas
        return {
            "node": broker.node_id,
            "address": f"{broker.host}:{broker.port}",
            "state": _state_of(broker),
            "connections": len(broker.connections),
            "leads": led,
            "replicas": replicas,
        }

    def _topic(self, topic: Topic, txns: dict[int, Data]) -> Data:
        return {
            "name": topic.name,
            "internal": topic.internal,
            "overrides": dict(topic.overrides),
            "partitions_total": len(topic.partitions),
            "partitions": [
                self._partition(topic, each, txns) for each in topic.partitions if not topic.internal or each.log.log_end_offset
            ],
        }

    def _partition(self, topic: Topic, partition: Partition, txns: dict[int, Data]) -> Data:
        log = partition.log
        entries = sorted(log.producers.items(), key=lambda each: (each[1].txn_first_offset is None, -each[1].last_timestamp))
        open_since = {pid: entry.txn_first_offset for pid, entry in entries if entry.txn_first_offset is not None}
        reads = log.log_end_offset and not topic.internal
        batches = self._lanes.batches((topic.name, partition.index), log)[-self._batches_max :] if reads else []
        return {
            "index": partition.index,
            "leader": partition.leader,
            "leader_epoch": partition.leader_epoch,
            "replicas": list(partition.replicas),
            "isr": list(partition.isr),
            "min_isr": partition.min_isr,
            "start": log.log_start_offset,
            "lso": log.last_stable_offset,
            "hw": log.high_watermark,
            "end": log.log_end_offset,
            "made_n": self._services.cluster.history.made.get(topic.id, 0),
            "held": _held((topic.name, partition.index), log, open_since, batches, txns),
            "ends": [[node, each.log_end_offset] for node, each in sorted(partition.logs.items())],
            "batches": batches,
            "bars": [] if topic.internal else bars(batches, open_since=open_since, aborted=log.aborted_transactions),
            "producers": [
                {
                    "pid": pid,
                    "epoch": entry.epoch,
                    "txn": txns[pid]["id"] if pid in txns else None,
                    "since": entry.txn_first_offset,
                    "last_ms": entry.last_timestamp,
                    "batches": [
                        [each.first_sequence, each.last_sequence, each.first_offset, each.last_offset, each.timestamp]
                        for each in entry.batches
                    ],
                }
                for pid, entry in entries[:PRODUCERS_MAX]
            ],
        }


def _held(
    place: tuple[str, int], log: PartitionLog, open_since: dict[int, int], batches: list[list[int]], txns: dict[int, Data]
) -> Data | None:
    if not open_since:
        return None
    pid, first = min(open_since.items(), key=lambda each: each[1])
    if first >= log.high_watermark:
        return None
    written_ms = next((each[7] for each in batches if each[0] <= first <= each[1]), -1)
    return held_by(place, pid, log.producers[pid].epoch, first, txns.get(pid), written_ms=written_ms)


def held_by(place: tuple[str, int], pid: int, epoch: int, offset: int, txn: Data | None, *, written_ms: int) -> Data:
    """The transaction that holds the last stable offset back, and since when. `txn`: what a coordinator has of the producer; if
    that lacks the partition, it is about another transaction. `written_ms`: counts if no coordinator says when it began."""
    name = txn["id"] if txn is not None else None
    if txn is not None and list(place) not in txn["partitions"]:
        txn = None
    began = txn is not None and txn["state"] != "Empty" and txn["start_ms"] >= 0
    return {
        "pid": pid,
        "epoch": epoch,
        "offset": offset,
        "txn": name,
        "state": txn["state"] if txn is not None else None,
        "since_ms": txn["start_ms"] if txn is not None and began else written_ms,
        "timeout_ms": txn["timeout_ms"] if txn is not None else None,
    }


def fitting(topics: Iterable[T], first: Collection[str], *, internal: Callable[[T], bool]) -> list[T]:
    """The topics that have at most PARTITIONS_MAX partitions in all, without those that would exceed it, sorted. `first`: the names of
    those to take first. Internal ones are the last ones."""
    left, found = PARTITIONS_MAX, []
    for topic in sorted(topics, key=lambda each: (each.name not in first, internal(each), each.name)):
        if len(topic.partitions) <= left:
            left -= len(topic.partitions)
            found.append(topic)
    return sorted(found, key=lambda each: (internal(each), each.name))


def _state_of(broker: Broker) -> str:
    if not broker.alive:
        return "down"
    if broker.paused:
        return "paused"
    return "fenced" if broker.fenced else "up"


def _change(change: BrokerChange | PartitionChange, names: dict[UUID, str]) -> dict[str, Any]:
    if isinstance(change, BrokerChange):
        return {"at": change.at_ms, "after_n": change.requests, "what": change.what.value, "node": change.node}
    return {
        "at": change.at_ms,
        "after_n": change.requests,
        "what": change.what.value,
        "topic": names.get(change.topic_id, str(change.topic_id)),
        "partition": change.partition,
        "before": list(change.before),
        "after": list(change.after),
        "epoch": change.leader_epoch,
    }
