"""Java's stores: PEM files and texts, PKCS#12 under any file name, and JKS, which is refused with the way out. Handshakes with the stub try
them."""

from __future__ import annotations

import shutil
import stat
import subprocess
import tempfile
import traceback
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, load_pem_private_key, pkcs12

from fencepost import broker_stub
from fencepost.producer import Producer
from fencepost.producer.config.tls_context import client_context
from fencepost.producer.errors import ConfigError
from fencepost.txn.spark.connection.options import read_options
from tests.certificates import Authority, Certificate

PASSWORD = "change-it"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def client(authority: Authority) -> Certificate:
    return authority.issue("client")


def store(path: Path, *, authority: Authority | None = None, client: Certificate | None = None, password: str = PASSWORD) -> str:
    """A PKCS#12 file."""
    trusted = x509.load_pem_x509_certificates(Path(authority.cafile).read_bytes()) if authority is not None else None
    key: Any = load_pem_private_key(Path(client.keyfile).read_bytes(), None) if client is not None else None
    own = x509.load_pem_x509_certificate(Path(client.certfile).read_bytes()) if client is not None else None
    path.write_bytes(pkcs12.serialize_key_and_certificates(b"client", key, own, trusted, BestAvailableEncryption(password.encode())))
    return str(path)


def settings(**given: str | None) -> dict[str, Any]:
    """Resolved; in names one underscore stands for a dot."""
    options = {f"kafka.{name.replace('_', '.')}": value for name, value in given.items()}
    return read_options({"kafka.bootstrap.servers": "b:9092", "kafka.security.protocol": "SSL", **options}).kafka.resolve()


def deliver(authority: Authority, given: dict[str, Any]) -> None:
    """A record through a stub that wants a client certificate of that authority."""
    server = authority.issue("localhost", "127.0.0.1")
    with broker_stub.BrokerStub(tls=broker_stub.Tls(server.both, client_ca=authority.cafile)) as stub:
        stub.create_topic("t", partitions=1)
        with Producer({**given, "bootstrap.servers": stub.bootstrap}) as producer:
            producer.send("t", b"x").result(30)


def test_pem_files_stay_files(authority: Authority, client: Certificate) -> None:
    """They go to the producer by their names, which its errors then have."""
    given = settings(
        ssl_truststore_type="PEM", ssl_truststore_location=authority.cafile, ssl_keystore_type="pem", ssl_keystore_location=client.both
    )
    assert (given["ssl_cafile"], given["ssl_certfile"]) == (authority.cafile, client.both)
    deliver(authority, given)


def test_pem_in_the_options(authority: Authority) -> None:
    """Certificates, and a key that is encrypted, as texts; line ends may be written out. No file is left of them."""
    locked = authority.issue("client", password=PASSWORD)
    given = settings(
        ssl_truststore_certificates=Path(authority.cafile).read_text(),
        ssl_keystore_certificate_chain=Path(locked.certfile).read_text().replace("\n", "\\n"),
        ssl_keystore_key=Path(locked.keyfile).read_text(),
        ssl_key_password=PASSWORD,
    )
    deliver(authority, given)
    with pytest.raises(ConfigError, match=r"kafka\.ssl\.keystore\.key: .* cannot be decrypted with kafka\.ssl\.key\.password") as raised:
        settings(
            ssl_keystore_certificate_chain=Path(locked.certfile).read_text(),
            ssl_keystore_key=Path(locked.keyfile).read_text(),
            ssl_key_password="wr0ng",
        )
    assert "wr0ng" not in str(raised.value)


@pytest.mark.parametrize("kind", ["PKCS12", "JKS", None])
def test_pkcs12_is_recognised_under_any_name(authority: Authority, client: Certificate, tmp_path: Path, kind: str | None) -> None:
    """Since Java 9 keytool makes PKCS#12 of what is called JKS: the first bytes decide."""
    types = {"ssl_truststore_type": kind, "ssl_keystore_type": kind} if kind is not None else {}
    given = settings(
        ssl_truststore_location=store(tmp_path / "trust.jks", authority=authority),
        ssl_truststore_password=PASSWORD,
        ssl_keystore_location=store(tmp_path / "key.jks", client=client),
        ssl_keystore_password=PASSWORD,
        **types,
    )
    deliver(authority, given)


def test_a_store_and_a_file_side_by_side(authority: Authority, client: Certificate, tmp_path: Path) -> None:
    """The truststore may be PEM where the keystore is PKCS#12; hostnames are looked at unless the option is empty."""
    key = store(tmp_path / "key.p12", client=client)
    given = {"ssl_truststore_location": authority.cafile, "ssl_keystore_location": key, "ssl_keystore_password": PASSWORD}
    context = settings(**given)["ssl_context"]
    assert context.check_hostname
    assert not settings(**given, ssl_endpoint_identification_algorithm="")["ssl_context"].check_hostname
    for on in ("HTTPS", "true"):
        assert settings(**given, ssl_endpoint_identification_algorithm=on)["ssl_context"].check_hostname
    for typo in ("httsp", "yes", None):
        with pytest.raises(ConfigError, match=rf"kafka.ssl.endpoint.identification.algorithm='?{typo}'?: it must be True or 'https'"):
            settings(**given, ssl_endpoint_identification_algorithm=typo)
    deliver(authority, {"security.protocol": "SSL", "ssl_context": context})


def test_the_key_on_disk_is_locked_and_goes_away(
    authority: Authority, client: Certificate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """OpenSSL reads keys from files only. Other users cannot read the file, it is encrypted, and it is deleted when the context is
    there."""
    seen: list[tuple[int, bytes]] = []
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    def look(s: Any) -> Any:
        seen.append((stat.S_IMODE(Path(s.ssl_keyfile).stat().st_mode), Path(s.ssl_keyfile).read_bytes()))
        return client_context(s)

    monkeypatch.setattr("fencepost.txn.spark.connection.java_stores.client_context", look)
    settings(ssl_keystore_location=store(tmp_path / "key.p12", client=client), ssl_keystore_password=PASSWORD)
    assert seen[0][0] == 0o600
    assert seen[0][1].startswith(b"-----BEGIN ENCRYPTED PRIVATE KEY-----")
    assert [each.name for each in tmp_path.iterdir()] == ["key.p12"]


def test_what_keytool_makes(authority: Authority, tmp_path: Path) -> None:
    """A truststore by Java's own tool is read; its old JKS is refused with the command that converts it."""
    keytool = shutil.which("keytool")
    if keytool is None:
        pytest.skip("there is no keytool, which comes with a whole JDK")
    common = ["-importcert", "-noprompt", "-alias", "ca", "-file", authority.cafile, "-storepass", PASSWORD]
    for kind in ("PKCS12", "JKS"):
        command = [keytool, *common, "-keystore", str(tmp_path / kind), "-storetype", kind]
        subprocess.run(command, check=True, capture_output=True, timeout=60)
    assert settings(ssl_truststore_location=str(tmp_path / "PKCS12"), ssl_truststore_password=PASSWORD)["ssl_context"].get_ca_certs()
    with pytest.raises(ConfigError, match="a JKS store, which only Java reads; convert it with `keytool -importkeystore"):
        settings(ssl_truststore_location=str(tmp_path / "JKS"), ssl_truststore_password=PASSWORD)


def test_what_cannot_be_read_is_named_and_no_password_is(authority: Authority, client: Certificate, tmp_path: Path) -> None:
    """The setting, the file, and what is wrong with it."""
    trust, key = store(tmp_path / "trust.p12", authority=authority), store(tmp_path / "key.p12", client=client)
    (tmp_path / "rubbish").write_bytes(b"0\x82rubbish")
    pem = Path(authority.cafile).read_text()
    cases: list[tuple[dict[str, str], str]] = [
        ({"ssl_truststore_location": trust, "ssl_truststore_password": "wr0ng"}, "ssl.truststore.password is not its password"),
        ({"ssl_truststore_location": trust}, "ssl.truststore.password is not set"),
        ({"ssl_keystore_location": key, "ssl_keystore_password": "wr0ng"}, "ssl.keystore.password is not its password"),
        ({"ssl_keystore_location": trust, "ssl_keystore_password": PASSWORD}, "there is no private key in it"),
        ({"ssl_truststore_location": str(tmp_path / "rubbish"), "ssl_truststore_password": "wr0ng"}, "or it is damaged"),
        ({"ssl_truststore_location": "nowhere.p12"}, "No such file or directory; every executor has to have it"),
        ({"ssl_truststore_location": trust, "ssl_truststore_type": "BKS"}, "the types are PEM, PKCS12, JKS"),
        ({"ssl_truststore_location": trust, "ssl_truststore_certificates": pem}, "are both set: one of them"),
        ({"ssl_truststore_certificates": "/etc/ca.pem"}, "it contains no certificate in PEM form"),
        ({"ssl_keystore_certificate_chain": pem}, "is set without kafka.ssl.keystore.key"),
        ({"ssl_keystore_key": "wr0ng"}, "is set without kafka.ssl.keystore.certificate.chain"),
    ]
    for given, words in cases:
        with pytest.raises(ConfigError) as raised:
            settings(**given)
        assert words in str(raised.value)
        assert "wr0ng" not in "".join(traceback.format_exception(raised.value))


def test_a_file_that_spark_brought_is_found_by_its_name(authority: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there is no such path, the file of that name among Spark's."""
    from pyspark import SparkFiles

    shutil.copy(authority.cafile, tmp_path / "ca.pem")
    monkeypatch.setattr(SparkFiles, "_is_running_on_worker", True)
    monkeypatch.setattr(SparkFiles, "_root_directory", str(tmp_path))
    assert settings(ssl_truststore_location="ca.pem")["ssl_cafile"] == str(tmp_path / "ca.pem")
    assert settings(ssl_truststore_location="/driver/only/ca.pem")["ssl_cafile"] == str(tmp_path / "ca.pem")
    assert settings(ssl_ca_location="ca.pem")["ssl.ca.location"] == str(tmp_path / "ca.pem")
    assert settings(ssl_truststore_location=authority.cafile)["ssl_cafile"] == authority.cafile
