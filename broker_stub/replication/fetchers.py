"""Every broker's fetchers (Kafka's `ReplicaFetcherManager`): which one fetches a partition for a follower."""

from __future__ import annotations

from fencepost.broker_stub.replication.partition import Partition
from fencepost.broker_stub.replication.replica_fetcher import ReplicaFetcher, Surroundings


class ReplicaFetchers:
    """Of one cluster. A fetcher is made with the first partition that a broker follows at another one."""

    def __init__(self, cluster: Surroundings) -> None:
        self._cluster = cluster
        self._fetchers: dict[tuple[int, int], ReplicaFetcher] = {}
        self._fetching: dict[tuple[Partition, int], ReplicaFetcher] = {}

    def follow(self, partition: Partition, follower: int) -> None:
        """The follower fetches from the partition's leader, and no longer from another one."""
        pair = follower, partition.leader
        fetcher = self._fetchers.get(pair)
        if fetcher is None:
            fetcher = self._fetchers[pair] = ReplicaFetcher(self._cluster, *pair)
        before = self._fetching.get((partition, follower))
        if before is not None and before is not fetcher:
            before.forget(partition)
        self._fetching[partition, follower] = fetcher
        fetcher.follow(partition)

    def forget(self, partition: Partition, follower: int) -> None:
        """The follower does not fetch the partition any more."""
        fetcher = self._fetching.pop((partition, follower), None)
        if fetcher is not None:
            fetcher.forget(partition)

    def link_changed(self, one: int, other: int) -> None:
        """The link between two brokers was severed or mended."""
        for pair in ((one, other), (other, one)):
            if pair in self._fetchers:
                self._fetchers[pair].link_changed()
