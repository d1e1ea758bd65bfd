"""What a request needs besides its broker: the cluster, its coordinators, and the journal.

A coordinator is created with the first request that needs it, so that a stub starts fast. This file serves nothing itself.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from fencepost.broker_stub.cluster.cluster import Cluster
from fencepost.broker_stub.cluster.topics import STATE_TOPIC
from fencepost.broker_stub.journal.journal import Journal

if TYPE_CHECKING:
    from fencepost.broker_stub.groups.coordinators import GroupCoordinators
    from fencepost.broker_stub.share_partitions.coordinator.persister import Persister
    from fencepost.broker_stub.share_partitions.share_partitions import SharePartitions
    from fencepost.broker_stub.telemetry.telemetry import Telemetry
    from fencepost.broker_stub.transactions.coordinators import TransactionCoordinators
    from fencepost.broker_stub.transactions.verification import TransactionVerification


class Services:
    """Of one cluster. `offers_telemetry`: whether brokers offer clients to take their metrics (KIP-714)."""

    def __init__(self, cluster: Cluster, journal: Journal, *, offers_telemetry: bool = False) -> None:
        self.cluster = cluster
        self.offers_telemetry = offers_telemetry
        self.journal = journal
        if cluster.topics.named(STATE_TOPIC) is not None:
            self.transactions.load()  # what was about to end when the cluster stopped ends now

    @cached_property
    def groups(self) -> GroupCoordinators:
        from fencepost.broker_stub.groups.coordinators import GroupCoordinators

        return GroupCoordinators(self.cluster, self.persister)

    @cached_property
    def persister(self) -> Persister:
        """What brokers ask of share coordinators."""
        from fencepost.broker_stub.share_partitions.coordinator.coordinators import ShareCoordinators
        from fencepost.broker_stub.share_partitions.coordinator.persister import Persister

        return Persister(self.cluster, ShareCoordinators(self.cluster))

    @cached_property
    def share_partitions(self) -> SharePartitions:
        from fencepost.broker_stub.share_partitions.share_partitions import SharePartitions

        return SharePartitions(self.cluster, self.persister)

    @cached_property
    def transactions(self) -> TransactionCoordinators:
        from fencepost.broker_stub.transactions.coordinators import TransactionCoordinators

        return TransactionCoordinators(self.cluster)

    @cached_property
    def telemetry(self) -> Telemetry:
        from fencepost.broker_stub.telemetry.telemetry import Telemetry

        return Telemetry(self.cluster)

    @cached_property
    def verification(self) -> TransactionVerification:
        from fencepost.broker_stub.transactions.verification import TransactionVerification

        return TransactionVerification(self.cluster, self.transactions)
