"""TLS over memory: the bytes of one end come out at the other, for any division by the network, and each end gets the other's alerts."""

from __future__ import annotations

import random
import ssl

import pytest

from fencepost.producer.wire.tls import TlsPipe
from tests.certificates import Authority, Certificate, authority

__all__ = ["authority"]


@pytest.fixture(scope="module")
def certificate(authority: Authority) -> Certificate:
    return authority.issue("localhost")


def client(authority: Authority, host: str = "localhost") -> TlsPipe:
    return TlsPipe(ssl.create_default_context(cafile=authority.cafile), server_hostname=host)


def server(certificate: Certificate, *, client_ca: str | None = None) -> TlsPipe:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate.certfile, certificate.keyfile)
    if client_ca is not None:
        context.load_verify_locations(client_ca)
        context.verify_mode = ssl.CERT_REQUIRED
    return TlsPipe(context, server_side=True)


def carry(source: TlsPipe, target: TlsPipe, rng: random.Random | None = None) -> bytes:
    """Pass the bytes of one end to the other, in pieces of any size; return the decrypted data."""
    data, said = source.pending(), b""
    while data:
        size = rng.randint(1, 40) if rng is not None else len(data)
        said += target.receive(data[:size])
        data = data[size:]
    return said


def shake_hands(one: TlsPipe, other: TlsPipe, rng: random.Random | None = None) -> None:
    one.begin()
    for _ in range(5):
        carry(one, other, rng)
        carry(other, one, rng)
    assert one.established
    assert other.established


@pytest.mark.parametrize("seed", range(4))
def test_bytes_come_through_however_they_are_cut(authority: Authority, certificate: Certificate, seed: int) -> None:
    """Handshake and records in pieces of any size give the same bytes in the same order, in both directions."""
    rng = random.Random(seed)
    ours, theirs = client(authority), server(certificate)
    shake_hands(ours, theirs, rng)
    for source, target in ((ours, theirs), (theirs, ours)):
        sent = rng.randbytes(100_000)
        source.send(sent[:1])
        source.send(memoryview(sent)[1:70_000])
        source.send(bytearray(sent[70_000:]))
        assert carry(source, target, rng) == sent


def test_a_large_message_comes_in_one_go(authority: Authority, certificate: Certificate) -> None:
    """If megabytes arrive together, one call returns all of them."""
    ours, theirs = client(authority), server(certificate)
    shake_hands(ours, theirs)
    sent = random.Random(1).randbytes(3_000_000)
    ours.send(sent)
    assert theirs.receive(ours.pending()) == sent


def test_the_end_is_said_and_heard(authority: Authority, certificate: Certificate) -> None:
    """Data before the end is read with it. The end is not an error."""
    ours, theirs = client(authority), server(certificate)
    shake_hands(ours, theirs)
    ours.send(b"last words")
    ours.end()
    assert carry(ours, theirs) == b"last words"
    assert theirs.ended
    theirs.end()


def test_the_end_before_the_beginning() -> None:
    """A session that was never established ends without an error."""
    pipe = TlsPipe(ssl.create_default_context(), server_hostname="localhost")
    pipe.end()
    assert pipe.pending() == b""


def test_the_peer_is_told_why(authority: Authority, certificate: Certificate) -> None:
    """A client that does not trust the server, and a server without the client's certificate, each send an alert."""
    ours, theirs = client(authority, "elsewhere"), server(certificate)
    ours.begin()
    carry(ours, theirs)
    with pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
        carry(theirs, ours)
    with pytest.raises(ssl.SSLError, match="ALERT_BAD_CERTIFICATE"):
        carry(ours, theirs)

    ours, theirs = client(authority), server(certificate, client_ca=authority.cafile)
    ours.begin()
    carry(ours, theirs)
    carry(theirs, ours)
    with pytest.raises(ssl.SSLError, match="PEER_DID_NOT_RETURN_A_CERTIFICATE"):
        carry(ours, theirs)
    with pytest.raises(ssl.SSLError, match="CERTIFICATE_REQUIRED"):
        carry(theirs, ours)


def test_the_peers_certificate(authority: Authority, certificate: Certificate) -> None:
    """A verified client certificate can be read. Without one the result is empty."""
    own = authority.issue("alice", common_name="alice")
    context = ssl.create_default_context(cafile=authority.cafile)
    context.load_cert_chain(own.certfile, own.keyfile)
    ours, theirs = TlsPipe(context, server_hostname="localhost"), server(certificate, client_ca=authority.cafile)
    shake_hands(ours, theirs)
    subject = theirs.peer_certificate()["subject"]
    assert "alice" in str(subject)
    anonymous = server(certificate)
    shake_hands(client(authority), anonymous)
    assert anonymous.peer_certificate() == {}


def test_what_is_no_tls_is_refused(authority: Authority, certificate: Certificate) -> None:
    """Either end raises at once for bytes that are not TLS."""
    ours, theirs = client(authority), server(certificate)
    ours.begin()
    for pipe in (ours, theirs):
        with pytest.raises(ssl.SSLError):
            pipe.receive(b"HTTP/1.1 400 Bad Request\r\n\r\n")
