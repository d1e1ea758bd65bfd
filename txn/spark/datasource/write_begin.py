"""The beginning of a write of `format("fencepost")`, on the driver's host, in a process that may have ended before the write ends.

It reads the ledger, takes the sink over, and reads the ledger again. Then it begins a transaction, shares it with the tasks, and prepares
it with a first ledger record, so that the ending process needs only the token. That record names the batch, without its number of rows; the
end writes it again. Until then it tells other writers that the sink is at work, and for which query.
"""

from __future__ import annotations

import time
from collections.abc import Mapping

from msgspec import Struct

from fencepost.producer.config.reader import read_settings
from fencepost.txn.ledger.batch_decision import Decision
from fencepost.txn.recovery.prepared_here import OUTSTANDING
from fencepost.txn.recovery.token import PreparedTransaction
from fencepost.txn.shared.participation import Participation
from fencepost.txn.spark.datasource.write_options import SinkOptions
from fencepost.txn.spark.guards.claims_topic import Place
from fencepost.txn.spark.guards.kafka_claims import ClaimClient, KafkaClaims
from fencepost.txn.spark.rows.routing import Routes
from fencepost.txn.spark.rows.topic_limits import TopicLimits, ask_limits
from fencepost.txn.spark.sink.batch_job import JobVersion, job_version
from fencepost.txn.spark.sink.checkpoint import newest_batch
from fencepost.txn.spark.sink.dead_letters import OPTIONS, check_dead_letter_topic
from fencepost.txn.spark.sink.query_identity import BatchIdentity
from fencepost.txn.spark.sink.sink_session import SinkSession
from fencepost.txn.spark.sink.takeover_check import look_first
from fencepost.txn.spark.sink.write_execution import ROTATIONS


class SharedTransaction(Struct, frozen=True, kw_only=True):
    """A transaction on its way through tasks to its end. `record`: the place of its first ledger record. `limits`: those of the topics.
    `places`: where claims begin."""

    token: PreparedTransaction
    participation: Participation
    routes: Routes
    record: tuple[str, int]
    claim_client: ClaimClient
    limits: TopicLimits
    places: Mapping[int, Place]


class Begun(Struct, frozen=True, kw_only=True):
    """What tasks and the end need. `shared`: None if the ledger has the batch, so that nothing is written."""

    identity: BatchIdentity | JobVersion
    shared: SharedTransaction | None = None

    @property
    def stamp(self) -> tuple[object, ...]:
        """Equal for the same beginning."""
        return self.identity, None if self.shared is None else self.shared.token


def begin(options: SinkOptions) -> Begun:
    """Begin the write of the checkpoint's newest batch, or of a job's version. Raises errors of the ledger, the claims and Kafka, and
    LedgerBusy if another query is writing into the sink."""
    identity: BatchIdentity | JobVersion
    if options.checkpoint is not None:
        identity = newest_batch(options.checkpoint)
    else:
        identity = job_version(options.settings.sink_id, options.job, options.version)
    sink_session = SinkSession(options.settings, options.kafka, job=identity.job if isinstance(identity, JobVersion) else None)
    try:
        # Each batch does this, and a takeover ends what the sink's driver is doing.
        look_first(sink_session, identity, options.settings)
        sink_session.take_over()
        if identity.decide(sink_session.entry, options.settings) is Decision.SKIP:
            return Begun(identity=identity)
        return Begun(identity=identity, shared=_share(options, sink_session, identity))
    finally:
        sink_session.close()


def _share(options: SinkOptions, sink_session: SinkSession, identity: BatchIdentity | JobVersion) -> SharedTransaction:
    topics = options.topics if options.settings.dead_letters is None else (*options.topics, options.settings.dead_letters)
    counts = {topic: len(sink_session.producer.partitions_for(topic, sink_session.timeout_s)) for topic in topics}
    routes = Routes.of({topic: counts[topic] for topic in options.topics}, rotation=identity.batch % ROTATIONS)
    claims = KafkaClaims(
        options.kafka,
        topic=options.settings.claims_topic,
        timeout_s=sink_session.timeout_s,
        transaction_timeout_ms=sink_session.transaction_timeout_ms,
    )
    claim_client = claims.begin(routes.total)
    ledger = sink_session.ledger
    record = (ledger.topic, ledger.partition_of(sink_session.key))
    limits = ask_limits(read_settings(options.kafka.resolve()), [*counts], sink_session.timeout_s)
    check_dead_letter_topic(options.settings, limits, called=OPTIONS)
    transaction = sink_session.begin()
    participation = transaction.share(
        [(topic, partition) for topic, count in counts.items() for partition in range(count)], sink_session.timeout_s
    )
    if isinstance(identity, JobVersion) and options.job is None:
        transaction.send(ledger.topic, None, key=sink_session.key.encode(), partition=record[1])
    else:
        sink_session.record(identity.entry(options.settings.sink_id, 0, (), int(time.time() * 1000), sink_session.transactional_id))
    token = transaction.prepare(sink_session.timeout_s)
    # The next write in this process takes the sink over nevertheless.
    OUTSTANDING.discard(token)
    return SharedTransaction(
        token=token,
        participation=participation,
        routes=routes,
        record=record,
        claim_client=claim_client,
        limits=limits,
        places=claims.places,
    )
