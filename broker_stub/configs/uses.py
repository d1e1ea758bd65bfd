"""What the stub does about each config of Kafka that it takes: obeys it, or only describes it.

Other configs are refused. An obeyed config names the test that shows it; docs/stub-configs.md is generated from this table. It changes
nothing: the log, a coordinator or a handler reads the config.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from fencepost.broker_stub.configs.client_metrics_configs import INTERVAL, MATCH, METRICS
from fencepost.broker_stub.configs.described_configs import COARSER, OTHERS
from fencepost.broker_stub.configs.dynamic_broker_configs import DYNAMIC
from fencepost.broker_stub.configs.group_configs import GROUP_CONFIGS
from fencepost.broker_stub.configs.topic_configs import BROKER_CONFIGS, MOVE_LIMIT, TOPIC_NAMES


class Obeyed(NamedTuple):
    """The effect, and the test that shows it."""

    does: str
    shown: str


class Described(NamedTuple):
    """Checked, kept and described, but not obeyed. What the stub does instead."""

    instead: str


class OneValue(NamedTuple):
    """Only one value can be set. Why no other can."""

    why: str


Use = Obeyed | Described | OneValue

_VALIDATION: Final = "tests/broker_stub/log/test_validation.py"
_CODECS: Final = "tests/broker_stub/log/test_codecs.py"
_CONNECTIONS: Final = "tests/broker_stub/socket_server/test_connection_quotas.py"
_CONSUMERS: Final = "tests/broker_stub/groups/test_consumer_protocol.py"
_MIGRATION: Final = "tests/broker_stub/groups/test_online_migration.py"
_CLASSIC: Final = "tests/broker_stub/groups/test_classic_protocol.py"
_TRANSACTIONS: Final = "tests/broker_stub/transactions/test_coordinators.py"
_REPLICATION: Final = "tests/broker_stub/replication/test_replication.py"
_SEGMENTS: Final = "tests/broker_stub/log/test_segments.py"
_SHARES: Final = "tests/broker_stub/share/test_configs.py"
_SHARE_FETCH: Final = "tests/broker_stub/share/test_share_fetch.py"
_BROKER: Final = "tests/broker_stub/configs/test_broker_configs.py::test_a_broker_config_has_its_effect"
_CLEANER: Final = "tests/broker_stub/log/test_cleaner.py"
_COMPACTION: Final = "tests/broker_stub/cluster/test_compaction.py"
_RETENTION: Final = "tests/broker_stub/log/test_retention.py"
_TIMESTAMPS: Final = f"{_VALIDATION}::test_timestamps_out_of_range_are_named_one_by_one"
_ADMIN: Final = "tests/broker_stub/handlers/test_admin.py"

_TELEMETRY: Final = "tests/broker_stub/telemetry/test_telemetry.py"
_AUTHENTICATION: Final = "tests/broker_stub/security/test_authentication.py"
_ON_DISK: Final = "tests/broker_stub/cluster/test_data_dir.py"
_RECOVERY: Final = "tests/broker_stub/log/test_recovery.py"
_NO_DISK: Final = Described("files are never preallocated")
_NO_TIERS: Final = Described("there is no remote storage")
_NO_THROTTLE: Final = Described("no quota holds followers back; `sever` does, and a fault rule for their fetches")

TOPIC_USES: Final[dict[str, Use]] = {
    "cleanup.policy": Obeyed(
        "delete: segments are deleted by age and size, and DeleteRecords needs it; compact: the newest record of each key stays",
        f"{_COMPACTION}::test_a_compacted_topic_keeps_the_newest_record_of_each_key",
    ),
    "compression.gzip.level": Obeyed("for batches that the log recompresses", f"{_CODECS}::test_a_topics_level_is_used"),
    "compression.lz4.level": Obeyed("for batches that the log recompresses", f"{_CODECS}::test_a_topics_level_is_used"),
    "compression.type": Obeyed("batches are recompressed in another codec", f"{_CODECS}::test_a_topic_with_a_codec_recompresses"),
    "compression.zstd.level": Obeyed("for batches that the log recompresses", f"{_CODECS}::test_a_topics_level_is_used"),
    "delete.retention.ms": Obeyed("how long compaction keeps a tombstone", f"{_CLEANER}::test_delete_retention_is_the_topics"),
    "file.delete.delay.ms": Obeyed(
        "with `data_dir`: a deleted segment's files stay so long as `.deleted`", f"{_ON_DISK}::test_a_deleted_file_stays_for_a_while"
    ),
    "flush.messages": Obeyed("so many records may be unsynced", f"{_RECOVERY}::test_what_is_flushed_is_not_lost"),
    "flush.ms": Described("as by a Kafka without log.flush.scheduler.interval.ms, which never looks"),
    "follower.replication.throttled.replicas": _NO_THROTTLE,
    "index.interval.bytes": Obeyed(
        "so many bytes lie between two entries of a segment's indexes", f"{_SEGMENTS}::test_the_index_entries_of_the_worked_example"
    ),
    "leader.replication.throttled.replicas": _NO_THROTTLE,
    "local.retention.bytes": _NO_TIERS,
    "local.retention.ms": _NO_TIERS,
    "max.compaction.lag.ms": Obeyed("a log with older dirty records is compacted", f"{_CLEANER}::test_when_a_log_is_worth_it"),
    "max.message.bytes": Obeyed(
        "larger batches are refused", f"{_VALIDATION}::test_a_batch_may_be_as_large_as_the_topic_says_and_no_larger"
    ),
    "message.timestamp.after.max.ms": Obeyed("later records are refused", _TIMESTAMPS),
    "message.timestamp.before.max.ms": Obeyed("earlier records are refused", _TIMESTAMPS),
    "message.timestamp.type": Obeyed("the source of a record's timestamp", f"{_VALIDATION}::test_log_append_time_is_the_brokers"),
    "min.cleanable.dirty.ratio": Obeyed("the dirty share from which on a log is compacted", f"{_CLEANER}::test_when_a_log_is_worth_it"),
    "min.compaction.lag.ms": Obeyed("younger records are not compacted", f"{_CLEANER}::test_young_segments_are_not_compacted"),
    "min.insync.replicas": Obeyed("acks=all and the high watermark wait for so many", f"{_ADMIN}::test_more_replicas_needed_from_now_on"),
    "preallocate": _NO_DISK,
    "remote.log.copy.disable": _NO_TIERS,
    "remote.log.delete.on.disable": _NO_TIERS,
    "remote.storage.enable": OneValue("true is refused, as by a broker without remote storage"),
    "retention.bytes": Obeyed(
        "the oldest segments are deleted while the log stays as large",
        f"{_RETENTION}::test_a_log_stays_at_least_as_large_as_retention_bytes",
    ),
    "retention.ms": Obeyed("older segments are deleted", f"{_RETENTION}::test_segments_whose_newest_record_is_too_old_go"),
    "segment.bytes": Obeyed(
        "a segment that would grow larger is closed", f"{_SEGMENTS}::test_a_segment_is_closed_before_it_grows_too_large"
    ),
    "segment.index.bytes": Obeyed("a segment whose indexes are full is closed", f"{_SEGMENTS}::test_a_segment_with_a_full_index_is_closed"),
    "segment.jitter.ms": Obeyed("a segment is closed earlier by up to this time", f"{_SEGMENTS}::test_jitter_closes_a_segment_earlier"),
    "segment.ms": Obeyed(
        "a segment is closed once its records span this time", f"{_SEGMENTS}::test_a_segment_is_closed_once_its_records_span_the_time"
    ),
    "unclean.leader.election.enable": Obeyed(
        "a replica that is not in sync may lead",
        f"{_REPLICATION}::test_an_unclean_leader_costs_what_was_acknowledged",
    ),
}

BROKER_USES: Final[dict[str, Use]] = {
    "add.partitions.to.txn.retry.backoff.max.ms": Obeyed(
        "how long a record waits for its transaction", f"{_BROKER}[add.partitions.to.txn.retry.backoff.max.ms]"
    ),
    "add.partitions.to.txn.retry.backoff.ms": Obeyed(
        "how often the leader asks the coordinator meanwhile", f"{_BROKER}[add.partitions.to.txn.retry.backoff.ms]"
    ),
    "allow.everyone.if.no.acl.found": Obeyed(
        "with an authorizer", "tests/broker_stub/security/test_acls.py::test_kafkas_own_configs_say_the_same"
    ),
    "authorizer.class.name": Obeyed("Kafka's StandardAuthorizer", f"{_BROKER}[authorizer.class.name]"),
    "auto.create.topics.enable": Obeyed("for Metadata", f"{_ADMIN}::test_topics_are_not_made_where_they_must_not_be"),
    "broker.session.timeout.ms": Obeyed(
        "a broker that the controller does not hear from is fenced after that time", f"{_BROKER}[broker.session.timeout.ms]"
    ),
    "connections.max.idle.ms": Obeyed("idle connections end", f"{_BROKER}[connections.max.idle.ms]"),
    "connections.max.reauth.ms": Obeyed(
        "with SASL: sessions end, as with `Sasl(session_lifetime_ms=...)`", f"{_AUTHENTICATION}::test_sessions_end_by_the_brokers_config"
    ),
    "default.replication.factor": Obeyed(
        "of topics without their own; 3 here by default, or as many as there are brokers, 1 in Kafka",
        f"{_BROKER}[default.replication.factor]",
    ),
    "delete.topic.enable": Obeyed("DeleteTopics is refused without", f"{_ADMIN}::test_deleting_can_be_disabled"),
    "group.consumer.assignment.interval.ms": Obeyed(
        "the partitions of a consumer group are not assigned again before",
        f"{_CONSUMERS}::test_an_assignment_waits_for_the_interval",
    ),
    "group.consumer.assignors": Obeyed("the first one counts where no member names one", f"{_CONSUMERS}::test_the_assignors_of_the_broker"),
    "group.consumer.heartbeat.interval.ms": Obeyed(
        "members are told to heartbeat so often; Kafka needs 5000 to 15000", f"{_CONSUMERS}::test_the_heartbeat_interval_is_told"
    ),
    **{
        f"group.consumer.{which}.{name}": Obeyed(
            f"a group's own consumer.{name} is not {than}", "tests/broker_stub/groups/test_group_configs.py::test_the_brokers_bounds"
        )
        for which, than in (("max", "above"), ("min", "below"))
        for name in ("assignment.interval.ms", "heartbeat.interval.ms", "session.timeout.ms")
    },
    "group.consumer.max.size": Obeyed("more members are refused", f"{_CONSUMERS}::test_a_full_group_refuses_a_new_member"),
    "group.consumer.migration.policy": Obeyed(
        "whether a group with members changes its protocol, and in which direction", f"{_MIGRATION}::test_each_policy"
    ),
    "group.consumer.session.timeout.ms": Obeyed(
        "a member without a heartbeat is removed; Kafka needs 45000 to 60000", f"{_CONSUMERS}::test_a_member_without_a_heartbeat_is_removed"
    ),
    "group.initial.rebalance.delay.ms": Obeyed(
        "the first members of a group wait for more", f"{_CLASSIC}::test_the_first_members_wait_for_more"
    ),
    "group.max.session.timeout.ms": Obeyed("JoinGroup is refused above", f"{_BROKER}[group.max.session.timeout.ms]"),
    "group.max.size": Obeyed("more members are refused", f"{_CLASSIC}::test_a_full_group_refuses_a_new_member"),
    "group.min.session.timeout.ms": Obeyed("JoinGroup is refused below", f"{_BROKER}[group.min.session.timeout.ms]"),
    "group.share.assignment.interval.ms": Obeyed(
        "the partitions of a share group are not assigned again before",
        f"{_SHARES}::test_an_assignment_waits_for_the_interval",
    ),
    "group.share.delivery.count.limit": Obeyed("a record is not delivered more often", f"{_SHARES}::test_the_limit_of_deliveries"),
    "group.share.heartbeat.interval.ms": Obeyed(
        "members are told to heartbeat so often; Kafka needs 5000 to 15000", f"{_SHARES}::test_the_heartbeat_interval_is_told"
    ),
    "group.share.max.share.sessions": Obeyed("more share sessions are refused", f"{_SHARES}::test_a_session_too_many_is_refused"),
    "group.share.max.size": Obeyed("more members are refused", f"{_SHARES}::test_a_full_group_refuses_a_new_member"),
    "group.share.partition.max.record.locks": Obeyed(
        "more records are not in flight; Kafka needs 100 to 10000", f"{_SHARES}::test_the_limit_of_records_in_flight"
    ),
    "group.share.record.lock.duration.ms": Obeyed(
        "an acquired record becomes available again after that time; Kafka needs at least 1000", f"{_SHARES}::test_the_duration_of_a_lock"
    ),
    "group.share.session.timeout.ms": Obeyed(
        "a member without a heartbeat is removed; Kafka needs 45000 to 60000", f"{_SHARES}::test_a_member_without_a_heartbeat_is_removed"
    ),
    "log.cleaner.backoff.ms": Obeyed("how often the cleaner looks for work", f"{_COMPACTION}::test_it_is_looked_for_work_at_intervals"),
    "log.cleaner.dedupe.buffer.size": Obeyed("24 bytes for each key of a pass", f"{_COMPACTION}::test_how_many_keys_a_pass_takes"),
    "log.cleaner.enable": Obeyed("false: compaction only by `stub.clean_logs()`", f"{_COMPACTION}::test_the_cleaner_can_be_switched_off"),
    "log.cleaner.io.buffer.load.factor": Obeyed("the share of that buffer", f"{_COMPACTION}::test_how_many_keys_a_pass_takes"),
    "log.flush.offset.checkpoint.interval.ms": Obeyed(
        "how often recovery points are written to `data_dir`", f"{_ON_DISK}::test_checkpoints_are_written_at_intervals"
    ),
    "log.flush.start.offset.checkpoint.interval.ms": Obeyed(
        "how often log start offsets are written to `data_dir`", f"{_ON_DISK}::test_checkpoints_are_written_at_intervals"
    ),
    "log.retention.check.interval.ms": Obeyed(
        "how often old segments are deleted", "tests/broker_stub/cluster/test_retention.py::test_old_segments_go_at_the_next_check"
    ),
    "max.connections": Obeyed("one connection too many waits", f"{_CONNECTIONS}::test_one_too_many_waits"),
    "max.connections.per.ip": Obeyed("one connection too many is closed", f"{_CONNECTIONS}::test_too_many_of_one_address_are_closed"),
    "num.partitions": Obeyed("of topics without their own", f"{_ADMIN}::test_brokers_describe_what_counts"),
    "offset.metadata.max.bytes": Obeyed("OffsetCommit is refused above", f"{_BROKER}[offset.metadata.max.bytes]"),
    "offsets.commit.timeout.ms": Obeyed("how long a commit waits for replicas", f"{_BROKER}[offsets.commit.timeout.ms]"),
    "offsets.retention.check.interval.ms": Obeyed("how often offsets expire", f"{_BROKER}[offsets.retention.check.interval.ms]"),
    "offsets.retention.minutes": Obeyed("when offsets expire", f"{_BROKER}[offsets.retention.minutes]"),
    "offsets.topic.num.partitions": Obeyed("of __consumer_offsets", f"{_ADMIN}::test_topics_made_on_demand"),
    "offsets.topic.replication.factor": Obeyed("as far as there are brokers", f"{_BROKER}[offsets.topic.replication.factor]"),
    "producer.id.expiration.ms": Obeyed("idle producers are forgotten", f"{_BROKER}[producer.id.expiration.ms]"),
    "quota.window.num": Obeyed("a rate covers so many windows", f"{_BROKER}[quota.window.num]"),
    "quota.window.size.seconds": Obeyed("the length of each window", f"{_BROKER}[quota.window.size.seconds]"),
    **{
        name: Obeyed(does, f"{_BROKER}[{name}]")
        for name, does in {
            "replica.fetch.backoff.ms": "how long a follower waits after a failed fetch",
            "replica.fetch.max.bytes": "how much a follower fetches of a partition at once",
            "replica.fetch.min.bytes": "how much a follower waits for",
            "replica.fetch.response.max.bytes": "how much a follower fetches at once",
            "replica.fetch.wait.max.ms": "how long a fetch waits after a change that brings no record, such as a new high watermark",
            "replica.socket.timeout.ms": "how long a follower waits for a lost response",
        }.items()
    },
    "replica.high.watermark.checkpoint.interval.ms": Obeyed(
        "how often high watermarks are written to `data_dir`", f"{_ON_DISK}::test_checkpoints_are_written_at_intervals"
    ),
    "replica.lag.time.max.ms": Obeyed(
        "a follower that does not keep up with its leader leaves the ISR after that time", f"{_BROKER}[replica.lag.time.max.ms]"
    ),
    "share.coordinator.snapshot.update.records.per.snapshot": Obeyed(
        "after so many updates a share partition gets a new snapshot", f"{_SHARES}::test_a_snapshot_after_so_many_updates"
    ),
    "share.coordinator.state.topic.min.isr": Obeyed(
        "min.insync.replicas of __share_group_state", f"{_SHARES}::test_the_topic_of_the_state"
    ),
    "share.coordinator.state.topic.num.partitions": Obeyed("of __share_group_state", f"{_SHARES}::test_the_topic_of_the_state"),
    "share.coordinator.state.topic.replication.factor": Obeyed("as far as there are brokers", f"{_SHARES}::test_the_topic_of_the_state"),
    "share.coordinator.write.timeout.ms": Obeyed(
        "how long the share coordinator waits for replicas", f"{_SHARES}::test_a_write_that_is_not_replicated_times_out"
    ),
    "super.users": Obeyed("may do everything", "tests/broker_stub/security/test_acls.py::test_kafkas_own_configs_say_the_same"),
    "telemetry.max.bytes": Obeyed("larger pushes of metrics are refused", f"{_TELEMETRY}::test_the_largest_push"),
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": Obeyed(
        "how often timed-out transactions are checked", f"{_BROKER}[transaction.abort.timed.out.transaction.cleanup.interval.ms]"
    ),
    "transaction.max.timeout.ms": Obeyed("InitProducerId is refused above", f"{_BROKER}[transaction.max.timeout.ms]"),
    "transaction.partition.verification.enable": Obeyed(
        "false: records are appended without verification", f"{_BROKER}[transaction.partition.verification.enable]"
    ),
    "transaction.remove.expired.transaction.cleanup.interval.ms": Obeyed(
        "how often ids expire", f"{_BROKER}[transaction.remove.expired.transaction.cleanup.interval.ms]"
    ),
    "transaction.state.log.min.isr": Obeyed("min.insync.replicas of __transaction_state", f"{_ADMIN}::test_brokers_describe_what_counts"),
    "transaction.state.log.num.partitions": Obeyed("of __transaction_state", f"{_BROKER}[transaction.state.log.num.partitions]"),
    "transaction.state.log.replication.factor": Obeyed(
        "as far as there are brokers", f"{_BROKER}[transaction.state.log.replication.factor]"
    ),
    "transaction.two.phase.commit.enable": Obeyed(
        "two-phase commit is granted", "tests/broker_stub/transactions/test_configs.py::test_two_phases_have_to_be_permitted"
    ),
    "transactional.id.expiration.ms": Obeyed("when ids expire", f"{_TRANSACTIONS}::test_an_unused_transactional_id_is_forgotten"),
    "unclean.leader.election.interval.ms": Obeyed(
        "how soon a leaderless topic that allows it by now has a leader; 1000 here by default, 300000 in Kafka",
        f"{_BROKER}[unclean.leader.election.interval.ms]",
    ),
    "unstable.api.versions.enable": Obeyed("InitProducerId 6 is offered", f"{_BROKER}[unstable.api.versions.enable]"),
}


_NO_THREADS: Final = Described("the stub has no such threads")
_DYNAMIC: Final[dict[str, Use]] = {
    "background.threads": _NO_THREADS,
    "cordoned.log.dirs": Obeyed(
        "no new log goes there", "tests/broker_stub/cluster/test_cordoned_directories.py::test_a_cordoned_directory_gets_no_new_logs"
    ),
    "follower.fetch.last.tiered.offset.enable": _NO_TIERS,
    "follower.replication.throttled.rate": _NO_THROTTLE,
    "group.coordinator.cached.buffer.max.bytes": Described("no buffer is kept"),
    "group.streams.assignment.interval.ms": Described("there are no streams groups"),
    "leader.replication.throttled.rate": _NO_THROTTLE,
    "log.cleaner.io.buffer.size": Described("the cleaner has no buffers of its own"),
    "log.cleaner.io.max.bytes.per.second": Described("compaction takes no time on the stub's clock"),
    "log.cleaner.threads": _NO_THREADS,
    "max.connection.creation.rate": Described("connections are not limited by their rate"),
    "max.connections.per.ip.overrides": Described("each address has the same limit"),
    "num.io.threads": _NO_THREADS,
    "num.network.threads": _NO_THREADS,
    "num.recovery.threads.per.data.dir": _NO_THREADS,
    "num.replica.fetchers": _NO_THREADS,
    **{
        f"remote.{name}": _NO_TIERS
        for name in (
            *("fetch.max.wait.ms", "list.offsets.request.timeout.ms", "log.index.file.cache.total.size.bytes"),
            *("log.manager.copier.thread.pool.size", "log.manager.copy.max.bytes.per.second"),
            *("log.manager.expiration.thread.pool.size", "log.manager.fetch.max.bytes.per.second"),
            *("log.manager.follower.thread.pool.size", "log.reader.threads"),
        )
    },
    MOVE_LIMIT: Obeyed("moves between log directories take time", "tests/broker_stub/cluster/test_log_dirs.py::test_a_limit"),
    "share.coordinator.cached.buffer.max.bytes": Described("no buffer is kept"),
}
DYNAMIC_USES: Final[dict[str, Use]] = {name: _DYNAMIC[name] for name in DYNAMIC if name not in BROKER_CONFIGS and name not in TOPIC_NAMES}
"""Of the broker configs that only clients can set, while brokers run."""

_GROUP_CONFIGS: Final = "tests/broker_stub/groups/test_group_configs.py"
_OWN: Final[dict[str, Use]] = {
    "consumer.assignment.interval.ms": Obeyed("as group.consumer.assignment.interval.ms", f"{_GROUP_CONFIGS}::test_assignments_wait"),
    "consumer.heartbeat.interval.ms": Obeyed("as group.consumer.heartbeat.interval.ms", f"{_GROUP_CONFIGS}::test_heartbeats"),
    "consumer.session.timeout.ms": Obeyed("as group.consumer.session.timeout.ms", f"{_GROUP_CONFIGS}::test_sessions"),
    "share.assignment.interval.ms": Obeyed(
        "as group.share.assignment.interval.ms", f"{_SHARES}::test_an_assignment_waits_for_the_interval"
    ),
    "share.auto.offset.reset": Obeyed("where a new group begins", f"{_SHARE_FETCH}::test_a_group_begins_where_its_config_says"),
    "share.delivery.count.limit": Obeyed("as group.share.delivery.count.limit", f"{_SHARES}::test_the_limit_of_deliveries"),
    "share.heartbeat.interval.ms": Obeyed("as group.share.heartbeat.interval.ms", f"{_SHARES}::test_the_heartbeat_interval_is_told"),
    "share.isolation.level": Obeyed(
        "read_committed: aborted records are not delivered",
        f"{_SHARE_FETCH}::test_aborted_transactions_are_skipped_on_request",
    ),
    "share.partition.max.record.locks": Obeyed(
        "as group.share.partition.max.record.locks", f"{_SHARES}::test_the_limit_of_records_in_flight"
    ),
    "share.record.lock.duration.ms": Obeyed("as group.share.record.lock.duration.ms", f"{_SHARES}::test_the_duration_of_a_lock"),
    "share.renew.acknowledge.enable": Obeyed("false: no lock is renewed", f"{_SHARES}::test_renewals_can_be_switched_off"),
    "share.session.timeout.ms": Obeyed("as group.share.session.timeout.ms", f"{_SHARES}::test_a_member_without_a_heartbeat_is_removed"),
}
_NO_STREAMS: Final = Described("there are no streams groups")
GROUP_USES: Final[dict[str, Use]] = {name: _OWN.get(name, _NO_STREAMS) for name in GROUP_CONFIGS}
"""Of the configs of single groups."""

CLIENT_METRICS_USES: Final[dict[str, Use]] = {
    INTERVAL: Obeyed("clients push so often", f"{_TELEMETRY}::test_once_in_an_interval"),
    MATCH: Obeyed("only clients that match are asked", f"{_TELEMETRY}::test_librdkafka_pushes"),
    METRICS: Obeyed("the beginnings of the metrics' names; `*` for all", f"{_TELEMETRY}::test_librdkafka_pushes"),
}
"""Of the configs of client metrics subscriptions."""


def use_of(name: str) -> Use | None:
    """The use of a config, by any of its names. None: the stub does not know it."""
    for uses in (TOPIC_USES, BROKER_USES, DYNAMIC_USES, GROUP_USES, CLIENT_METRICS_USES):
        if name in uses:
            return uses[name]
    return TOPIC_USES.get(TOPIC_NAMES.get(name, ""))


def unheeded(given: Iterable[str]) -> dict[str, str]:
    """The configs that are kept and not obeyed, and what happens instead."""
    return {name: use.instead for name in given if isinstance(use := use_of(name), Described)}


def only_told() -> list[str]:
    """Broker configs that clients can describe, and that can be set at the start only (those in hours or minutes) or not at all."""
    return sorted([*OTHERS, *(name for coarser in COARSER.values() for name, _, _ in coarser)])
