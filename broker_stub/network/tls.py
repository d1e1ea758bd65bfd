"""TLS of the stub and the proxy: the certificate of brokers, and what they require of clients' certificates; for the proxy also how it
connects to brokers.

One context serves all brokers. `producer.wire.tls` does the handshake with clients.
"""

from __future__ import annotations

import os
import ssl
from dataclasses import dataclass
from typing import Final

from fencepost.broker_stub.network.addresses import printable

Path = str | os.PathLike[str]

CLIENT_AUTH: Final = {"none": ssl.CERT_NONE, "requested": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}
"""Kafka's ssl.client.auth."""


@dataclass(frozen=True)
class Tls:
    """PEM files. `certfile` is the brokers' certificate chain, with the key in it unless there is a `keyfile`. `client_ca` signs the
    clients' certificates. `client_auth` says whether these are `required`, which is the default then, or `requested`."""

    certfile: Path
    keyfile: Path | None = None
    client_ca: Path | None = None
    client_auth: str | None = None

    def context(self) -> ssl.SSLContext:
        """Raises OSError or ValueError with the name of the file or setting that cannot be used."""
        wanted = self.client_auth or ("none" if self.client_ca is None else "required")
        if wanted not in CLIENT_AUTH:
            raise ValueError(f"client_auth is one of {', '.join(CLIENT_AUTH)}, not {wanted!r}")
        if wanted != "none" and self.client_ca is None:
            raise ValueError(f"client_auth={wanted!r} needs client_ca, the CA that signs the clients' certificates")
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.options |= ssl.OP_NO_RENEGOTIATION
        _load(self.certfile, lambda: context.load_cert_chain(self.certfile, self.keyfile, password=lambda: ""), beside=self.keyfile)
        if self.client_ca is not None:
            authorities = self.client_ca
            _load(authorities, lambda: context.load_verify_locations(cafile=authorities))
        context.verify_mode = CLIENT_AUTH[wanted]
        return context


def context_from(given: Tls | ssl.SSLContext | tuple[Path, Path]) -> ssl.SSLContext:
    """The context of `BrokerStub(tls=...)`; a pair is a certificate and its key. Raises TypeError for anything else."""
    match given:
        case ssl.SSLContext():
            return given
        case Tls():
            return given.context()
        case (str() | os.PathLike() as certfile, str() | os.PathLike() as keyfile):
            return Tls(certfile, keyfile).context()
    raise TypeError(f"tls={printable(repr(given), longest=100)}: must be a Tls, a pair of certificate and key file, or an SSLContext")


def client_context(cafile: Path | None = None, certfile: Path | None = None, keyfile: Path | None = None) -> ssl.SSLContext:
    """For connections to brokers, whose certificates and host names are checked: against that CA, or the system's. `certfile`: the client's
    certificate, for brokers that require one. Raises OSError or ValueError with the name of the file that cannot be used."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if cafile is None:
        context.load_default_certs()
    else:
        _load(cafile, lambda: context.load_verify_locations(cafile=cafile))
    if certfile is not None:
        _load(certfile, lambda: context.load_cert_chain(certfile, keyfile, password=lambda: ""), beside=keyfile)
    return context


def client_context_from(given: bool | Path | ssl.SSLContext) -> ssl.SSLContext:
    """The context of `FaultProxy(upstream_tls=...)`: True for the system's CAs, or the file of a CA. Raises TypeError for anything else."""
    match given:
        case ssl.SSLContext():
            return given
        case True:
            return client_context()
        case str() | os.PathLike():
            return client_context(given)
    raise TypeError(f"upstream_tls={printable(repr(given), longest=100)}: must be True, the file of a CA, or an SSLContext")


def _load(path: Path, load: object, *, beside: Path | None = None) -> None:
    assert callable(load)
    for each in (path, beside):
        if each is not None and not os.path.isfile(each):
            raise FileNotFoundError(f"the file {os.fspath(each)!r} does not exist")
    try:
        load()
    except ssl.SSLError as error:
        where = " and ".join(repr(os.fspath(each)) for each in (path, beside) if each is not None)
        raise ValueError(f"{where} cannot be used for TLS: {(error.reason or str(error)).replace('_', ' ').lower()}") from None
