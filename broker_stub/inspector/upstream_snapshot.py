"""A real cluster behind a proxy as one snapshot, of the same form as a stub's, from what brokers tell every client.

It asks for metadata, offsets, producers, transactions, groups and the newest batches, and changes nothing. What a broker does not tell is
left out: the five remembered batches of a producer, and the changes of the past. Everything is bounded.
"""

from __future__ import annotations

import ssl
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from typing import Any, Final

from fencepost.broker_stub.inspector.lanes import BATCHES_MAX, FIRST_SPAN, Batch, bars, batches_of
from fencepost.broker_stub.inspector.snapshot import FORMAT, fitting, held_by
from fencepost.broker_stub.inspector.upstream_client import ASK_AGAIN_S, UNREACHABLE, Address, LiveBrokers, UpstreamClient
from fencepost.broker_stub.inspector.upstream_groups import groups_of
from fencepost.broker_stub.network.addresses import spelled
from fencepost.producer.foundations.rlock import RLock
from fencepost.producer.wire import (
    DescribeProducersRequest,
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
    MetadataRequest,
    TopicRequest,
)
from fencepost.producer.wire.messages.describe_transactions import DescribeTransactionsRequest
from fencepost.producer.wire.messages.list_offsets import EARLIEST, LATEST
from fencepost.producer.wire.messages.list_transactions import ListTransactionsRequest
from fencepost.producer.wire.records import iter_batches

Data = dict[str, Any]
Place = tuple[str, int]

EVERY_S: Final = 1.5
"""A cluster is asked at most this often."""
LANES_MAX: Final = 32
FETCH_BYTES: Final = 1024 * 1024
TRANSACTIONS_MAX: Final = 200
INTERNAL: Final = "__"


class UpstreamSnapshots:
    """Takes the snapshots of one cluster, from any thread. `addresses`: where each broker is."""

    def __init__(self, addresses: Callable[[], Mapping[int, Address]], tls: ssl.SSLContext | None = None) -> None:
        self._addresses = addresses
        self._client = UpstreamClient(tls)
        self._lock = RLock()
        self._lanes: dict[Place, tuple[int, list[Batch]]] = {}
        self._silent: dict[int, float] = {}  # brokers that did not answer, and when they are asked again
        self._last: tuple[float, Data] = (-EVERY_S, {})

    def take(self, first: Collection[str] = ()) -> Data:
        """The cluster now, or as it was up to a second and a half ago. `first`: the topics to show if not all fit."""
        with self._lock:
            at, known = self._last
            if time.monotonic() - at >= EVERY_S:
                known = self._take(first)
                self._last = (time.monotonic(), known)
            return known

    def close(self) -> None:
        """Closes its connections."""
        with self._lock:
            self._client.close()

    def _take(self, first: Collection[str]) -> Data:
        addresses = dict(self._addresses())
        data: Data = {
            "format": FORMAT,
            "kind": "proxy",
            "clock": "real",
            "now_ms": int(time.time() * 1000),
            "cluster_id": None,
            "release": None,
            "brokers": [],
            "topics": [],
            "topics_left_out": 0,
            "transactions": [],
            "groups": [],
            "changes": [],
            "stats": {},
        }
        reasons: dict[str, str] = {}
        for node, (host, port) in sorted(addresses.items(), key=lambda each: self._silent.get(each[0], 0.0)):  # silent ones last
            try:
                metadata: Any = self._client.ask((host, port), MetadataRequest(topics=None, allow_auto_topic_creation=False), 12)
                break
            except UNREACHABLE as error:
                reasons[spelled(host, port)] = str(error)
                self._silent[node] = time.monotonic() + ASK_AGAIN_S
        else:
            told = "; ".join(f"{where}: {reason}" for where, reason in reasons.items())
            return data | {"problem": f"no broker tells about the cluster: {told[:500]}"}
        known = {broker.node_id: (broker.host, broker.port) for broker in metadata.brokers}
        live = LiveBrokers(self._client, known, self._silent)
        data["cluster_id"] = metadata.cluster_id
        data["transactions"] = sorted(live.each(self._transactions), key=lambda each: (each["state"] != "Ongoing", -each["updated_ms"]))
        data["groups"] = sorted(live.each(groups_of), key=lambda each: str(each["id"]))
        data["topics"], data["topics_left_out"] = self._topics(metadata, first, live, {each["pid"]: each for each in data["transactions"]})
        data["brokers"] = [_broker(node, address, node in known, data["topics"]) for node, address in sorted((addresses | known).items())]
        if live.problems:
            told = "; ".join(f"broker {node}: {reason}" for node, reason in sorted(live.problems.items()))
            data["problem"] = f"not every broker tells about itself: {told[:500]}"
        return data

    def _topics(self, metadata: Any, first: Collection[str], live: LiveBrokers, txns: Mapping[int, Data]) -> tuple[list[Data], int]:
        shown: list[Data] = []
        for topic in fitting(metadata.topics, first, internal=lambda each: bool(each.is_internal)):
            parts = sorted(topic.partitions, key=lambda each: each.partition_index)
            shown.append(
                {"name": topic.name, "internal": topic.is_internal, "overrides": {}, "partitions_total": len(parts), "parts": parts}
            )
        by_leader: dict[int, list[Place]] = {}
        for each in shown:
            for part in each["parts"]:
                by_leader.setdefault(part.leader_id, []).append((each["name"], part.partition_index))
        offsets: dict[Place, dict[str, int]] = {}
        producers: dict[Place, list[Any]] = {}
        for node, places in by_leader.items():
            live.one(node, partial(self._offsets, places, offsets))
            producers |= live.one(node, partial(self._producers, places)) or {}
        left = LANES_MAX
        for each in sorted(shown, key=lambda each: each["name"] not in first):
            found = []
            for part in each.pop("parts"):
                place = (each["name"], part.partition_index)
                known = offsets.get(place, {})
                batches: list[Batch] = []
                if each["internal"] and not known.get("hw"):
                    continue
                if known.get("hw", 0) > known.get("start", 0) and left and not each["internal"]:
                    left -= 1
                    batches = live.one(part.leader_id, partial(self._newest, place, known)) or []
                found.append(_partition(place, part, known, batches, producers.get(place, []), txns))
            each["partitions"] = found
        return shown, len(metadata.topics) - len(shown)

    def _offsets(
        self, places: Iterable[Place], found: dict[Place, dict[str, int]], client: UpstreamClient, address: Address, node: int
    ) -> None:
        by_topic = _by_topic(places)
        for name, timestamp, level in (("start", EARLIEST, 0), ("hw", LATEST, 0), ("lso", LATEST, 1)):
            topics = [
                ListOffsetsTopic(
                    name=topic, partitions=[ListOffsetsPartition(partition_index=index, timestamp=timestamp) for index in indexes]
                )
                for topic, indexes in by_topic.items()
            ]
            answer: Any = client.ask(address, ListOffsetsRequest(replica_id=-1, isolation_level=level, topics=topics), 7)
            for topic in answer.topics:
                for part in topic.partitions:
                    if not part.error_code:
                        found.setdefault((topic.name, part.partition_index), {})[name] = part.offset

    def _producers(self, places: Iterable[Place], client: UpstreamClient, address: Address, node: int) -> dict[Place, list[Any]]:
        topics = [TopicRequest(name=topic, partition_indexes=indexes) for topic, indexes in _by_topic(places).items()]
        answer: Any = client.ask(address, DescribeProducersRequest(topics=topics), 0)
        return {(topic.name, part.partition_index): part.active_producers for topic in answer.topics for part in topic.partitions}

    def _newest(self, place: Place, known: Mapping[str, int], client: UpstreamClient, address: Address, node: int) -> list[Batch]:
        """The newest batches of a partition, which are read again only when it has grown."""
        end, batches = self._lanes.get(place, (-1, []))
        if end == known["hw"]:
            return batches
        start = max(known["start"], known["hw"] - FIRST_SPAN)
        part = FetchPartition(partition=place[1], fetch_offset=start, partition_max_bytes=FETCH_BYTES)
        request = FetchRequest(max_wait_ms=0, min_bytes=0, max_bytes=FETCH_BYTES, topics=[FetchTopic(topic=place[0], partitions=[part])])
        answer: Any = client.ask(address, request, 12)
        batches = [
            each for topic in answer.responses for part in topic.partitions for each in batches_of(iter_batches(part.records or b""))
        ]
        self._lanes[place] = (known["hw"], batches[-BATCHES_MAX:])
        return batches[-BATCHES_MAX:]

    def _transactions(self, client: UpstreamClient, address: Address, node: int) -> list[Data]:
        """Those that the broker coordinates."""
        listed: Any = client.ask(address, ListTransactionsRequest(), 0)
        ids = [each.transactional_id for each in listed.transaction_states][:TRANSACTIONS_MAX]
        if not ids:
            return []
        told: Any = client.ask(address, DescribeTransactionsRequest(transactional_ids=ids), 0)
        return [
            {
                "id": each.transactional_id,
                "pid": each.producer_id,
                "epoch": each.producer_epoch,
                "state": each.transaction_state,
                "pending": None,
                "timeout_ms": each.transaction_timeout_ms,
                "start_ms": each.transaction_start_time_ms,
                "updated_ms": each.transaction_start_time_ms,
                "partitions": [[topic.topic, index] for topic in each.topics for index in topic.partitions],
                "node": node,
            }
            for each in told.transaction_states
            if not each.error_code
        ]


def _by_topic(places: Iterable[Place]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for topic, index in places:
        found.setdefault(topic, []).append(index)
    return found


def _broker(node: int, address: Address, is_up: bool, topics: list[Data]) -> Data:
    parts = [part for topic in topics for part in topic["partitions"]]
    return {
        "node": node,
        "address": f"{address[0]}:{address[1]}",
        "state": "up" if is_up else "down",
        "connections": None,
        "leads": sum(part["leader"] == node for part in parts),
        "replicas": sum(node in part["replicas"] for part in parts),
    }


def _partition(
    place: Place, part: Any, offsets: Mapping[str, int], batches: list[Batch], producers: list[Any], txns: Mapping[int, Data]
) -> Data:
    start, high = offsets.get("start", 0), offsets.get("hw", 0)
    stable = offsets.get("lso", high)
    open_since = {each.producer_id: each.current_txn_start_offset for each in producers if each.current_txn_start_offset >= 0}
    return {
        "index": part.partition_index,
        "leader": part.leader_id,
        "leader_epoch": part.leader_epoch,
        "replicas": list(part.replica_nodes),
        "isr": list(part.isr_nodes),
        "min_isr": 1,
        "start": start,
        "lso": stable,
        "hw": high,
        "end": high,
        "made_n": 0,
        "held": _held(place, stable, high, producers, txns),
        "ends": [],
        "batches": batches,
        "bars": bars(batches, open_since=open_since),
        "producers": [
            {
                "pid": each.producer_id,
                "epoch": each.producer_epoch,
                "txn": txns[each.producer_id]["id"] if each.producer_id in txns else None,
                "since": each.current_txn_start_offset if each.current_txn_start_offset >= 0 else None,
                "last_ms": each.last_timestamp,
                "batches": [],
                "last_sequence": each.last_sequence,
            }
            for each in producers
        ],
    }


def _held(place: Place, stable: int, high: int, producers: list[Any], txns: Mapping[int, Data]) -> Data | None:
    holding = [each for each in producers if 0 <= each.current_txn_start_offset < high]
    if not holding or stable >= high:
        return None
    first = min(holding, key=lambda each: int(each.current_txn_start_offset))
    pid, offset = first.producer_id, first.current_txn_start_offset
    return held_by(place, pid, first.producer_epoch, offset, txns.get(pid), written_ms=first.last_timestamp)
