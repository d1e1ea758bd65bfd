"""The door of the project: every public name, without the generic package names behind them.

    from fencepost import Producer, BrokerStub

Names are loaded when first asked for, so that `import fencepost` and the command line start at once. It defines nothing of its own but
the build's description, and no other package of the project imports it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from producer.version import VERSION as __version__

if TYPE_CHECKING:
    from broker_stub import Acl as Acl
    from broker_stub import BrokerStub as BrokerStub
    from broker_stub import Clock as Clock
    from broker_stub import Exchange as Exchange
    from broker_stub import Fault as Fault
    from broker_stub import Faults as Faults
    from broker_stub import Heard as Heard
    from broker_stub import Journal as Journal
    from broker_stub import Point as Point
    from broker_stub import RealClock as RealClock
    from broker_stub import Sasl as Sasl
    from broker_stub import Tls as Tls
    from broker_stub import VirtualClock as VirtualClock
    from broker_stub.proxy import FaultProxy as FaultProxy
    from fencepost._build import BuildInfo as BuildInfo
    from fencepost._build import build_info as build_info
    from producer import AsyncProducer as AsyncProducer
    from producer import AuthenticationFailed as AuthenticationFailed
    from producer import BrokerStats as BrokerStats
    from producer import BufferFull as BufferFull
    from producer import BulkFuture as BulkFuture
    from producer import ConfigError as ConfigError
    from producer import Deliveries as Deliveries
    from producer import DeliveryError as DeliveryError
    from producer import DeliveryFatal as DeliveryFatal
    from producer import DeliveryTimeout as DeliveryTimeout
    from producer import DeliveryUnknown as DeliveryUnknown
    from producer import Fatal as Fatal
    from producer import Fenced as Fenced
    from producer import FencepostError as FencepostError
    from producer import Misuse as Misuse
    from producer import NoUsableBroker as NoUsableBroker
    from producer import Partitioner as Partitioner
    from producer import Persisted as Persisted
    from producer import Producer as Producer
    from producer import ProducerClosed as ProducerClosed
    from producer import ProducerForked as ProducerForked
    from producer import ProducerRecord as ProducerRecord
    from producer import ProducerStats as ProducerStats
    from producer import RecordFuture as RecordFuture
    from producer import RecordMetadata as RecordMetadata
    from producer import RecordRefused as RecordRefused
    from producer import RecordTooLarge as RecordTooLarge
    from producer import Retriable as Retriable
    from producer import SaslMechanism as SaslMechanism
    from producer import SecurityProtocol as SecurityProtocol
    from producer import Settings as Settings
    from producer import TopicStats as TopicStats
    from producer import TopicUnavailable as TopicUnavailable
    from producer import UndeliveredRecords as UndeliveredRecords
    from producer import prometheus_text as prometheus_text
    from producer.wire.codes import Api as Api
    from producer.wire.codes import ErrorCode as ErrorCode
    from txn import AsyncResumed as AsyncResumed
    from txn import AsyncTransaction as AsyncTransaction
    from txn import AsyncTransactionalProducer as AsyncTransactionalProducer
    from txn import BadLedgerEntry as BadLedgerEntry
    from txn import BadLoan as BadLoan
    from txn import BadToken as BadToken
    from txn import Borrower as Borrower
    from txn import CheckpointReplaced as CheckpointReplaced
    from txn import CheckpointRolledBack as CheckpointRolledBack
    from txn import CommitOutcomeUnknown as CommitOutcomeUnknown
    from txn import DeliveryAborted as DeliveryAborted
    from txn import FingerprintMissing as FingerprintMissing
    from txn import GroupMetadata as GroupMetadata
    from txn import IdentityLost as IdentityLost
    from txn import IllegalCall as IllegalCall
    from txn import Ledger as Ledger
    from txn import LedgerBehind as LedgerBehind
    from txn import LedgerBusy as LedgerBusy
    from txn import LedgerDamaged as LedgerDamaged
    from txn import LedgerEntry as LedgerEntry
    from txn import LedgerError as LedgerError
    from txn import LedgerMissing as LedgerMissing
    from txn import LedgerPartition as LedgerPartition
    from txn import LedgerRefusal as LedgerRefusal
    from txn import LedgerUnavailable as LedgerUnavailable
    from txn import LedgerUnusable as LedgerUnusable
    from txn import Loan as Loan
    from txn import LoanOver as LoanOver
    from txn import Marker as Marker
    from txn import MustAbort as MustAbort
    from txn import NoLoan as NoLoan
    from txn import NotLent as NotLent
    from txn import NotPermitted as NotPermitted
    from txn import NoTransaction as NoTransaction
    from txn import NotReturned as NotReturned
    from txn import NotToBeLent as NotToBeLent
    from txn import OffsetAndMetadata as OffsetAndMetadata
    from txn import OlderVersion as OlderVersion
    from txn import Outcome as Outcome
    from txn import PreparedStatus as PreparedStatus
    from txn import PreparedTransaction as PreparedTransaction
    from txn import Resumed as Resumed
    from txn import Transaction as Transaction
    from txn import TransactionAborted as TransactionAborted
    from txn import TransactionalProducer as TransactionalProducer
    from txn import TransactionCommitted as TransactionCommitted
    from txn import TransactionOpen as TransactionOpen
    from txn import TransactionTimeout as TransactionTimeout
    from txn import Written as Written
    from txn import resume as resume
    from txn import resume_async as resume_async
    from txn.spark import BadColumns as BadColumns
    from txn.spark import BadRows as BadRows
    from txn.spark import BatchFailed as BatchFailed
    from txn.spark import BatchUnknown as BatchUnknown
    from txn.spark import ExactlyOnceKafkaWriter as ExactlyOnceKafkaWriter
    from txn.spark import GuardUnavailable as GuardUnavailable
    from txn.spark import JavaMissing as JavaMissing
    from txn.spark import QueryStopped as QueryStopped
    from txn.spark import SinkTakenOver as SinkTakenOver
    from txn.spark import TransactionTooLong as TransactionTooLong
    from txn.spark import route as route
    from txn.spark import write_once as write_once

_HOMES = {
    "broker_stub": (
        "Acl",
        "BrokerStub",
        "Clock",
        "Exchange",
        "Fault",
        "Faults",
        "Heard",
        "Journal",
        "Point",
        "RealClock",
        "Sasl",
        "Tls",
        "VirtualClock",
    ),
    "broker_stub.proxy": ("FaultProxy",),
    "fencepost._build": ("BuildInfo", "build_info"),
    "producer": (
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
        "prometheus_text",
    ),
    "producer.wire.codes": ("Api", "ErrorCode"),
    "txn": (
        "AsyncResumed",
        "AsyncTransaction",
        "AsyncTransactionalProducer",
        "BadLoan",
        "BadToken",
        "Borrower",
        "BadLedgerEntry",
        "CheckpointReplaced",
        "CheckpointRolledBack",
        "CommitOutcomeUnknown",
        "DeliveryAborted",
        "FingerprintMissing",
        "GroupMetadata",
        "IdentityLost",
        "IllegalCall",
        "Loan",
        "LoanOver",
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
        "NoLoan",
        "NoTransaction",
        "NotLent",
        "NotPermitted",
        "NotReturned",
        "NotToBeLent",
        "OffsetAndMetadata",
        "OlderVersion",
        "Outcome",
        "PreparedStatus",
        "PreparedTransaction",
        "Resumed",
        "Transaction",
        "TransactionAborted",
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
    "TransactionTooLong",
    "route",
    "write_once",
)
"""Of `txn.spark`, which needs the extra `fencepost[spark]`: asked for by name, and not among what a `*` imports."""

_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = ["__version__", *_HOME_OF]


def __getattr__(name: str) -> object:
    home = "txn.spark" if name in _SPARK else _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        found = globals()[name] = getattr(import_module(home), name)
    except AttributeError as error:  # Of which Python would say no more than that the name cannot be imported.
        raise ImportError(f"{home}: {error}") from error
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME_OF, *_SPARK})
