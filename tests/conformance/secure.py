"""A real Kafka with listeners that require TLS and SASL, besides the plain one.

SASL, SASL_TLS       every mechanism, without and with TLS
BRIEF, BRIEF_TLS     the same with sessions of SESSION_MS
FEW                  the mechanisms in FEW
TLS, MUTUAL          TLS; MUTUAL requires a client certificate
EXPIRED, ELSEWHERE   TLS with a certificate that has expired, or is for another host

Any user may do everything with resources without an ACL. bob and ANONYMOUS may do everything with all resources.
"""

from __future__ import annotations

from typing import Any

from tests.certificates import Authority
from tests.conformance.kafka import KafkaCluster
from tests.credentials import MECHANISMS, USERS

SESSION_MS = 2500
LISTENERS = {
    "SASL": "SASL_PLAINTEXT",
    "SASL_TLS": "SASL_SSL",
    "BRIEF": "SASL_PLAINTEXT",
    "BRIEF_TLS": "SASL_SSL",
    "FEW": "SASL_PLAINTEXT",
    "TLS": "SSL",
    "MUTUAL": "SSL",
    "EXPIRED": "SSL",
    "ELSEWHERE": "SSL",
}
FEW = ("PLAIN", "SCRAM-SHA-512")
"""The mechanisms that the listener of this name accepts."""
MODULES = "org.apache.kafka.common.security"


def secure_kafka(authority: Authority, *, brokers: int = 1, **more: Any) -> KafkaCluster:
    """Not started yet."""
    right = authority.issue("localhost", "127.0.0.1").both
    config: dict[str, Any] = {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": right,
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": authority.cafile,
        "listener.name.mutual.ssl.client.auth": "required",
        "sasl.enabled.mechanisms": ",".join(MECHANISMS),
        "listener.name.few.sasl.enabled.mechanisms": ",".join(FEW),
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS;User:bob",
        "allow.everyone.if.no.acl.found": "true",
        "connection.failed.authentication.delay.ms": 0,
    }
    for listener, certificate in (("expired", authority.issue("127.0.0.1", expired=True)), ("elsewhere", authority.issue("kafka.example"))):
        config[f"listener.name.{listener}.ssl.keystore.type"] = "PEM"
        config[f"listener.name.{listener}.ssl.keystore.location"] = certificate.both
    for listener, protocol in LISTENERS.items():
        if protocol.startswith("SASL"):
            for mechanism in MECHANISMS:
                config[f"listener.name.{listener.lower()}.{mechanism.lower()}.sasl.jaas.config"] = _jaas(mechanism)
        if listener.startswith("BRIEF"):
            config[f"listener.name.{listener.lower()}.connections.max.reauth.ms"] = SESSION_MS
    scram = [f"{mechanism}=[name={name},password={word}]" for mechanism in MECHANISMS[1:3] for name, word in USERS.items()]
    formatting = [word for each in scram for word in ("--add-scram", each)]
    return KafkaCluster(brokers=brokers, listeners=LISTENERS, config=config, formatting=formatting, **more)


def _jaas(mechanism: str) -> str:
    """The broker's side of a mechanism, as one property."""
    if mechanism == "PLAIN":
        users = " ".join(f'user_{name}="{password}"' for name, password in USERS.items())
        return f"{MODULES}.plain.PlainLoginModule required {users};"
    if mechanism == "OAUTHBEARER":
        return f'{MODULES}.oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="broker";'
    return f"{MODULES}.scram.ScramLoginModule required;"
