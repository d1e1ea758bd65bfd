"""Certificates for a producer and its brokers, and the principals of a stub's connections."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fencepost.broker_stub import Tls
from tests.certificates import Authority, Certificate


class Pki:
    """Two authorities, and the certificates of the first one."""

    def __init__(self, directory: Path) -> None:
        for name in ("ours", "theirs"):
            (directory / name).mkdir()
        self.ours = Authority(directory / "ours")
        self.theirs = Authority(directory / "theirs")
        self.server = self.ours.issue("localhost", "127.0.0.1")
        self.expired = self.ours.issue("localhost", "127.0.0.1", expired=True)
        self.elsewhere = self.ours.issue("kafka.example")
        self.client = self.ours.issue("alice", common_name="alice")
        self.stranger = self.theirs.issue("mallory", common_name="mallory")
        self.trust: dict[str, Any] = {"security_protocol": "SSL", "ssl_cafile": self.ours.cafile}


@pytest.fixture(scope="module")
def pki(tmp_path_factory: pytest.TempPathFactory) -> Pki:
    return Pki(Path(tmp_path_factory.mktemp("pki")))


def tls(certificate: Certificate, **more: Any) -> Tls:
    return Tls(certificate.certfile, certificate.keyfile, **more)
