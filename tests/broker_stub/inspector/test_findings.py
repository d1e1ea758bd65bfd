"""What the page says went wrong: each of ten seeded mishaps is explained, and a cluster without one has no finding."""

from __future__ import annotations

import pytest

from fencepost import BrokerStub, Producer
from tests.broker_stub.inspector.seeded_cases import CASES, PATIENCE_S, found

pytestmark = pytest.mark.timeout(120)

WORDS = {
    "lost reply": "It is in the log once, at offset 1.",
    "fenced zombie": "which is replaced",
    "hanging transaction": "No coordinator has it open",
    "stale leader": "Broker 2 leads in epoch 1.",
    "poison record": "record 2: a compacted topic takes no record without a key",
    "expired batch": "It is in the log, at offset 1, though the client does not know.",
    "quota": "told it to wait, up to",
    "wrong acks": "a leader without these records took over",
    "rebalance in a transaction": "UNKNOWN_MEMBER_ID",
    "aborted batch": "shop aborted it in exchange",
}
"""The answer to "what went wrong?" in each case."""


@pytest.mark.parametrize("name", CASES)
def test_each_mishap_is_explained(name: str) -> None:
    """The finding names what happened, and leads to the exchange or the partition that shows it."""
    case = CASES[name]
    with BrokerStub(**case.options) as stub:
        case.make(stub)
        explained = [each for each in found(stub) if each["kind"] == case.kind]
        assert explained, found(stub)
        assert any(WORDS[name] in each["text"] for each in explained), explained
        numbers = explained[0]["rows"]
        assert numbers or explained[0]["topic"] is not None
        assert set(numbers) <= {exchange.number for exchange in stub.journal.requests()}


def test_nothing_is_found_where_nothing_went_wrong() -> None:
    """Ordinary writes and reads are no finding."""
    with BrokerStub(brokers=2) as stub:
        with Producer(stub.settings) as producer:
            for number in range(20):
                producer.send("orders", b"%d" % number).result(PATIENCE_S)
        assert found(stub) == []
