"""Every public name of the project.

    from fencepost import Producer, BrokerStub

Each name is imported at its first use, so `import fencepost` and the command line start at once. This package defines only the build's
description. No other package of the project imports it.
"""

from __future__ import annotations

from importlib.util import find_spec as _find_spec
from typing import TYPE_CHECKING

from fencepost.producer.foundations.lazy_names import lazy_names as _lazy_names
from fencepost.producer.foundations.version import VERSION as __version__

if TYPE_CHECKING:
    from fencepost._build import BuildInfo as BuildInfo
    from fencepost._build import build_info as build_info
    from fencepost.broker_stub import Acl as Acl
    from fencepost.broker_stub import BrokerStub as BrokerStub
    from fencepost.broker_stub import Clock as Clock
    from fencepost.broker_stub import Control as Control
    from fencepost.broker_stub import Exchange as Exchange
    from fencepost.broker_stub import Fault as Fault
    from fencepost.broker_stub import Faults as Faults
    from fencepost.broker_stub import Heard as Heard
    from fencepost.broker_stub import Inspector as Inspector
    from fencepost.broker_stub import Journal as Journal
    from fencepost.broker_stub import Point as Point
    from fencepost.broker_stub import RealClock as RealClock
    from fencepost.broker_stub import Sasl as Sasl
    from fencepost.broker_stub import Tls as Tls
    from fencepost.broker_stub import VirtualClock as VirtualClock
    from fencepost.broker_stub.proxy.proxy import FaultProxy as FaultProxy
    from fencepost.producer import AsyncProducer as AsyncProducer
    from fencepost.producer import AuthenticationFailed as AuthenticationFailed
    from fencepost.producer import BrokerStats as BrokerStats
    from fencepost.producer import BufferFull as BufferFull
    from fencepost.producer import BulkFuture as BulkFuture
    from fencepost.producer import ConfigError as ConfigError
    from fencepost.producer import Deliveries as Deliveries
    from fencepost.producer import DeliveryError as DeliveryError
    from fencepost.producer import DeliveryFatal as DeliveryFatal
    from fencepost.producer import DeliveryTimeout as DeliveryTimeout
    from fencepost.producer import DeliveryUnknown as DeliveryUnknown
    from fencepost.producer import Fatal as Fatal
    from fencepost.producer import Fenced as Fenced
    from fencepost.producer import FencepostError as FencepostError
    from fencepost.producer import Misuse as Misuse
    from fencepost.producer import NoUsableBroker as NoUsableBroker
    from fencepost.producer import Partitioner as Partitioner
    from fencepost.producer import Persisted as Persisted
    from fencepost.producer import Producer as Producer
    from fencepost.producer import ProducerClosed as ProducerClosed
    from fencepost.producer import ProducerForked as ProducerForked
    from fencepost.producer import ProducerRecord as ProducerRecord
    from fencepost.producer import ProducerStats as ProducerStats
    from fencepost.producer import RecordFuture as RecordFuture
    from fencepost.producer import RecordMetadata as RecordMetadata
    from fencepost.producer import RecordRefused as RecordRefused
    from fencepost.producer import RecordTooLarge as RecordTooLarge
    from fencepost.producer import Retriable as Retriable
    from fencepost.producer import SaslMechanism as SaslMechanism
    from fencepost.producer import SecurityProtocol as SecurityProtocol
    from fencepost.producer import Settings as Settings
    from fencepost.producer import TopicStats as TopicStats
    from fencepost.producer import TopicUnavailable as TopicUnavailable
    from fencepost.producer import UndeliveredRecords as UndeliveredRecords
    from fencepost.producer import UnknownPartition as UnknownPartition
    from fencepost.producer import prometheus_text as prometheus_text
    from fencepost.producer.wire.codes import Api as Api
    from fencepost.producer.wire.codes import ErrorCode as ErrorCode
    from fencepost.txn import AsyncJob as AsyncJob
    from fencepost.txn import AsyncPipeline as AsyncPipeline
    from fencepost.txn import AsyncResumed as AsyncResumed
    from fencepost.txn import AsyncTransaction as AsyncTransaction
    from fencepost.txn import AsyncTransactionalPool as AsyncTransactionalPool
    from fencepost.txn import AsyncTransactionalProducer as AsyncTransactionalProducer
    from fencepost.txn import BadJobEntry as BadJobEntry
    from fencepost.txn import BadLedgerEntry as BadLedgerEntry
    from fencepost.txn import BadParticipation as BadParticipation
    from fencepost.txn import BadRecord as BadRecord
    from fencepost.txn import BadToken as BadToken
    from fencepost.txn import CheckpointReplaced as CheckpointReplaced
    from fencepost.txn import CheckpointRolledBack as CheckpointRolledBack
    from fencepost.txn import CommitOutcomeUnknown as CommitOutcomeUnknown
    from fencepost.txn import DatabaseCursor as DatabaseCursor
    from fencepost.txn import DeliveryAborted as DeliveryAborted
    from fencepost.txn import FileSource as FileSource
    from fencepost.txn import FingerprintMissing as FingerprintMissing
    from fencepost.txn import GroupMetadata as GroupMetadata
    from fencepost.txn import HttpPages as HttpPages
    from fencepost.txn import IdentityLost as IdentityLost
    from fencepost.txn import IllegalCall as IllegalCall
    from fencepost.txn import IteratorSource as IteratorSource
    from fencepost.txn import Job as Job
    from fencepost.txn import JobFailed as JobFailed
    from fencepost.txn import JobStats as JobStats
    from fencepost.txn import Ledger as Ledger
    from fencepost.txn import LedgerBehind as LedgerBehind
    from fencepost.txn import LedgerBusy as LedgerBusy
    from fencepost.txn import LedgerDamaged as LedgerDamaged
    from fencepost.txn import LedgerEntry as LedgerEntry
    from fencepost.txn import LedgerError as LedgerError
    from fencepost.txn import LedgerMissing as LedgerMissing
    from fencepost.txn import LedgerPartition as LedgerPartition
    from fencepost.txn import LedgerRefusal as LedgerRefusal
    from fencepost.txn import LedgerUnavailable as LedgerUnavailable
    from fencepost.txn import LedgerUnusable as LedgerUnusable
    from fencepost.txn import Marker as Marker
    from fencepost.txn import MustAbort as MustAbort
    from fencepost.txn import NoParticipation as NoParticipation
    from fencepost.txn import NotPermitted as NotPermitted
    from fencepost.txn import NoTransaction as NoTransaction
    from fencepost.txn import NotReturned as NotReturned
    from fencepost.txn import NotShareable as NotShareable
    from fencepost.txn import NotShared as NotShared
    from fencepost.txn import OffsetAndMetadata as OffsetAndMetadata
    from fencepost.txn import OlderVersion as OlderVersion
    from fencepost.txn import Outcome as Outcome
    from fencepost.txn import OutputRecord as OutputRecord
    from fencepost.txn import Participant as Participant
    from fencepost.txn import Participation as Participation
    from fencepost.txn import ParticipationEnded as ParticipationEnded
    from fencepost.txn import Pipeline as Pipeline
    from fencepost.txn import PipelineFailed as PipelineFailed
    from fencepost.txn import PipelineStats as PipelineStats
    from fencepost.txn import PoisonMessage as PoisonMessage
    from fencepost.txn import PoolStats as PoolStats
    from fencepost.txn import PoolTakenOver as PoolTakenOver
    from fencepost.txn import PoolTimeout as PoolTimeout
    from fencepost.txn import PreparedStatus as PreparedStatus
    from fencepost.txn import PreparedTransaction as PreparedTransaction
    from fencepost.txn import Resumed as Resumed
    from fencepost.txn import Source as Source
    from fencepost.txn import SourceChanged as SourceChanged
    from fencepost.txn import Transaction as Transaction
    from fencepost.txn import TransactionAborted as TransactionAborted
    from fencepost.txn import TransactionalPool as TransactionalPool
    from fencepost.txn import TransactionalProducer as TransactionalProducer
    from fencepost.txn import TransactionCommitted as TransactionCommitted
    from fencepost.txn import TransactionOpen as TransactionOpen
    from fencepost.txn import TransactionTimeout as TransactionTimeout
    from fencepost.txn import Written as Written
    from fencepost.txn import resume as resume
    from fencepost.txn import resume_async as resume_async
    from fencepost.txn.spark import BadColumns as BadColumns
    from fencepost.txn.spark import BadRows as BadRows
    from fencepost.txn.spark import BatchFailed as BatchFailed
    from fencepost.txn.spark import BatchUnknown as BatchUnknown
    from fencepost.txn.spark import ExactlyOnceKafkaWriter as ExactlyOnceKafkaWriter
    from fencepost.txn.spark import GuardUnavailable as GuardUnavailable
    from fencepost.txn.spark import JavaMissing as JavaMissing
    from fencepost.txn.spark import QueryStopped as QueryStopped
    from fencepost.txn.spark import SinkTakenOver as SinkTakenOver
    from fencepost.txn.spark import SparkWriterStats as SparkWriterStats
    from fencepost.txn.spark import TransactionTooLong as TransactionTooLong
    from fencepost.txn.spark import route as route
    from fencepost.txn.spark import write_once as write_once

_HOMES = {
    "fencepost.broker_stub": (
        "Acl",
        "BrokerStub",
        "Clock",
        "Control",
        "Exchange",
        "Fault",
        "Faults",
        "Heard",
        "Inspector",
        "Journal",
        "Point",
        "RealClock",
        "Sasl",
        "Tls",
        "VirtualClock",
    ),
    "fencepost.broker_stub.proxy.proxy": ("FaultProxy",),
    "fencepost._build": ("BuildInfo", "build_info"),
    "fencepost.producer": (
        "AsyncProducer",
        "AuthenticationFailed",
        "BrokerStats",
        "BufferFull",
        "BulkFuture",
        "ConfigError",
        "Deliveries",
        "DeliveryError",
        "DeliveryFatal",
        "DeliveryTimeout",
        "DeliveryUnknown",
        "Fatal",
        "Fenced",
        "FencepostError",
        "Misuse",
        "NoUsableBroker",
        "Partitioner",
        "Persisted",
        "Producer",
        "ProducerClosed",
        "ProducerForked",
        "ProducerRecord",
        "ProducerStats",
        "RecordFuture",
        "RecordMetadata",
        "RecordRefused",
        "RecordTooLarge",
        "Retriable",
        "SaslMechanism",
        "SecurityProtocol",
        "Settings",
        "TopicStats",
        "TopicUnavailable",
        "UndeliveredRecords",
        "UnknownPartition",
        "prometheus_text",
    ),
    "fencepost.producer.wire.codes": ("Api", "ErrorCode"),
    "fencepost.txn": (
        "AsyncJob",
        "AsyncPipeline",
        "AsyncResumed",
        "AsyncTransaction",
        "AsyncTransactionalPool",
        "AsyncTransactionalProducer",
        "BadJobEntry",
        "BadLedgerEntry",
        "BadParticipation",
        "BadRecord",
        "BadToken",
        "CheckpointReplaced",
        "CheckpointRolledBack",
        "CommitOutcomeUnknown",
        "DatabaseCursor",
        "DeliveryAborted",
        "FileSource",
        "FingerprintMissing",
        "GroupMetadata",
        "HttpPages",
        "IdentityLost",
        "IllegalCall",
        "IteratorSource",
        "Job",
        "JobFailed",
        "JobStats",
        "Ledger",
        "LedgerBehind",
        "LedgerBusy",
        "LedgerDamaged",
        "LedgerEntry",
        "LedgerError",
        "LedgerMissing",
        "LedgerPartition",
        "LedgerRefusal",
        "LedgerUnavailable",
        "LedgerUnusable",
        "Marker",
        "MustAbort",
        "NoParticipation",
        "NoTransaction",
        "NotPermitted",
        "NotReturned",
        "NotShareable",
        "NotShared",
        "OffsetAndMetadata",
        "OlderVersion",
        "Outcome",
        "OutputRecord",
        "Participant",
        "Participation",
        "ParticipationEnded",
        "Pipeline",
        "PipelineFailed",
        "PipelineStats",
        "PoisonMessage",
        "PoolStats",
        "PoolTakenOver",
        "PoolTimeout",
        "PreparedStatus",
        "PreparedTransaction",
        "Resumed",
        "Source",
        "SourceChanged",
        "Transaction",
        "TransactionAborted",
        "TransactionalPool",
        "TransactionCommitted",
        "TransactionOpen",
        "TransactionTimeout",
        "TransactionalProducer",
        "Written",
        "resume",
        "resume_async",
    ),
}
_SPARK = (
    "BadColumns",
    "BadRows",
    "BatchFailed",
    "BatchUnknown",
    "ExactlyOnceKafkaWriter",
    "GuardUnavailable",
    "JavaMissing",
    "QueryStopped",
    "SinkTakenOver",
    "SparkWriterStats",
    "TransactionTooLong",
    "route",
    "write_once",
)
"""Of `txn.spark`, which needs the extra `fencepost[spark]`: asked for by name, and not among what a `*` imports."""

__all__ = ["__version__", *(name for names in _HOMES.values() for name in names)]

__getattr__, _every_name = _lazy_names(globals(), {**_HOMES, "fencepost.txn.spark": _SPARK})


def __dir__() -> list[str]:
    """Without the extra `spark` its names are left out: `help(fencepost)` takes every name that this lists."""
    return _every_name() if _find_spec("pyspark") else [name for name in _every_name() if name not in _SPARK]
