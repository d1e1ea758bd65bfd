"""The errors of `AIOKafkaProducer`: aiokafka's own classes where it is installed, otherwise classes with the same names.

An error has the attribute `underlying`: fencepost's error, which says more, for example whether a failed record may be in the log
(`error.underlying.persisted`). The three classes defined here are each two of aiokafka's at once, because aiokafka raises the one or the
other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fencepost.compat.aiokafka.installed import INSTALLED
from fencepost.compat.aiokafka.own_errors import *  # noqa: F403  # each of them is public here
from fencepost.compat.aiokafka.own_errors import (
    AuthenticationFailedError,
    IllegalOperation,
    KafkaConnectionError,
    UnknownTopicOrPartitionError,
)

if not TYPE_CHECKING and INSTALLED:
    from aiokafka import errors as _theirs

    # All of them: a program may look here for any error that it finds in aiokafka.errors.
    globals().update({name: value for name, value in vars(_theirs).items() if not name.startswith("_")})


class UnrecognizedPartition(UnknownTopicOrPartitionError, AssertionError):
    """The topic has no such partition. aiokafka raises AssertionError."""


class WrongTransactionState(IllegalOperation, AssertionError):
    """A transaction is begun twice, or ended without being begun. aiokafka raises AssertionError."""


class BootstrapAuthenticationFailed(KafkaConnectionError, AuthenticationFailedError):
    """`start` reached a broker that does not accept the client's login. aiokafka raises KafkaConnectionError."""
