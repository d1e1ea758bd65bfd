"""The release of Kafka that the stub emulates: the versions it offers, and where its behaviour differs from the newest release.

All differences between releases are in the tables here; a handler reads the one row that it needs from `call.cluster.release`. The version
ranges are those of ApiVersions of a broker of that release, for the APIs that the stub has. A new release is a new row.

Leaves out, for 3.9: Produce 0 to 2 and Fetch 0 to 3, which use message formats v0 and v1, and version 0 of requests about log directories.
The stub offers them as Kafka 3.9 does, and closes the connection when a client uses them. Configs that only 3.9 or only 4.3 has, and their
bounds, are 4.3's. Transactions are those of transaction version 0, which 3.9 has finalized. Also left out, for 3.9:

- When the only replica's broker is killed, 3.9 keeps the leader epoch.
- When a rebalance begins, 3.9 deletes the assignments of the group. 4.3 deletes them when it ends.
- 3.9 ends a reassignment back to the previous replicas at once.
- ZooKeeper.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from fencepost.producer.wire import Api

LONG_MAX = 2**63 - 1

FEATURES_4_3 = {
    "eligible.leader.replicas.version": (0, 1, 1),
    "group.version": (0, 1, 1),
    "kraft.version": (0, 1, 0),
    "metadata.version": (7, 30, 30),
    "share.version": (0, 1, 1),
    "streams.version": (0, 1, 0),
    "transaction.version": (0, 2, 2),
}
"""name: lowest and highest supported level, finalized level; a level of 0 is not finalized."""

FEATURES_3_9 = {"kraft.version": (0, 1, 0), "metadata.version": (1, 21, 21)}

NEWEST_3_9: dict[int, int] = {
    Api.PRODUCE: 11,
    Api.FETCH: 17,
    Api.LIST_OFFSETS: 9,
    Api.METADATA: 12,
    Api.OFFSET_COMMIT: 9,
    Api.OFFSET_FETCH: 9,
    Api.INIT_PRODUCER_ID: 5,
    Api.END_TXN: 4,
    Api.WRITE_TXN_MARKERS: 1,
    Api.TXN_OFFSET_COMMIT: 4,
    Api.LIST_TRANSACTIONS: 1,
    Api.DESCRIBE_GROUPS: 5,
    Api.DESCRIBE_CLUSTER: 1,
    Api.DESCRIBE_LOG_DIRS: 4,
    Api.ALTER_PARTITION_REASSIGNMENTS: 0,
    Api.UPDATE_FEATURES: 1,
    Api.LIST_CONFIG_RESOURCES: 0,
    Api.CONSUMER_GROUP_HEARTBEAT: 0,
    Api.CONSUMER_GROUP_DESCRIBE: 0,
}
"""The highest versions of 3.9 where 4.3 has higher ones. 3.9 begins with version 0 everywhere (KIP-896 is 4.0's)."""

UNSTABLE_4_3: dict[int, int] = {Api.INIT_PRODUCER_ID: 6}
"""The first version that 4.3 has and offers only with unstable.api.versions.enable."""

METADATA_VERSION = "metadata.version"
TRANSACTION_VERSION = "transaction.version"
ELIGIBLE_LEADERS_VERSION = "eligible.leader.replicas.version"

UNREADABLE_3_9: dict[int, range] = {
    Api.PRODUCE: range(3),
    Api.FETCH: range(4),
    Api.WRITE_TXN_MARKERS: range(1),
    Api.ALTER_REPLICA_LOG_DIRS: range(1),
    Api.DESCRIBE_LOG_DIRS: range(1),
}
"""Offered and not served: message formats v0 and v1, and versions that only clients and brokers of older releases use."""


ABSENT_3_9: frozenset[int] = frozenset(
    (
        Api.SHARE_GROUP_HEARTBEAT,
        Api.SHARE_GROUP_DESCRIBE,
        Api.SHARE_FETCH,
        Api.SHARE_ACKNOWLEDGE,
        Api.INITIALIZE_SHARE_GROUP_STATE,
        Api.READ_SHARE_GROUP_STATE,
        Api.WRITE_SHARE_GROUP_STATE,
        Api.DELETE_SHARE_GROUP_STATE,
        Api.READ_SHARE_GROUP_STATE_SUMMARY,
        Api.DESCRIBE_SHARE_GROUP_OFFSETS,
        Api.ALTER_SHARE_GROUP_OFFSETS,
        Api.DELETE_SHARE_GROUP_OFFSETS,
    )
)
"""The APIs that 3.9 does not offer."""


class Served(NamedTuple):
    """The versions of an API that ApiVersions names."""

    api: int
    lowest: int
    highest: int


class Differences(NamedTuple):
    """Where releases answer the same request differently; DIFFERENCES explains each. The defaults are 4.3's."""

    zstd_needs_fetch_10: bool = False
    groups_have_configs: bool = True
    committing_needs_the_group: bool = True
    sessions_before_coordinator: bool = True
    groups_fail_in_offset_fetch_1: bool = True
    offsets_once: bool = True
    states_trimmed: bool = True
    cluster_min_isr: bool = True
    needs_are_named: bool = True
    two_phase_commit: bool = True
    offsets_have_topic_ids: bool = True
    young_groups_are_written: bool = True
    groups_outlive_offsets: bool = True
    groups_begin_with_offsets: bool = True
    lists_have_words_once: bool = True
    directories_are_cordoned: bool = True
    consumer_protocol: bool = True


DIFFERENCES: Final = {
    "zstd_needs_fetch_10": "A topic whose compression.type is zstd is UNSUPPORTED_COMPRESSION_TYPE to Fetch below version 10 (KIP-110).",
    "groups_have_configs": "DESCRIBE_CONFIGS and ALTER_CONFIGS are among what can be done to a group (KIP-848).",
    "committing_needs_the_group": "OffsetCommit 9 to a group that is not there is GROUP_ID_NOT_FOUND, else ILLEGAL_GENERATION (KIP-848).",
    "sessions_before_coordinator": "JoinGroup checks the session timeout before it checks the coordinator.",
    "groups_fail_in_offset_fetch_1": "OffsetFetch 1 has the group's error at every partition, else no partition is answered.",
    "offsets_once": "A partition that ListOffsets names twice has one result, and a topic without partitions has none.",
    "states_trimmed": "ListGroups accepts blanks around states.",
    "cluster_min_isr": "min.insync.replicas is a config of the whole cluster, set when it is formatted (KIP-966).",
    "needs_are_named": "The error for a missing permission on the cluster names the operation.",
    "two_phase_commit": "ACLs know TWO_PHASE_COMMIT (KIP-939).",
    "offsets_have_topic_ids": "The record of a committed offset has its topic's id (KIP-848).",
    "young_groups_are_written": "A group that never had a generation has records of its creation and its deletion.",
    "groups_outlive_offsets": "A group without members stays when its last offset, or the topic of that, is deleted.",
    "groups_begin_with_offsets": "A commit whose offsets are all refused creates no group.",
    "lists_have_words_once": "DescribeConfigs shows a repeated word of a list once.",
    "directories_are_cordoned": "The error for more replicas than brokers says that log directories may be cordoned.",
    "consumer_protocol": "ConsumerGroupHeartbeat and ConsumerGroupDescribe are served, else UNSUPPORTED_VERSION (KIP-848).",
}
"""What each of them means."""


class Release(NamedTuple):
    """A release of Kafka."""

    name: str
    newest: Mapping[int, int] | None  # None: what the handlers say
    unreadable: Mapping[int, range]
    unstable: Mapping[int, int]
    features: Mapping[str, tuple[int, int, int]]
    topic_defaults: Mapping[str, str]
    differs: Differences
    absent: frozenset[int] = frozenset()

    def offers(self, served: Iterable[Served]) -> Iterator[Served]:
        """The response of ApiVersions. `served`: the versions that the handlers serve."""
        for each in served:
            if each.api in self.absent:
                continue
            highest = self._newest(each.api, each.highest)
            yield Served(each.api, each.lowest if self.newest is None else 0, highest)

    def takes(self, api: int, versions: range, version: int) -> bool:
        """Whether a request of that version is served, where its handler serves `versions`."""
        if api in self.absent:
            return False
        lowest = versions.start if self.newest is None else 0
        return lowest <= version <= self._newest(api, versions.stop - 1) and version not in self.unreadable.get(api, ())

    def with_unstable(self) -> Release:
        """The same release, with unstable versions."""
        return self._replace(unstable={})

    def _newest(self, api: int, served: int) -> int:
        newest = served if self.newest is None else self.newest.get(api, served)
        return min(newest, served, self.unstable.get(api, served + 1) - 1)


KAFKA_4_3: Final = Release(
    "4.3", newest=None, unreadable={}, unstable=UNSTABLE_4_3, features=FEATURES_4_3, topic_defaults={}, differs=Differences()
)
KAFKA_3_9: Final = Release(
    "3.9",
    newest=NEWEST_3_9,
    unreadable=UNREADABLE_3_9,
    unstable={},
    features=FEATURES_3_9,
    absent=ABSENT_3_9,
    topic_defaults={"message.timestamp.after.max.ms": str(LONG_MAX)},  # an hour since 4.0
    differs=Differences(
        zstd_needs_fetch_10=True,
        groups_have_configs=False,
        committing_needs_the_group=False,
        sessions_before_coordinator=False,
        groups_fail_in_offset_fetch_1=False,
        offsets_once=False,
        states_trimmed=False,
        cluster_min_isr=False,
        needs_are_named=False,
        two_phase_commit=False,
        offsets_have_topic_ids=False,
        young_groups_are_written=False,
        groups_outlive_offsets=False,
        groups_begin_with_offsets=False,
        lists_have_words_once=False,
        directories_are_cordoned=False,
        consumer_protocol=False,
    ),
)
RELEASES: Final = {release.name: release for release in (KAFKA_3_9, KAFKA_4_3)}
NEWEST: Final = KAFKA_4_3.name


def features_at(release: Release, transaction_version: int | None) -> Mapping[str, tuple[int, int, int]]:
    """The release's features, with transaction.version finalized at that level, or at the release's own for None. Raises ValueError for a
    level that the release does not have."""
    if transaction_version is None:
        return release.features
    low, high, _ = release.features.get(TRANSACTION_VERSION, (0, 0, 0))
    if not low <= transaction_version <= high:
        raise ValueError(f"transaction_version={transaction_version}: Kafka {release.name} has {low} to {high}")
    if TRANSACTION_VERSION not in release.features:
        return release.features
    return {**release.features, TRANSACTION_VERSION: (low, high, transaction_version)}


def release_named(name: str) -> Release:
    """Raises ValueError for a release that the stub cannot emulate."""
    release = RELEASES.get(name)
    if release is None:
        raise ValueError(f"emulate={name!r}: the stub emulates Kafka {' or '.join(RELEASES)}")
    return release
