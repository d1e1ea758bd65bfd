"""Every broker's fetchers (Kafka's `ReplicaFetcherManager`): which one fetches a partition for a follower."""

from __future__ import annotations

from fencepost.broker_stub.replication.replica import Replica
from fencepost.broker_stub.replication.replica_fetcher import ReplicaFetcher, Surroundings


class ReplicaFetchers:
    """Of one cluster. A fetcher is made with the first partition that a broker follows at another one."""

    def __init__(self, cluster: Surroundings) -> None:
        self._cluster = cluster
        self._fetchers: dict[tuple[int, int], ReplicaFetcher] = {}
        self._fetching: dict[Replica, ReplicaFetcher] = {}

    def follow(self, replica: Replica) -> None:
        """The replica fetches from its leader, and no longer from another one."""
        pair = replica.node, replica.leader
        fetcher = self._fetchers.get(pair)
        if fetcher is None:
            fetcher = self._fetchers[pair] = ReplicaFetcher(self._cluster, *pair)
        before = self._fetching.get(replica)
        if before is not None and before is not fetcher:
            before.forget(replica)
        self._fetching[replica] = fetcher
        fetcher.follow(replica)

    def forget(self, replica: Replica) -> None:
        """It does not fetch any more."""
        fetcher = self._fetching.pop(replica, None)
        if fetcher is not None:
            fetcher.forget(replica)

    def link_changed(self, one: int, other: int) -> None:
        """The link between two brokers was severed or mended."""
        for pair in ((one, other), (other, one)):
            if pair in self._fetchers:
                self._fetchers[pair].link_changed()
