"""The SCRAM credentials of users, as AlterUserScramCredentials sets them (KIP-554, Kafka's `ScramControlManager`).

A user of `BrokerStub(sasl=...)` has a credential for each mechanism, which follows from the password. One that was set takes its place, and
one that was removed ends it. PLAIN knows the passwords alone.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Final, NamedTuple

HASHES: Final = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
MECHANISMS: Final = {1: "SCRAM-SHA-256", 2: "SCRAM-SHA-512"}
"""The mechanisms by Kafka's numbers (`ScramMechanism`)."""
ITERATIONS_MIN: Final = 4096
ITERATIONS_MAX: Final = 16384

Row = tuple[str, str, int, str, str, str]
"""Of the metadata log: mechanism, user, iterations (0: it was removed), salt, stored key and server key in hexadecimal digits."""


class Credential(NamedTuple):
    """What a broker keeps of a password (RFC 5802): it can check a proof, and cannot make one."""

    salt: bytes
    iterations: int
    stored_key: bytes
    server_key: bytes


def credential(mechanism: str, salt: bytes, iterations: int, salted_password: bytes) -> Credential:
    """The credential of a salted password."""
    digest = HASHES[mechanism]
    client_key = hmac.digest(salted_password, b"Client Key", digest)
    return Credential(salt, iterations, hashlib.new(digest, client_key).digest(), hmac.digest(salted_password, b"Server Key", digest))


@lru_cache(maxsize=256)
def of_password(mechanism: str, name: str, password: str) -> Credential:
    """The credential of a user of the stub. Cached, because it takes thousands of rounds, and a user logs in often."""
    salt = hashlib.sha256(name.encode()).digest()[:16]
    salted = hashlib.pbkdf2_hmac(HASHES[mechanism], password.encode(), salt, ITERATIONS_MIN)
    return credential(mechanism, salt, ITERATIONS_MIN, salted)


class ScramCredentials:
    """Of one cluster. `keep`: called with a row before a change counts. `passwords`: of the listeners' users."""

    def __init__(self, keep: Callable[[Row], object] = lambda row: None) -> None:
        self.passwords: Mapping[str, str] = {}
        self._keep = keep
        self._changed: dict[tuple[str, str], Credential | None] = {}

    def of(self, mechanism: str, name: str) -> Credential | None:
        """The user's credential for that mechanism, if there is one."""
        if (mechanism, name) in self._changed:
            return self._changed[mechanism, name]
        password = self.passwords.get(name)
        return of_password(mechanism, name, password) if password is not None else None

    def users(self) -> Iterator[str]:
        """Each user with a credential."""
        for name in dict.fromkeys((*self.passwords, *(name for _, name in self._changed))):
            if any(self.of(mechanism, name) is not None for mechanism in HASHES):
                yield name

    def change(self, mechanism: str, name: str, to: Credential | None) -> None:
        """Sets a credential, or removes it. It counts from the next login on."""
        self._keep(_row(mechanism, name, to))
        self._changed[mechanism, name] = to

    def resume(self, row: Row) -> None:
        """Takes what an earlier start has kept."""
        mechanism, name, iterations, *keys = row
        salt, stored_key, server_key = map(bytes.fromhex, keys)
        self._changed[mechanism, name] = Credential(salt, iterations, stored_key, server_key) if iterations else None


def _row(mechanism: str, name: str, kept: Credential | None) -> Row:
    if kept is None:
        return mechanism, name, 0, "", "", ""
    return mechanism, name, kept.iterations, kept.salt.hex(), kept.stored_key.hex(), kept.server_key.hex()
