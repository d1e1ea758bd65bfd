"""What a failed TLS handshake means, in the words of the settings. The handshake itself is `producer.wire.tls`."""

from __future__ import annotations

import ssl
from typing import Final

from fencepost.producer.config.settings import Settings
from fencepost.producer.config.tls_context import reason_of
from fencepost.producer.errors import AuthenticationFailed
from fencepost.producer.network.connect_error import ConnectError
from fencepost.producer.network.protocol_probe import WRONG_PORT, recognise

EXPIRED, NOT_YET_VALID = 10, 9
NOT_THE_HOST = (62, 63, 64)
"""Verification results of OpenSSL (X509_V_ERR_*)."""

CERTIFICATE_WANTED: Final = ("CERTIFICATE_REQUIRED", "BAD_CERTIFICATE", "HANDSHAKE_FAILURE", "CERTIFICATE_UNKNOWN")
"""Endings of the alerts that a broker sends if a required client certificate is missing. TLS 1.3 has an alert for it, JSSE reports a bad
certificate, and TLS 1.2 reports a handshake failure."""

CERTIFICATE_REFUSED: Final = (*CERTIFICATE_WANTED, "UNKNOWN_CA", "CERTIFICATE_EXPIRED", "CERTIFICATE_REVOKED", "UNSUPPORTED_CERTIFICATE")
NO_COMMON_VERSION: Final = ("PROTOCOL_VERSION", "UNSUPPORTED_PROTOCOL", "NO_SHARED_CIPHER", "INSUFFICIENT_SECURITY")


def explain(error: ssl.SSLError, s: Settings, host: str, opening: bytes, *, established: bool) -> ConnectError | None:
    """What a TLS error means, None if no setting is the cause. `opening`: the first bytes that the peer sent. `established`: the handshake
    was over. In TLS 1.3 a client's handshake is over before the broker has checked the client's certificate."""
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
        return ConnectError(
            f"the peer speaks no TLS, but security_protocol={s.security_protocol.value}: use SASL_PLAINTEXT or PLAINTEXT, or {WRONG_PORT}"
        )
    return ConnectError(f"the TLS handshake failed: {reason_of(error)}", kind=AuthenticationFailed)


def _unverified(error: ssl.SSLCertVerificationError, s: Settings, host: str) -> str:
    code, words = error.verify_code, error.verify_message.rstrip(".")
    if code in NOT_THE_HOST:
        return (
            f"the broker's certificate is not for {host!r} ({words}): use one of its names in bootstrap_servers and in the broker's "
            "advertised.listeners; or accept any name with ssl_check_hostname=False (ssl.endpoint.identification.algorithm=none)"
        )
    if code in (EXPIRED, NOT_YET_VALID):
        return f"the broker's certificate is not valid now ({words}): renew it at the broker (ssl.keystore.*), or correct the clock"
    if s.ssl_cafile is not None:
        trusted = f"the certificates in ssl_cafile={s.ssl_cafile!r} (ssl.ca.location)"
    else:
        trusted = "the system's: set ssl_cafile (ssl.ca.location) to the CA's certificate"
    return f"the broker's certificate is not signed by a trusted CA ({words}); trusted are {trusted}"


def _alerted(alert: str, s: Settings) -> ConnectError:
    """The error for a TLS alert with which the peer ended the handshake."""
    words = alert.partition("_ALERT_")[2].replace("_", " ").lower() or alert.lower()
    if s.ssl_certfile is None and alert.endswith(CERTIFICATE_WANTED):
        reason = f"the broker requires a client certificate ({words}): set ssl_certfile and ssl_keyfile"
    elif s.ssl_certfile is not None and alert.endswith(CERTIFICATE_REFUSED):
        reason = f"the broker does not accept the client certificate in ssl_certfile={s.ssl_certfile!r} ({words})"
    elif alert.endswith(NO_COMMON_VERSION):
        return ConnectError(f"the broker and this client have no TLS version or cipher in common ({words}) (ssl_context)")
    else:
        reason = f"the broker ended the TLS handshake: {words}"
    return ConnectError(reason, kind=AuthenticationFailed)
