"""Users and tokens for the tests of TLS and SASL, in the form that each client needs."""

from __future__ import annotations

import base64
import json
import time
from typing import Any

from fencepost.broker_stub import BrokerStub

USERS = {"alice": "alice's secret: 100%=", "bob": "bob's"}
"""For PLAIN and SCRAM. The password has characters that a parser could misread."""

PASSWORD_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
MECHANISMS = (*PASSWORD_MECHANISMS, "OAUTHBEARER")


def jwt(subject: str = "alice", *, life_s: float = 86_400, header: dict[str, Any] | None = None, **claims: Any) -> str:
    """An unsecured token, as Kafka's default validator accepts it. It is valid for longer than a test run; a negative life makes it
    expired.
    """
    now = time.time()
    said = {"sub": subject, "iat": int(now) - 7200, "exp": now + life_s, **claims}
    parts = [header or {"alg": "none"}, {name: value for name, value in said.items() if value is not None}]
    return "".join(base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") + "." for part in parts)


def ours(mechanism: str, user: str = "alice", password: str | None = None) -> dict[str, Any]:
    """SASL settings of this project's producer."""
    if mechanism == "OAUTHBEARER":
        return {"sasl_mechanism": mechanism, "sasl_oauth_token_provider": lambda: jwt(user)}
    return {"sasl_mechanism": mechanism, "sasl_username": user, "sasl_password": USERS.get(user, "") if password is None else password}


def principals(stub: BrokerStub) -> set[str]:
    """The principals of the connections to the stub."""
    return {connection.principal for broker in stub.cluster.brokers.values() for connection in tuple(broker.connections)}
