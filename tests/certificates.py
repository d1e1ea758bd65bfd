"""Certificates for the tests, created while they run: a CA and what it signs, as PEM files. No file stays after the run."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import pytest
import trustme
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    KeySerializationEncryption,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)


class Certificate(NamedTuple):
    """A certificate and its key in two files, and both in one."""

    certfile: str
    keyfile: str
    both: str


class Authority:
    """A CA whose files are in that directory. `cafile`: its own certificate."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._ca = trustme.CA()
        self._numbers = itertools.count()
        self.cafile = str(directory / "ca.pem")
        self._ca.cert_pem.write_to_path(self.cafile)

    def issue(self, *names: str, common_name: str | None = None, expired: bool = False, password: str | None = None) -> Certificate:
        """Issue a certificate for these names; `password` encrypts its key."""
        ended = LONG_AGO if expired else None
        leaf = self._ca.issue_cert(*names, common_name=common_name, not_before=ended and ended.replace(year=2019), not_after=ended)
        stem = self._directory / f"leaf-{next(self._numbers)}"
        chain = b"".join(blob.bytes() for blob in leaf.cert_chain_pems)
        encryption: KeySerializationEncryption = BestAvailableEncryption(password.encode()) if password is not None else NoEncryption()
        # Kafka reads keys as PKCS#8 only.
        key = load_pem_private_key(leaf.private_key_pem.bytes(), None).private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption)
        paths = Certificate(f"{stem}.pem", f"{stem}.key", f"{stem}.both.pem")
        for path, content in zip(paths, (chain, key, key + chain), strict=True):
            Path(path).write_bytes(content)
        return paths


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """One CA for a test file. Import this fixture where tests need certificates."""
    return Authority(Path(tmp_path_factory.mktemp("ca")))
