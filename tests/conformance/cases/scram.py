"""AlterUserScramCredentials and DescribeUserScramCredentials (KIP-554)."""

from collections.abc import Sequence

from fencepost.broker_stub.security.operations import Operation
from fencepost.producer.wire.messages.scram_credentials import (
    AlterUserScramCredentialsRequest,
    DescribeUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
    UserName,
)
from tests.conformance.holding import each_holding, on_cluster
from tests.conformance.world import World, case

SHA_256, SHA_512, UNKNOWN = 1, 2, 9


def described(*names: str) -> DescribeUserScramCredentialsRequest:
    """About these users; all without names."""
    return DescribeUserScramCredentialsRequest(users=[UserName(name=name) for name in names])


def setting(name: str, mechanism: int = SHA_256, iterations: int = 4096) -> ScramCredentialUpsertion:
    """A credential."""
    return ScramCredentialUpsertion(name=name, mechanism=mechanism, iterations=iterations, salt=b"salt", salted_password=bytes(32))


def removing(name: str, mechanism: int = SHA_256) -> ScramCredentialDeletion:
    """A credential to remove."""
    return ScramCredentialDeletion(name=name, mechanism=mechanism)


def changed(*changes: ScramCredentialUpsertion | ScramCredentialDeletion) -> AlterUserScramCredentialsRequest:
    """A request for these changes."""
    return AlterUserScramCredentialsRequest(
        deletions=[each for each in changes if isinstance(each, ScramCredentialDeletion)],
        upsertions=[each for each in changes if isinstance(each, ScramCredentialUpsertion)],
    )


@case("KIP-554")
def set_described_and_removed(w: World) -> None:
    """One mechanism, both, other iterations; a user without a credential is not found."""
    name = w.client()
    w.say(described(name), 0, label="none")
    w.say(changed(setting(name)), 0, label="set")
    w.say(described(name), 0, label="one")
    w.say(changed(setting(name, SHA_512, 8192)), 0, label="the other mechanism")
    w.say(changed(setting(name, SHA_256, 16384)), 0, label="more iterations")
    w.say(described(name), 0, label="two")
    w.say(described(name, name), 0, label="twice")
    w.say(changed(removing(name, SHA_512)), 0, label="removed")
    w.say(described(name), 0, label="one is left")
    w.say(changed(removing(name)), 0, label="removed too")
    w.say(described(name), 0, label="none is left")
    w.say(changed(removing(name)), 0, label="removed again")


@case("KIP-554")
def changes_that_are_refused(w: World) -> None:
    """Too few and too many iterations, unknown mechanisms, no name, and two changes of one user."""
    name = w.client()
    refused: dict[str, Sequence[ScramCredentialUpsertion | ScramCredentialDeletion]] = {
        "few iterations": [setting(name, iterations=4095)],
        "many iterations": [setting(name, iterations=16385)],
        "iterations below zero": [setting(name, iterations=-1)],
        "unknown mechanism": [setting(name, UNKNOWN)],
        "mechanism 0": [setting(name, 0)],
        "an unknown one removed": [removing(name, UNKNOWN)],
        "no name": [setting("")],
        "no name removed": [removing("")],
        "set twice": [setting(name), setting(name, SHA_512)],
        "set, and removed in vain": [setting(name), removing(name)],
        "set twice, wrong at first": [setting(name, iterations=1), setting(name)],
        "set twice, wrong at last": [setting(name), setting(name, iterations=1)],
        "nothing": [],
    }
    for label, changes in refused.items():
        w.say(changed(*changes), 0, label=label)
        w.say(described(name), 0, label=f"after {label}")
    w.say(changed(setting(name)), 0, label="set")
    w.say(changed(setting(name, SHA_512), removing(name)), 0, label="set and removed")
    w.say(described(name), 0, label="as before")
    w.say(changed(removing(name)), 0, label="removed")


@case("KIP-554")
def an_empty_salt_and_password(w: World) -> None:
    """What the client has salted is not looked at."""
    name = w.client()
    w.say(changed(ScramCredentialUpsertion(name=name, mechanism=SHA_256, iterations=4096)), 0, label="empty")
    w.say(described(name), 0, label="described")
    w.say(changed(removing(name)), 0, label="removed")


@case(guarded=True)
def permissions_for_credentials(w: World) -> None:
    """DESCRIBE and ALTER on the cluster."""
    w.no_acls()
    name = w.client()
    each_holding(w, described(name), 0, on_cluster(Operation.DESCRIBE), what="described")
    each_holding(w, described(name, name), 0, on_cluster(Operation.ALTER), what="described twice")
    each_holding(w, changed(setting(name)), 0, on_cluster(Operation.DESCRIBE), on_cluster(Operation.ALTER), what="set")
    each_holding(w, changed(removing(name), setting(name, SHA_512)), 0, on_cluster(Operation.ALTER), what="both")
    each_holding(w, changed(removing(name)), 0, on_cluster(Operation.ALTER), what="removed")
