"""The principal of a connection, as Kafka's ACLs and logs write it: `User:alice`.

Without SASL and without a client certificate it is `User:ANONYMOUS`; with a certificate it is the distinguished name, as Java writes it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

ANONYMOUS: Final = "User:ANONYMOUS"
LOCALHOST: Final = "127.0.0.1"  # the address of a client that came through no socket

_SHORT: Final = {
    "commonName": "CN",
    "organizationalUnitName": "OU",
    "organizationName": "O",
    "localityName": "L",
    "stateOrProvinceName": "ST",
    "countryName": "C",
    "streetAddress": "STREET",
    "domainComponent": "DC",
    "userId": "UID",
}
"""The attributes that have a name in RFC 2253. Others keep OpenSSL's name."""


def user(name: str) -> str:
    """The principal of a user of that name."""
    return f"User:{name}"


def of_certificate(certificate: Mapping[str, Any]) -> str:
    """The principal for a certificate, as `ssl` shows it; ANONYMOUS without a certificate."""
    subject = [pair for relative in certificate.get("subject", ()) for pair in relative]
    if not subject:
        return ANONYMOUS
    return user(",".join(f"{_SHORT.get(name, name)}={_escaped(value)}" for name, value in reversed(subject)))


def _escaped(value: str) -> str:
    """A value in a distinguished name (RFC 2253)."""
    escaped = "".join(f"\\{each}" if each in ',+"\\<>;' else each for each in value)
    if escaped.startswith(("#", " ")):
        escaped = f"\\{escaped}"
    return f"{escaped[:-1]}\\ " if escaped.endswith(" ") and len(value) > 1 else escaped
