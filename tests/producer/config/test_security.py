"""The settings of TLS and SASL: every name they are known by, every refusal with its reason, and no password where one could read it."""

from __future__ import annotations

import contextlib
import copy
import logging
import pickle
import ssl
import traceback
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trustme

from fencepost.producer import Producer, SaslMechanism, SecurityProtocol
from fencepost.producer.config.secret import HIDDEN, Secret
from tests.certificates import Authority, Certificate, authority
from tests.producer.config.reading import read, refusal

__all__ = ["authority"]

PLAIN: dict[str, Any] = {"security_protocol": "SASL_SSL", "sasl_mechanism": "PLAIN", "sasl_username": "alice", "sasl_password": "hush-hush"}
TLS: dict[str, Any] = {"security_protocol": "SSL"}
PASSWORD = "hush-hush"


@pytest.fixture(scope="module")
def certificate(authority: Authority) -> Certificate:
    return authority.issue("alice")


def token() -> str:
    return "abc"


class TokenProvider:
    """As kafka-python and aiokafka have it."""

    def token(self) -> str:
        return "abc"


@pytest.mark.parametrize(
    ("key", "value", "name", "read_as"),
    [
        ("security.protocol", "sasl_ssl", "security_protocol", SecurityProtocol.SASL_SSL),
        ("sasl.mechanism", "scram-sha-256", "sasl_mechanism", SaslMechanism.SCRAM_SHA_256),
        ("sasl.mechanisms", "SCRAM-SHA-512", "sasl_mechanism", SaslMechanism.SCRAM_SHA_512),
        ("sasl.username", "bob", "sasl_username", "bob"),
        ("sasl.password", "b's", "sasl_password", Secret("b's")),
        ("sasl_plain_username", "bob", "sasl_username", "bob"),
        ("sasl_plain_password", "b's", "sasl_password", Secret("b's")),
        ("ssl.endpoint.identification.algorithm", "none", "ssl_check_hostname", False),
        ("ssl.endpoint.identification.algorithm", "", "ssl_check_hostname", False),
        ("ssl.endpoint.identification.algorithm", "https", "ssl_check_hostname", True),
        ("ssl_check_hostname", False, "ssl_check_hostname", False),
        ("ssl_check_hostname", "true", "ssl_check_hostname", True),
    ],
)
def test_names_that_people_know(key: str, value: object, name: str, read_as: object) -> None:
    """Java's, librdkafka's and the other Python clients' names give the same setting."""
    given = {**PLAIN, key: value}
    if key != name:
        given.pop(name, None)
    assert getattr(read(**given), name) == read_as


def test_paths_by_every_name(authority: Authority, certificate: Certificate) -> None:
    """Files are strings or paths, under librdkafka's names and under Java's."""
    for ca, cert in (("ssl.ca.location", "ssl.certificate.location"), ("ssl.truststore.location", "ssl.keystore.location")):
        settings = read(**{**TLS, ca: Path(authority.cafile), cert: certificate.both})
        assert (settings.ssl_cafile, settings.ssl_certfile) == (authority.cafile, certificate.both)
    pair = {"ssl_certfile": certificate.certfile, "ssl.key.location": certificate.keyfile}
    assert read(**{**TLS, "ssl.ca.location": authority.cafile, **pair}).ssl_keyfile == certificate.keyfile
    directory = read(**{**TLS, "ssl_cafile": str(Path(authority.cafile).parent)})
    assert directory.ssl_context is not None


@pytest.mark.parametrize("key", ["sasl_oauth_token_provider", "sasl.oauth.token.provider", "oauth_cb"])
@pytest.mark.parametrize("provider", [token, TokenProvider()], ids=["a function", "an object"])
def test_token_providers_by_every_name(key: str, provider: Any) -> None:
    """A callable, or an object with a method token."""
    settings = read(**{"security_protocol": "SASL_SSL", "sasl_mechanism": "OAUTHBEARER", key: provider})
    assert settings.sasl_oauth_token_provider is not None
    assert settings.sasl_oauth_token_provider.reveal()() == "abc"


OAUTH: dict[str, Any] = {"security_protocol": "SASL_SSL", "sasl_mechanism": "OAUTHBEARER", "sasl_oauth_token_provider": token}


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"security_protocol": "TLS"}, ["security_protocol='TLS'", "PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL"]),
        (
            {**PLAIN, "sasl_mechanism": "GSSAPI"},
            ["sasl_mechanism='GSSAPI': Kerberos is not supported; the SASL mechanisms are PLAIN, SCRAM-SHA"],
        ),
        ({**PLAIN, "sasl_mechanism": "aws_msk_iam"}, ["sasl_mechanism='aws_msk_iam': use OAUTHBEARER", "'sasl_oauth_token_provider'"]),
        ({"sasl_mechanism": "PLAIN"}, ["sasl_mechanism is set", "security_protocol=PLAINTEXT", "SASL_SSL, or SASL_PLAINTEXT"]),
        ({**PLAIN, "security_protocol": "SSL"}, ["sasl_mechanism is set", "security_protocol=SSL", "set it to SASL_SSL"]),
        ({"ssl_cafile": "ca.pem"}, ["ssl_cafile is set", "security_protocol=PLAINTEXT", "SSL"]),
        ({**PLAIN, "security_protocol": "SASL_PLAINTEXT", "ssl_check_hostname": False}, ["ssl_check_hostname is set", "SASL_SSL"]),
        ({"security_protocol": "SASL_SSL"}, ["security_protocol=SASL_SSL", "needs sasl_mechanism", "OAUTHBEARER"]),
        ({**PLAIN, "sasl_password": None}, ["sasl_mechanism=PLAIN", "needs sasl_password"]),
        ({**PLAIN, "sasl_username": None, "sasl_mechanism": "SCRAM-SHA-256"}, ["sasl_mechanism=SCRAM-SHA-256", "needs sasl_username"]),
        ({**OAUTH, "sasl_oauth_token_provider": None}, ["sasl_mechanism=OAUTHBEARER", "needs sasl_oauth_token_provider"]),
        ({**PLAIN, "sasl_oauth_token_provider": token}, ["sasl_oauth_token_provider", "does not use", "sasl_mechanism=PLAIN"]),
        ({**OAUTH, "sasl_password": "x"}, ["sasl_password", "does not use", "sasl_mechanism=OAUTHBEARER", "sasl_oauth_token_provider"]),
        ({**PLAIN, "sasl_username": ""}, ["sasl_username is empty"]),
        ({**PLAIN, "sasl_password": ""}, ["sasl_password is empty"]),
        ({**PLAIN, "sasl_username": "a\0b"}, ["sasl_username contains a NUL"]),
        ({**PLAIN, "sasl_password": "a\0b"}, ["sasl_password contains a NUL"]),
        ({**PLAIN, "sasl_password": b"hush-hush"}, ["sasl_password must be a str", "bytes"]),
        ({**OAUTH, "sasl_oauth_token_provider": "abc"}, ["sasl_oauth_token_provider must be callable", "token()", "str"]),
        ({**TLS, "ssl_context": "yes"}, ["ssl_context must be an ssl.SSLContext", "str"]),
        ({**TLS, "ssl_check_hostname": "maybe"}, ["ssl_check_hostname='maybe'", "https"]),
        ({**TLS, "ssl_check_hostname": None}, ["ssl_check_hostname=None", "leave it out for the default, True"]),
        ({**TLS, "ssl.endpoint.identification.algorithm": None}, ["ssl.endpoint.identification.algorithm=None", "leave it out"]),
        ({**TLS, "ssl_endpoint_identification_algorithm": None}, ["ssl_endpoint_identification_algorithm=None", "leave it out"]),
        ({**TLS, "ssl_check_hostname": 0.0}, ["ssl_check_hostname=0.0"]),
        ({**PLAIN, "sasl_username": "a\ud800"}, ["sasl_username cannot be encoded as UTF-8"]),
        ({**TLS, "ssl_cafile": ""}, ["ssl_cafile=''", "not empty"]),
        ({**TLS, "ssl_cafile": 5}, ["ssl_cafile=5", "a path"]),
        ({**TLS, "ssl_keyfile": "x"}, ["ssl_keyfile", "without ssl_certfile"]),
        ({**TLS, "ssl_password": "x"}, ["ssl_password", "without ssl_certfile"]),
        ({**TLS, "ssl_cafile": "/no/such/file"}, ["ssl_cafile='/no/such/file'", "No such file"]),
        ({**TLS, "ssl_certfile": "/no/such/file"}, ["ssl_certfile='/no/such/file'", "No such file"]),
    ],
    ids=lambda value: None if isinstance(value, list) else "+".join(value),
)
def test_what_contradicts_itself_is_refused_with_its_reason(given: dict[str, Any], words: list[str]) -> None:
    """When the producer is made, with the setting, what is wrong with it, and no password."""
    said = refusal(given)
    assert [word for word in words if word not in said] == [], said
    assert PASSWORD not in said


def test_a_context_that_is_given_is_used_as_it_is(authority: Authority) -> None:
    """A ready context goes untouched; one beside which other settings would be ignored, or that is for servers, is refused."""
    context = ssl.create_default_context(cafile=authority.cafile)
    assert read(**{**TLS, "ssl_context": context}).ssl_context is context
    assert read(**{**TLS, "ssl.context": context}).ssl_context is context
    said = refusal({**TLS, "ssl_context": context, "ssl_cafile": authority.cafile})
    assert "ssl_cafile would be ignored beside ssl_context" in said
    assert "ssl_context cannot be used for a client" in refusal({**TLS, "ssl_context": ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)})


def test_the_context_is_a_careful_one(authority: Authority) -> None:
    """By default the producer checks certificates and host names, and refuses TLS below 1.2."""
    context = read(**{**TLS, "ssl_cafile": authority.cafile}).ssl_context
    assert context is not None
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert context.check_hostname
    assert context.minimum_version >= ssl.TLSVersion.TLSv1_2
    lax = read(**{**TLS, "ssl_cafile": authority.cafile, "ssl_check_hostname": False}).ssl_context
    assert lax is not None
    assert (lax.verify_mode, lax.check_hostname) == (ssl.CERT_REQUIRED, False)


@pytest.mark.parametrize("named", [{}, {"ssl_cafile": None}], ids=["left out", "None"])
def test_without_a_file_the_systems_certificates_are_trusted(named: dict[str, Any]) -> None:
    """The same ones as in Python's own default context."""
    context = read(**TLS, **named).ssl_context
    assert context is not None
    assert context.cert_store_stats() == ssl.create_default_context().cert_store_stats()


def test_a_certificate_in_the_file_is_trusted_without_its_root(tmp_path: Path) -> None:
    """As in Java's truststores: an intermediate authority is enough."""
    root = trustme.CA()
    between = root.create_child_ca()
    server = between.issue_cert("localhost")
    trusted = tmp_path / "between.pem"
    between.cert_pem.write_to_path(trusted)
    ours = read(**TLS, ssl_cafile=str(trusted)).ssl_context
    assert ours is not None
    theirs = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.configure_cert(theirs)
    client_in, client_out, server_in, server_out = (ssl.MemoryBIO() for _ in range(4))
    client = ours.wrap_bio(client_in, client_out, server_hostname="localhost")
    serving = theirs.wrap_bio(server_in, server_out, server_side=True)
    for _ in range(4):
        for side in (client, serving):
            with contextlib.suppress(ssl.SSLWantReadError):
                side.do_handshake()
            server_in.write(client_out.read())
            client_in.write(server_out.read())
    assert client.version() is not None


def test_files_that_are_not_what_they_should_be(tmp_path: Path, authority: Authority, certificate: Certificate) -> None:
    """Each is named with its setting: no certificate, a Java keystore, another one's key, an encrypted key without or with a wrong
    password. OpenSSL never asks the terminal."""
    junk, keystore, binary = tmp_path / "junk.pem", tmp_path / "store.jks", tmp_path / "store.p12"
    junk.write_text("nothing of interest")
    keystore.write_bytes(b"\xfe\xed\xfe\xed\0\0\0\2")
    binary.write_bytes(b"0\x82\x0a\x00")
    broken = tmp_path / "broken.pem"
    broken.write_text("-----BEGIN CERTIFICATE-----\nabc\n-----END CERTIFICATE-----\n")
    assert "the file contains no certificate in PEM form" in refusal({**TLS, "ssl_cafile": str(junk)})
    assert "Java keystore" in refusal({**TLS, "ssl_cafile": str(keystore)})
    assert "PKCS#12" in refusal({**TLS, "ssl_certfile": str(binary)})
    assert f"ssl_cafile={str(broken)!r}: a certificate in the file cannot be read" in refusal({**TLS, "ssl_cafile": str(broken)})
    assert "the file contains no private key in PEM form" in refusal({**TLS, "ssl_certfile": certificate.certfile})
    assert "ssl_keyfile" in refusal({**TLS, "ssl_certfile": certificate.certfile, "ssl_keyfile": str(junk)})
    other = authority.issue("bob")
    said = refusal({**TLS, "ssl_certfile": certificate.certfile, "ssl_keyfile": other.keyfile})
    assert f"ssl_keyfile={other.keyfile!r}: the private key does not belong to the certificate" in said
    locked = authority.issue("carol", password=PASSWORD)
    pair = {**TLS, "ssl_certfile": locked.certfile, "ssl_keyfile": locked.keyfile}
    assert "is encrypted: set ssl_password" in refusal(pair)
    said = refusal({**pair, "ssl_password": "wrong-one"})
    assert "cannot be decrypted with ssl_password" in said
    assert "wrong-one" not in said
    assert read(**{**pair, "ssl_password": PASSWORD}).ssl_context is not None


def test_a_file_that_may_not_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, authority: Authority) -> None:
    """A file without permission is named like one that is not there."""
    import builtins

    honest = builtins.open

    def refuse(path: Any, *args: Any, **options: Any) -> Any:
        if str(path) == authority.cafile:
            raise PermissionError(13, "Permission denied")
        return honest(path, *args, **options)

    monkeypatch.setattr(builtins, "open", refuse)
    assert refusal({**TLS, "ssl_cafile": authority.cafile}) == f"ssl_cafile={authority.cafile!r}: Permission denied"


def test_a_password_is_never_shown(authority: Authority, caplog: pytest.LogCaptureFixture) -> None:
    """A password is neither in the repr or str of the settings and of their copies, nor in what is logged while a producer lives."""
    caplog.set_level(logging.DEBUG)
    given = {**PLAIN, "ssl_cafile": authority.cafile}
    settings = read(**given)
    copies = [settings, copy.copy(settings), msgspec.structs.replace(settings, client_id="x")]
    shown = [f"{each} {each!r} {msgspec.structs.asdict(each)} {msgspec.structs.astuple(each)}" for each in copies]
    assert all(PASSWORD not in text and HIDDEN in text for text in shown)
    assert f"{Secret(PASSWORD)!s:>20} {Secret(PASSWORD)!r}".split() == [HIDDEN, HIDDEN]
    with Producer(bootstrap_servers="127.0.0.1:1", reconnect_backoff_ms=1, **given) as producer:
        kept = [getattr(producer, name) for name in dir(producer) if not callable(getattr(producer, name))]
        assert len(kept) > 5
        assert PASSWORD not in repr(kept)
        with pytest.raises(TimeoutError) as late:
            producer.partitions_for("t", timeout=0.2)
    assert PASSWORD not in "".join(traceback.format_exception(late.value))
    assert PASSWORD not in caplog.text


def test_what_gives_out_tokens_is_not_shown_either() -> None:
    """A partial shows its arguments, and librdkafka's configuration text may have a client's secret: neither is in the settings' repr."""
    settings = read(**{**OAUTH, "sasl_oauth_token_provider": partial(fetch, PASSWORD), "sasl.oauthbearer.config": PASSWORD})
    assert settings.sasl_oauth_token_provider is not None
    assert settings.sasl_oauth_token_provider.reveal()() == PASSWORD
    assert PASSWORD not in f"{settings!r} {msgspec.structs.asdict(settings)}"


def fetch(secret: str) -> str:
    return secret


def test_a_password_does_not_leave_the_process() -> None:
    """Pickling a secret, or settings with one, is refused, and so is JSON; a copy in memory is the secret itself."""
    secret = Secret(PASSWORD)
    for attempt in (secret, [secret], read(**{**PLAIN, "security_protocol": "SASL_PLAINTEXT"})):
        with pytest.raises(TypeError, match="cannot be pickled") as refused:
            pickle.dumps(attempt)
        assert PASSWORD not in str(refused.value)
    with pytest.raises(TypeError):
        msgspec.json.encode(secret)
    assert copy.deepcopy(secret) is secret
    assert copy.copy(secret) == Secret(PASSWORD) != Secret("another")
    assert hash(secret) == hash(Secret(PASSWORD))
    assert secret.reveal() == PASSWORD
