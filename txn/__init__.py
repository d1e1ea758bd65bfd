"""Transactions on top of the producer: records that become visible together or not at all.

This package exports `TransactionalProducer`, `AsyncTransactionalProducer`, `TransactionalPool` and `AsyncTransactionalPool` for concurrent
transactions, `resume` for transactions that another process prepared, `Participant` for transactions that another process shares,
`Pipeline` and `AsyncPipeline` for read-process-write, `Job` and `AsyncJob` for restartable ingestion, the `Ledger` of micro-batches, and
their errors. It loads each of them on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fencepost import producer as _producer  # noqa: F401  # so that what is compiled here has been looked at before it is loaded
from fencepost.producer.foundations.lazy_names import lazy_names as _lazy_names
from fencepost.txn import errors as _errors
from fencepost.txn.jobs import errors as _job_errors
from fencepost.txn.keyed_topic import errors as _keyed_topic_errors
from fencepost.txn.ledger import errors as _ledger_errors
from fencepost.txn.pipeline import errors as _pipeline_errors
from fencepost.txn.pool import errors as _pool_errors

if TYPE_CHECKING:
    from fencepost.txn.async_producer import AsyncTransaction as AsyncTransaction
    from fencepost.txn.async_producer import AsyncTransactionalProducer as AsyncTransactionalProducer
    from fencepost.txn.coordinator.send_admission import NoTransaction as NoTransaction
    from fencepost.txn.errors import CommitOutcomeUnknown as CommitOutcomeUnknown
    from fencepost.txn.errors import DeliveryAborted as DeliveryAborted
    from fencepost.txn.errors import IdentityLost as IdentityLost
    from fencepost.txn.errors import IllegalCall as IllegalCall
    from fencepost.txn.errors import MustAbort as MustAbort
    from fencepost.txn.errors import NotPermitted as NotPermitted
    from fencepost.txn.errors import ParticipationEnded as ParticipationEnded
    from fencepost.txn.errors import TransactionAborted as TransactionAborted
    from fencepost.txn.errors import TransactionCommitted as TransactionCommitted
    from fencepost.txn.errors import TransactionOpen as TransactionOpen
    from fencepost.txn.errors import TransactionTimeout as TransactionTimeout
    from fencepost.txn.group_metadata import GroupMetadata as GroupMetadata
    from fencepost.txn.jobs.async_job import AsyncJob as AsyncJob
    from fencepost.txn.jobs.database_cursor import DatabaseCursor as DatabaseCursor
    from fencepost.txn.jobs.entry import BadJobEntry as BadJobEntry
    from fencepost.txn.jobs.errors import BadRecord as BadRecord
    from fencepost.txn.jobs.errors import JobFailed as JobFailed
    from fencepost.txn.jobs.errors import SourceChanged as SourceChanged
    from fencepost.txn.jobs.file_source import FileSource as FileSource
    from fencepost.txn.jobs.http_pages import HttpPages as HttpPages
    from fencepost.txn.jobs.iterator_source import IteratorSource as IteratorSource
    from fencepost.txn.jobs.job import Job as Job
    from fencepost.txn.jobs.source import Source as Source
    from fencepost.txn.jobs.stats import JobStats as JobStats
    from fencepost.txn.keyed_topic.errors import LedgerBusy as LedgerBusy
    from fencepost.txn.keyed_topic.errors import LedgerDamaged as LedgerDamaged
    from fencepost.txn.keyed_topic.errors import LedgerError as LedgerError
    from fencepost.txn.keyed_topic.errors import LedgerUnavailable as LedgerUnavailable
    from fencepost.txn.keyed_topic.errors import LedgerUnusable as LedgerUnusable
    from fencepost.txn.ledger.entry import BadLedgerEntry as BadLedgerEntry
    from fencepost.txn.ledger.entry import LedgerEntry as LedgerEntry
    from fencepost.txn.ledger.entry import LedgerPartition as LedgerPartition
    from fencepost.txn.ledger.errors import CheckpointReplaced as CheckpointReplaced
    from fencepost.txn.ledger.errors import CheckpointRolledBack as CheckpointRolledBack
    from fencepost.txn.ledger.errors import FingerprintMissing as FingerprintMissing
    from fencepost.txn.ledger.errors import LedgerBehind as LedgerBehind
    from fencepost.txn.ledger.errors import LedgerMissing as LedgerMissing
    from fencepost.txn.ledger.errors import LedgerRefusal as LedgerRefusal
    from fencepost.txn.ledger.errors import OlderVersion as OlderVersion
    from fencepost.txn.ledger.ledger import Ledger as Ledger
    from fencepost.txn.loop.output_record import OutputRecord as OutputRecord
    from fencepost.txn.offsets import OffsetAndMetadata as OffsetAndMetadata
    from fencepost.txn.pipeline.async_pipeline import AsyncPipeline as AsyncPipeline
    from fencepost.txn.pipeline.errors import PipelineFailed as PipelineFailed
    from fencepost.txn.pipeline.errors import PoisonMessage as PoisonMessage
    from fencepost.txn.pipeline.pipeline import Pipeline as Pipeline
    from fencepost.txn.pipeline.stats import PipelineStats as PipelineStats
    from fencepost.txn.pool.async_pool import AsyncTransactionalPool as AsyncTransactionalPool
    from fencepost.txn.pool.errors import PoolTakenOver as PoolTakenOver
    from fencepost.txn.pool.errors import PoolTimeout as PoolTimeout
    from fencepost.txn.pool.pool import TransactionalPool as TransactionalPool
    from fencepost.txn.pool.stats import PoolStats as PoolStats
    from fencepost.txn.producer import TransactionalProducer as TransactionalProducer
    from fencepost.txn.recovery.outcome import Marker as Marker
    from fencepost.txn.recovery.outcome import Outcome as Outcome
    from fencepost.txn.recovery.outcome import PreparedStatus as PreparedStatus
    from fencepost.txn.recovery.resume import AsyncResumed as AsyncResumed
    from fencepost.txn.recovery.resume import Resumed as Resumed
    from fencepost.txn.recovery.resume import resume as resume
    from fencepost.txn.recovery.resume import resume_async as resume_async
    from fencepost.txn.recovery.token import BadToken as BadToken
    from fencepost.txn.recovery.token import PreparedTransaction as PreparedTransaction
    from fencepost.txn.shared.participant import NoParticipation as NoParticipation
    from fencepost.txn.shared.participant import Participant as Participant
    from fencepost.txn.shared.participation import BadParticipation as BadParticipation
    from fencepost.txn.shared.participation import Participation as Participation
    from fencepost.txn.shared.participation import Written as Written
    from fencepost.txn.shared.shared_identity import NotShared as NotShared
    from fencepost.txn.shared.shared_partitions import NotReturned as NotReturned
    from fencepost.txn.shared.shared_partitions import NotShareable as NotShareable
    from fencepost.txn.transaction import Transaction as Transaction

_HOMES: dict[str, tuple[str, ...]] = {
    "fencepost.txn.errors": tuple(_errors.__all__),
    "fencepost.txn.coordinator.send_admission": ("NoTransaction",),
    "fencepost.txn.async_producer": ("AsyncTransaction", "AsyncTransactionalProducer"),
    "fencepost.txn.shared.shared_identity": ("NotShared",),
    "fencepost.txn.shared.participant": ("Participant", "NoParticipation"),
    "fencepost.txn.group_metadata": ("GroupMetadata",),
    "fencepost.txn.shared.shared_partitions": ("NotReturned", "NotShareable"),
    "fencepost.txn.shared.participation": ("BadParticipation", "Participation", "Written"),
    "fencepost.txn.jobs.async_job": ("AsyncJob",),
    "fencepost.txn.jobs.database_cursor": ("DatabaseCursor",),
    "fencepost.txn.jobs.entry": ("BadJobEntry",),
    "fencepost.txn.jobs.errors": tuple(_job_errors.__all__),
    "fencepost.txn.jobs.file_source": ("FileSource",),
    "fencepost.txn.jobs.http_pages": ("HttpPages",),
    "fencepost.txn.jobs.iterator_source": ("IteratorSource",),
    "fencepost.txn.jobs.job": ("Job",),
    "fencepost.txn.jobs.source": ("Source",),
    "fencepost.txn.jobs.stats": ("JobStats",),
    "fencepost.txn.ledger.ledger": ("Ledger",),
    "fencepost.txn.ledger.entry": ("BadLedgerEntry", "LedgerEntry", "LedgerPartition"),
    "fencepost.txn.keyed_topic.errors": tuple(_keyed_topic_errors.__all__),
    "fencepost.txn.ledger.errors": tuple(_ledger_errors.__all__),
    "fencepost.txn.offsets": ("OffsetAndMetadata",),
    "fencepost.txn.pipeline.async_pipeline": ("AsyncPipeline",),
    "fencepost.txn.pipeline.errors": tuple(_pipeline_errors.__all__),
    "fencepost.txn.loop.output_record": ("OutputRecord",),
    "fencepost.txn.pipeline.pipeline": ("Pipeline",),
    "fencepost.txn.pipeline.stats": ("PipelineStats",),
    "fencepost.txn.pool.async_pool": ("AsyncTransactionalPool",),
    "fencepost.txn.pool.errors": tuple(_pool_errors.__all__),
    "fencepost.txn.pool.pool": ("TransactionalPool",),
    "fencepost.txn.pool.stats": ("PoolStats",),
    "fencepost.txn.recovery.outcome": ("Marker", "Outcome", "PreparedStatus"),
    "fencepost.txn.producer": ("TransactionalProducer",),
    "fencepost.txn.recovery.resume": ("AsyncResumed", "Resumed", "resume", "resume_async"),
    "fencepost.txn.recovery.token": ("BadToken", "PreparedTransaction"),
    "fencepost.txn.transaction": ("Transaction",),
}
__all__ = [name for names in _HOMES.values() for name in names]

__getattr__, __dir__ = _lazy_names(globals(), _HOMES)
