"""Who a connection belongs to, in the words in which Kafka's ACLs and logs name it: `User:alice`.

Without SASL and without a client certificate it is `User:ANONYMOUS`; with a certificate it is the distinguished name, as Java writes it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

ANONYMOUS: Final = "User:ANONYMOUS"
LOCALHOST: Final = "127.0.0.1"  # where a client is that nobody asked

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
"""The attributes that RFC 2253 has names for; others keep OpenSSL's."""


def user(name: str) -> str:
    """The principal of a user of that name."""
    return f"User:{name}"


def of_certificate(certificate: Mapping[str, Any]) -> str:
    """The principal of whoever holds that certificate, as `ssl` shows it; nobody's is ANONYMOUS."""
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
