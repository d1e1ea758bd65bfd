"""The TLS context that the settings describe.

It reads the certificate files once, when a producer is made. A certificate that is renewed on disk takes effect with the next producer.
"""

from __future__ import annotations

import os
import ssl
from typing import Final

from fencepost.producer.config.settings import Settings
from fencepost.producer.errors import ConfigError

NO_PEM: Final[tuple[tuple[bytes, str], ...]] = (
    (b"\xfe\xed\xfe\xed", "it is a Java keystore (JKS); write it as PEM, with `keytool -exportcert -rfc` for certificates"),
    (b"0\x82", "it looks like PKCS#12 or DER; write it as PEM, with `openssl pkcs12` or `openssl x509 -inform der`"),
)
"""The first bytes of files that users often give instead of PEM."""


def client_context(s: Settings) -> ssl.SSLContext:
    """The context for the settings. Raises ConfigError if a file cannot be read or holds something else."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = s.ssl_check_hostname
    context.options |= ssl.OP_NO_RENEGOTIATION
    # Every certificate in ssl_cafile is trusted, root or not, as in Java's truststores.
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
        raise ConfigError(f"ssl_cafile={path!r}: a certificate in the file cannot be read: {reason_of(error)}") from None


def _own_certificate(context: ssl.SSLContext, s: Settings, certfile: str) -> None:
    _read_pem("ssl_certfile", certfile, "certificate")
    holder, keyfile = ("ssl_keyfile", s.ssl_keyfile) if s.ssl_keyfile is not None else ("ssl_certfile", certfile)
    _read_pem(holder, keyfile, "private key")
    asked = False

    def password() -> str:
        # Without this function, OpenSSL would ask for the password on the terminal.
        nonlocal asked
        asked = True
        return s.ssl_password.reveal() if s.ssl_password is not None else ""

    try:
        context.load_cert_chain(certfile, keyfile, password)
    except (ssl.SSLError, ValueError) as error:
        raise ConfigError(_why_no_chain(s, error, holder, keyfile, asked=asked)) from None


def _why_no_chain(s: Settings, error: Exception, holder: str, keyfile: str, *, asked: bool) -> str:
    if "KEY_VALUES_MISMATCH" in str(error):
        return f"{holder}={keyfile!r}: the private key does not belong to the certificate in ssl_certfile={s.ssl_certfile!r}"
    if asked and s.ssl_password is None:
        return f"{holder}={keyfile!r}: the private key is encrypted: set ssl_password"
    if asked:
        return f"{holder}={keyfile!r}: the private key cannot be decrypted with ssl_password"
    return f"ssl_certfile={s.ssl_certfile!r}, {holder}={keyfile!r}: they cannot be read: {reason_of(error)}"


def _read_pem(name: str, path: str, what: str) -> None:
    """Refuse a file that cannot be read, or that contains no such object in PEM form."""
    try:
        with open(path, "rb") as file:
            content = file.read()
    except OSError as error:
        raise ConfigError(f"{name}={path!r}: {error.strerror or error}") from None
    if f"{what.upper()}-----".encode() not in content:
        hint = next((f": {words}" for start, words in NO_PEM if content.startswith(start)), "")
        raise ConfigError(f"{name}={path!r}: the file contains no {what} in PEM form{hint}")


def reason_of(error: Exception) -> str:
    """OpenSSL's reason, without its file names and line numbers."""
    if isinstance(error, ssl.SSLError) and error.reason:
        return error.reason.replace("_", " ").lower()
    return str(error)
