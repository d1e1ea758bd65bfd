"""KIP-939, as far as brokers have it: the coordinator never times the transaction out, and a registration does not abort it.

The producer asks for it only with `transaction_two_phase_commit_enable`, and does without it if a broker lacks it. Releases offer version 6
of InitProducerId only with `unstable.api.versions.enable`, and up to Kafka 4.3 they answer keepPreparedTxn with UNSUPPORTED_VERSION.
Without it a prepared transaction has the deadline that its token says.
"""

from __future__ import annotations

import logging
from typing import Final

from fencepost.producer.core.cluster.cluster_connection_states import Node
from fencepost.producer.wire.codes import Api, ErrorCode
from fencepost.txn.protocol.requests import TWO_PHASE_VERSION

log = logging.getLogger("fencepost.txn")

DENIED: Final = (
    "with transaction_two_phase_commit_enable the client also needs TWO_PHASE_COMMIT on the transactional id, and the brokers "
    "transaction.two.phase.commit.enable"
)


class TwoPhase:
    """What InitProducerId asks for besides an identity. `keep`: do not abort the open transaction."""

    def __init__(self, *, wanted: bool = False, keep: bool = False) -> None:
        self._wanted = wanted
        self._keep = wanted and keep
        self._said = False

    def flags(self, node: Node) -> tuple[bool, bool]:
        """Enable2Pc and KeepPreparedTxn, for this broker."""
        if not self._wanted:
            return False, False
        if not offers_two_phase(node):
            if not self._said:
                log.info("the broker at %s does not offer KIP-939: prepared transactions have a deadline", node.address)
            self._said = True
            return False, False
        return True, self._keep

    def steps_back(self, code: int) -> bool:
        """Whether to ask again for less, because the broker lacks what was asked for."""
        if code != ErrorCode.UNSUPPORTED_VERSION or not self._wanted:
            return False
        self._keep, self._wanted = False, self._keep
        return True

    def hint(self, code: int) -> str:
        """What else a refusal may mean."""
        return f"; {DENIED}" if self._wanted and code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED else ""


def offers_two_phase(node: Node) -> bool:
    """Whether the broker has the version of InitProducerId that KIP-939 needs."""
    return node.version(Api.INIT_PRODUCER_ID, TWO_PHASE_VERSION, least=TWO_PHASE_VERSION) is not None
