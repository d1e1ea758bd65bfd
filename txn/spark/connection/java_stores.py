"""Java's truststores and keystores, as the producer's TLS settings.

A PEM file stays a file. PKCS#12, and PEM in an option, become an SSLContext. For that a private key lies encrypted in a file that only this
user can read, while OpenSSL reads it. The first bytes of a store say what it is, because "JKS" files are PKCS#12 since Java 9. The old JKS
format is refused with the command to convert it. A store is opened where it is used, because a context cannot be pickled.
"""

from __future__ import annotations

import os
import secrets
import ssl
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from fencepost.producer.config.secret import Secret
from fencepost.producer.config.security import read_check_hostname
from fencepost.producer.config.settings import Settings
from fencepost.producer.config.tls_context import client_context
from fencepost.producer.errors import ConfigError

TRUST_LOCATION: Final = "ssl.truststore.location"
TRUST_PASSWORD: Final = "ssl.truststore.password"
TRUST_TYPE: Final = "ssl.truststore.type"
TRUST_PEM: Final = "ssl.truststore.certificates"
KEY_LOCATION: Final = "ssl.keystore.location"
STORE_PASSWORD: Final = "ssl.keystore.password"
STORE_TYPE: Final = "ssl.keystore.type"
CHAIN_PEM: Final = "ssl.keystore.certificate.chain"
KEY_PEM: Final = "ssl.keystore.key"
KEY_PASSWORD: Final = "ssl.key.password"
VERIFY: Final = "ssl.endpoint.identification.algorithm"

STORE_NAMES: Final = frozenset(
    {TRUST_LOCATION, TRUST_PASSWORD, TRUST_TYPE, TRUST_PEM, KEY_LOCATION, STORE_PASSWORD, STORE_TYPE, CHAIN_PEM, KEY_PEM}
)
"""The options that are read here; KEY_PASSWORD and VERIFY are also the producer's."""

TYPES: Final = ("PEM", "PKCS12", "JKS")
FILES: Final = ("ssl_cafile", "ssl_certfile", "ssl_keyfile")
MAGIC: Final[dict[bytes, str]] = {
    b"\xfe\xed\xfe\xed": "JKS",
    b"\xce\xce\xce\xce": "JCEKS",
    **{bytes((0x30, length)): "PKCS12" for length in (0x80, 0x82, 0x83, 0x84)},
}
"""The first bytes of a store. PKCS#12 is a sequence, with a length of several bytes or without one."""


class Material(Struct, kw_only=True):
    """PEM, or names of PEM files."""

    cafile: str | None = None
    certfile: str | None = None
    authorities: bytes | None = None
    chain: bytes | None = None
    key: bytes | None = None
    password: str | None = None


def find_file(path: str) -> str:
    """The file, or the one of that name that Spark copied here (`sc.addFile`, `--files`). The path is unchanged if neither exists."""
    if os.path.exists(path):
        return path
    from pyspark import SparkFiles

    try:
        brought = SparkFiles.get(os.path.basename(path))
    except (AssertionError, AttributeError):  # Without Spark in this process there are no copied files.
        return path
    return brought if os.path.exists(brought) else path


def read_stores(given: Mapping[str, str]) -> dict[str, Any]:
    """A producer's settings from Java's, by their Java names. Raises ConfigError, which shows no password."""
    material = Material(password=given.get(KEY_PASSWORD))
    _read_trust(given, material)
    _read_key(given, material)
    if material.authorities is None and material.chain is None:
        named = {
            "ssl_cafile": material.cafile,
            "ssl_certfile": material.certfile,
            "ssl_password": material.password,
            "ssl_check_hostname": given.get(VERIFY),
        }
        return {name: value for name, value in named.items() if value is not None}
    return {"ssl_context": _context(material, verify=read_check_hostname(f"kafka.{VERIFY}", given.get(VERIFY, "https")))}


def _read_trust(given: Mapping[str, str], material: Material) -> None:
    location, pem = given.get(TRUST_LOCATION), given.get(TRUST_PEM)
    _check_type(given, TRUST_TYPE)
    if pem is not None:
        if location is not None:
            raise ConfigError(f"kafka.{TRUST_PEM} and kafka.{TRUST_LOCATION} are both set: one of them")
        material.authorities = _pem(TRUST_PEM, pem, "CERTIFICATE")
    elif location is not None:
        path, kind, content = _open(TRUST_LOCATION, location)
        if kind == "PEM":
            material.cafile = path
        else:
            _, chain = _pkcs12(TRUST_LOCATION, location, content, given.get(TRUST_PASSWORD))
            if not chain:
                raise ConfigError(f"kafka.{TRUST_LOCATION}={location!r}: there is no certificate in it")
            material.authorities = chain


def _read_key(given: Mapping[str, str], material: Material) -> None:
    location, chain, key = given.get(KEY_LOCATION), given.get(CHAIN_PEM), given.get(KEY_PEM)
    _check_type(given, STORE_TYPE)
    if (chain is None) != (key is None):
        there, missing = (CHAIN_PEM, KEY_PEM) if key is None else (KEY_PEM, CHAIN_PEM)
        raise ConfigError(f"kafka.{there} is set without kafka.{missing}: a key and its certificate belong together")
    if chain is not None and key is not None:
        if location is not None:
            raise ConfigError(f"kafka.{CHAIN_PEM} and kafka.{KEY_LOCATION} are both set: one of them")
        material.chain, material.key = _pem(CHAIN_PEM, chain, "CERTIFICATE"), _pem(KEY_PEM, key, "PRIVATE KEY")
    elif location is not None:
        path, kind, content = _open(KEY_LOCATION, location)
        if kind == "PEM":
            material.certfile = path
            return
        password = given.get(STORE_PASSWORD) or given.get(KEY_PASSWORD)
        material.password = secrets.token_urlsafe()
        material.key, material.chain = _pkcs12(KEY_LOCATION, location, content, password, key_password=material.password)
        if not material.key:
            raise ConfigError(f"kafka.{KEY_LOCATION}={location!r}: there is no private key in it")


def _check_type(given: Mapping[str, str], name: str) -> None:
    if name in given and given[name].upper() not in TYPES:
        raise ConfigError(f"kafka.{name}={given[name]!r}: the types are {', '.join(TYPES)}")


def _open(name: str, location: str) -> tuple[str, str, bytes]:
    """The store's path, its format and its bytes."""
    path = find_file(location)
    try:
        content = Path(path).read_bytes() if not os.path.isdir(path) else b""
    except OSError as error:
        raise ConfigError(
            f"kafka.{name}={location!r}: {error.strerror or error}; every executor has to have it: `spark.sparkContext.addFile`, or "
            "`spark-submit --files`, brings it there, and its name is then enough"
        ) from None
    kind = next((kind for magic, kind in MAGIC.items() if content.startswith(magic)), "PEM")
    if kind in ("JKS", "JCEKS"):
        raise ConfigError(
            f"kafka.{name}={location!r}: it is a {kind} store, which only Java reads; convert it with `keytool -importkeystore "
            f"-srckeystore {os.path.basename(location)} -destkeystore store.p12 -deststoretype PKCS12`, and name store.p12 instead"
        )
    return path, kind, content


def _pkcs12(name: str, location: str, content: bytes, password: str | None, *, key_password: str = "") -> tuple[bytes, bytes]:
    """The private key, if any, encrypted under `key_password`, and the certificates, the key's own first."""
    try:
        from cryptography.hazmat.primitives import serialization as s
        from cryptography.hazmat.primitives.serialization import pkcs12
    except ImportError:
        raise ConfigError(
            f"kafka.{name}={location!r}: it is a PKCS#12 store, for which the package cryptography is needed: pip install cryptography; or "
            f"write it as PEM, with `openssl pkcs12 -in {os.path.basename(location)} -out store.pem`, and set the type to PEM"
        ) from None
    try:
        store = pkcs12.load_pkcs12(content, password.encode() if password is not None else None)
    except ValueError:
        setting = TRUST_PASSWORD if name == TRUST_LOCATION else STORE_PASSWORD
        why = f"kafka.{setting} is not its password" if password is not None else f"kafka.{setting} is not set"
        raise ConfigError(f"kafka.{name}={location!r}: this PKCS#12 store cannot be read: {why}, or it is damaged") from None
    certificates = [each.certificate for each in (store.cert, *store.additional_certs) if each is not None]
    chain = b"".join(each.public_bytes(s.Encoding.PEM) for each in certificates)
    if store.key is None or not key_password:
        return b"", chain
    locked = s.BestAvailableEncryption(key_password.encode())
    return store.key.private_bytes(s.Encoding.PEM, s.PrivateFormat.PKCS8, locked), chain


def _pem(name: str, text: str, what: str) -> bytes:
    """The PEM of an option, in which line ends may be written as backslash-n."""
    text = text.replace("\\n", "\n")
    if f"{what}-----" not in text:
        raise ConfigError(f"kafka.{name}: it contains no {what.lower()} in PEM form; name a file with kafka.*.location")
    return text.encode()


def _context(material: Material, *, verify: bool) -> ssl.SSLContext:
    """Pass PEM in memory to OpenSSL through files that only this user can read, and delete them afterwards."""
    with tempfile.TemporaryDirectory(prefix="fencepost-tls-") as directory:
        place = Path(directory)
        cafile, certfile, keyfile = material.cafile, material.certfile, None
        if material.authorities is not None:
            cafile = _write(place / "authorities.pem", material.authorities)
        if material.chain is not None:
            certfile = _write(place / "chain.pem", material.chain)
            keyfile = _write(place / "key.pem", material.key or b"")
        settings = Settings(
            bootstrap_servers=(),
            ssl_cafile=cafile,
            ssl_certfile=certfile,
            ssl_keyfile=keyfile,
            ssl_password=Secret(material.password) if material.password is not None else None,
            ssl_check_hostname=verify,
        )
        try:
            return client_context(settings)
        except ConfigError as error:
            raise ConfigError(_in_java_s_words(str(error), settings)) from None


def _in_java_s_words(text: str, s: Settings) -> str:
    """An error of `producer.config.tls_context`, if it names a temporary file instead of the user's."""
    of_files = {f"ssl_keyfile={s.ssl_keyfile!r}": f"kafka.{KEY_PEM}", f"ssl_certfile={s.ssl_certfile!r}": f"kafka.{CHAIN_PEM}"}
    for ours, java in {**of_files, f"ssl_cafile={s.ssl_cafile!r}": f"kafka.{TRUST_PEM}", "ssl_password": f"kafka.{KEY_PASSWORD}"}.items():
        text = text.replace(ours, java)
    return text


def _write(path: Path, content: bytes) -> str:
    path.touch(0o600)
    path.write_bytes(content)
    return str(path)
