"""TLS on the client's side: the context that the settings describe, and what a failed handshake means in their words.

Files are read once, when a producer is made; a certificate that is renewed on disk is taken by the next producer. The handshake itself is
`producer.wire.tls`.
"""

from __future__ import annotations

import os
import ssl
from typing import Final

from fencepost.producer.config.settings import Settings
from fencepost.producer.errors import AuthenticationFailed, ConfigError
from fencepost.producer.network.connect_error import ConnectError
from fencepost.producer.network.protocol_probe import WRONG_PORT, recognise

NO_PEM: Final[tuple[tuple[bytes, str], ...]] = (
    (b"\xfe\xed\xfe\xed", "it is a Java keystore (JKS); write it as PEM, with `keytool -exportcert -rfc` for certificates"),
    (b"0\x82", "it looks like PKCS#12 or DER; write it as PEM, with `openssl pkcs12` or `openssl x509 -inform der`"),
)
"""First bytes of what people give instead of PEM."""

EXPIRED, NOT_YET_VALID = 10, 9
NOT_THE_HOST = (62, 63, 64)
"""OpenSSL's verification results (X509_V_ERR_*)."""

CERTIFICATE_WANTED: Final = ("CERTIFICATE_REQUIRED", "BAD_CERTIFICATE", "HANDSHAKE_FAILURE", "CERTIFICATE_UNKNOWN")
"""Ends of the names of the alerts with which a peer may ask for a client certificate that did not come: TLS 1.3 has one for it, JSSE says
that the empty one is bad, and before TLS 1.3 there was nothing better than a handshake failure."""

CERTIFICATE_REFUSED: Final = (*CERTIFICATE_WANTED, "UNKNOWN_CA", "CERTIFICATE_EXPIRED", "CERTIFICATE_REVOKED", "UNSUPPORTED_CERTIFICATE")
NO_COMMON_VERSION: Final = ("PROTOCOL_VERSION", "UNSUPPORTED_PROTOCOL", "NO_SHARED_CIPHER", "INSUFFICIENT_SECURITY")


def client_context(s: Settings) -> ssl.SSLContext:
    """A context as the settings want it. Raises ConfigError where a file is not what it should be."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = s.ssl_check_hostname
    context.options |= ssl.OP_NO_RENEGOTIATION
    # As with Java's truststores, a certificate that is named as trusted is trusted, be it a root or not.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    if s.ssl_cafile is None:
        context.load_default_certs()
    else:
        _trust(context, s.ssl_cafile)
    if s.ssl_certfile is not None:
        _own_certificate(context, s, s.ssl_certfile)
    return context


def _trust(context: ssl.SSLContext, path: str) -> None:
    if os.path.isdir(path):
        context.load_verify_locations(capath=path)
        return
    _read_pem("ssl_cafile", path, "certificate")
    try:
        context.load_verify_locations(cafile=path)
    except ssl.SSLError as error:
        raise ConfigError(f"ssl_cafile={path!r}: a certificate in it cannot be read: {reason_of(error)}") from None


def _own_certificate(context: ssl.SSLContext, s: Settings, certfile: str) -> None:
    _read_pem("ssl_certfile", certfile, "certificate")
    holder, keyfile = ("ssl_keyfile", s.ssl_keyfile) if s.ssl_keyfile is not None else ("ssl_certfile", certfile)
    _read_pem(holder, keyfile, "private key")
    asked = False

    def password() -> str:
        # Without a function to ask, OpenSSL would ask whoever sits at the terminal.
        nonlocal asked
        asked = True
        return s.ssl_password.reveal() if s.ssl_password is not None else ""

    try:
        context.load_cert_chain(certfile, keyfile, password)
    except (ssl.SSLError, ValueError) as error:
        raise ConfigError(_why_no_chain(s, error, holder, keyfile, asked=asked)) from None


def _why_no_chain(s: Settings, error: Exception, holder: str, keyfile: str, *, asked: bool) -> str:
    if "KEY_VALUES_MISMATCH" in str(error):
        return f"{holder}={keyfile!r}: the private key is not that of the certificate in ssl_certfile={s.ssl_certfile!r}"
    if asked and s.ssl_password is None:
        return f"{holder}={keyfile!r}: the private key is encrypted: set ssl_password"
    if asked:
        return f"{holder}={keyfile!r}: the private key cannot be decrypted with ssl_password"
    return f"ssl_certfile={s.ssl_certfile!r}, {holder}={keyfile!r}: they cannot be read: {reason_of(error)}"


def _read_pem(name: str, path: str, what: str) -> None:
    """Refuse a file that cannot be read, or has nothing of that kind in PEM form in it."""
    try:
        with open(path, "rb") as file:
            content = file.read()
    except OSError as error:
        raise ConfigError(f"{name}={path!r}: {error.strerror or error}") from None
    if f"{what.upper()}-----".encode() not in content:
        hint = next((f": {words}" for start, words in NO_PEM if content.startswith(start)), "")
        raise ConfigError(f"{name}={path!r}: there is no {what} in PEM form in it{hint}")


def explain(error: ssl.SSLError, s: Settings, host: str, opening: bytes, *, established: bool) -> ConnectError | None:
    """What a TLS error means, None if it says nothing of the settings. `opening`: the first bytes that the peer sent. `established`: the
    handshake was over, which in TLS 1.3 it is for a client before the broker has looked at its certificate."""
    if established and not (error.reason or "").endswith(CERTIFICATE_REFUSED):
        return None
    if isinstance(error, ssl.SSLCertVerificationError):
        return ConnectError(_unverified(error, s, host), kind=AuthenticationFailed)
    alert = error.reason or ""
    if "_ALERT_" in alert or alert.startswith("TLSV1_UNRECOGNIZED"):
        return _alerted(alert, s)
    found = recognise(opening)
    if found is not None and found != "TLS":
        return ConnectError(f"{found} answers there, not a Kafka broker: {WRONG_PORT}")
    if alert.endswith(NO_COMMON_VERSION):
        return ConnectError(f"the broker and this client have no TLS version or cipher in common: {reason_of(error)} (ssl_context)")
    if not opening.startswith((b"\x15\x03", b"\x16\x03")):
        return ConnectError(f"what answers there speaks no TLS: security_protocol={s.security_protocol.value}, or {WRONG_PORT}")
    return ConnectError(f"the TLS handshake failed: {reason_of(error)}", kind=AuthenticationFailed)


def _unverified(error: ssl.SSLCertVerificationError, s: Settings, host: str) -> str:
    code, words = error.verify_code, error.verify_message.rstrip(".")
    if code in NOT_THE_HOST:
        return (
            f"the broker's certificate is not one for {host!r} ({words}): use a name that it has in bootstrap_servers and in the broker's "
            "advertised.listeners; or accept any with ssl_check_hostname=False (ssl.endpoint.identification.algorithm=none)"
        )
    if code in (EXPIRED, NOT_YET_VALID):
        return f"the broker's certificate is out of its time ({words}): the broker needs another (its ssl.keystore.*), or a clock is wrong"
    if s.ssl_cafile is not None:
        trusted = f"the certificates in ssl_cafile={s.ssl_cafile!r} (ssl.ca.location)"
    else:
        trusted = "the system's: set ssl_cafile (ssl.ca.location) to the CA's certificate"
    return f"the broker's certificate is not signed by a CA that is trusted ({words}); trusted are {trusted}"


def _alerted(alert: str, s: Settings) -> ConnectError:
    """The peer said why it ends the handshake."""
    words = alert.partition("_ALERT_")[2].replace("_", " ").lower() or alert.lower()
    if s.ssl_certfile is None and alert.endswith(CERTIFICATE_WANTED):
        reason = f"the broker wants a client certificate ({words}): set ssl_certfile and ssl_keyfile"
    elif s.ssl_certfile is not None and alert.endswith(CERTIFICATE_REFUSED):
        reason = f"the broker does not accept the client certificate in ssl_certfile={s.ssl_certfile!r} ({words})"
    elif alert.endswith(NO_COMMON_VERSION):
        return ConnectError(f"the broker and this client have no TLS version or cipher in common ({words}) (ssl_context)")
    else:
        reason = f"the broker ended the TLS handshake: {words}"
    return ConnectError(reason, kind=AuthenticationFailed)


def reason_of(error: Exception) -> str:
    """OpenSSL's words without its file names and line numbers."""
    if isinstance(error, ssl.SSLError) and error.reason:
        return error.reason.replace("_", " ").lower()
    return str(error)
