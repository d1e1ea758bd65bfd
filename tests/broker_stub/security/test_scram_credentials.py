"""Users that an administrator creates over the protocol, and that then log in with SCRAM."""

from __future__ import annotations

from concurrent.futures import Future
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._scram import ScramCredentialInfo, ScramMechanism, UserScramCredentialDeletion, UserScramCredentialUpsertion

from fencepost.broker_stub import BrokerStub, Sasl
from fencepost.producer import AuthenticationFailed, Producer

DEADLINE_S = 20
ADMIN = {"admin": "root"}


def admin(stub: BrokerStub) -> AdminClient:
    """librdkafka's, logged in as a user of the stub."""
    return AdminClient(
        {
            "bootstrap.servers": stub.bootstrap,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": "admin",
            "sasl.password": "root",
        }
    )


def give(stub: BrokerStub, name: str, password: str, mechanism: ScramMechanism = ScramMechanism.SCRAM_SHA_256) -> None:
    """Sets a credential."""
    info = ScramCredentialInfo(mechanism, 4096)
    change = UserScramCredentialUpsertion(name, info, password.encode())
    _alter(stub, change)


def take(stub: BrokerStub, name: str, mechanism: ScramMechanism = ScramMechanism.SCRAM_SHA_256) -> None:
    """Removes a credential."""
    _alter(stub, UserScramCredentialDeletion(name, mechanism))


def _alter(stub: BrokerStub, change: UserScramCredentialUpsertion | UserScramCredentialDeletion) -> None:
    client = admin(stub)
    for done in client.alter_user_scram_credentials([change]).values():
        done.result(DEADLINE_S)


def logs_in(stub: BrokerStub, name: str, password: str, mechanism: str = "SCRAM-SHA-256") -> bool:
    """Whether a producer can write as that user."""
    with Producer(
        bootstrap_servers=stub.bootstrap,
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism=mechanism,  # type: ignore[arg-type]  # one of three
        sasl_username=name,
        sasl_password=password,
    ) as producer:
        try:
            producer.send("t", b"x").result(DEADLINE_S)
        except AuthenticationFailed:
            return False
    return True


def described(stub: BrokerStub) -> dict[str, list[tuple[str, int]]]:
    """Every user's mechanisms and iterations."""
    client = admin(stub)
    asked = client.describe_user_scram_credentials()
    assert isinstance(asked, Future)
    found = asked.result(DEADLINE_S)
    return {
        name: sorted((info.mechanism.name, info.iterations) for info in each.scram_credential_infos) for name, each in sorted(found.items())
    }


def test_a_new_user_logs_in() -> None:
    """With the mechanism for which it has a credential, and only with its password."""
    with BrokerStub(sasl=ADMIN) as stub:
        assert not logs_in(stub, "alice", "secret")
        give(stub, "alice", "secret")
        assert logs_in(stub, "alice", "secret")
        assert not logs_in(stub, "alice", "Secret")
        assert not logs_in(stub, "alice", "secret", "SCRAM-SHA-512")
        give(stub, "alice", "secret", ScramMechanism.SCRAM_SHA_512)
        assert logs_in(stub, "alice", "secret", "SCRAM-SHA-512")
        both = [("SCRAM_SHA_256", 4096), ("SCRAM_SHA_512", 4096)]
        assert described(stub) == {"admin": both, "alice": both}


def test_a_password_is_changed_and_a_user_removed() -> None:
    """Also one that the stub was given. PLAIN goes on with its own password, as in Kafka."""
    with BrokerStub(sasl=Sasl({**ADMIN, "bob": "old"})) as stub:
        assert logs_in(stub, "bob", "old")
        give(stub, "bob", "new")
        assert not logs_in(stub, "bob", "old")
        assert logs_in(stub, "bob", "new")
        take(stub, "bob")
        take(stub, "bob", ScramMechanism.SCRAM_SHA_512)
        assert not logs_in(stub, "bob", "new")
        assert logs_in(stub, "bob", "old", "PLAIN")
        assert "bob" not in described(stub)


@pytest.mark.parametrize("clean", [True, False])
def test_credentials_outlive_the_stub(tmp_path: Path, *, clean: bool) -> None:
    """In its data directory: those that were set and those that were removed, without a password."""
    stub = BrokerStub(sasl=Sasl({**ADMIN, "bob": "old"}), data_dir=tmp_path)
    with stub:
        give(stub, "alice", "a secret")
        take(stub, "bob")
        if not clean:
            stub.lose_power(1)
    assert b"a secret" not in (tmp_path / "cluster-metadata.jsonl").read_bytes()
    with BrokerStub(sasl=Sasl({**ADMIN, "bob": "old"}), data_dir=tmp_path) as stub:
        assert logs_in(stub, "alice", "a secret")
        assert not logs_in(stub, "bob", "old")
        assert logs_in(stub, "bob", "old", "SCRAM-SHA-512")
