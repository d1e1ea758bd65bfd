"""Frames: headers, lengths, the fallback of ApiVersions, and the splitting of streams."""

import random
import time

import pytest

from fencepost.producer.wire import (
    Api,
    ApiVersion,
    ApiVersionsResponse,
    FrameSplitter,
    FrameTooLarge,
    Malformed,
    MetadataRequest,
    ProduceRequest,
    ProduceResponse,
    RequestHeader,
    UnsupportedFieldValue,
    decode_request,
    decode_request_header,
    decode_response,
    encode,
    encode_request,
    encode_response,
)

MIB = 1 << 20


def framed(*frames: bytes) -> bytes:
    """The frames as bytes on the connection."""
    return b"".join(len(frame).to_bytes(4, "big") + frame for frame in frames)


def test_the_client_id_is_classic_in_every_header() -> None:
    """In flexible versions, too, the client id has a length of two bytes, so that old brokers can read the header (KIP-511)."""
    for client_id, expected in ((None, "ffff"), ("", "0000"), ("é", "0002 c3a9")):
        for version, tags in ((8, ""), (9, "00")):
            frame = b"".join(encode_request(MetadataRequest(), version, correlation_id=-2, client_id=client_id))[4:]
            header = bytes.fromhex(f"0003 {version:04x} fffffffe {expected} {tags}")
            assert frame == header + encode(MetadataRequest(), version)
            assert decode_request(frame) == (RequestHeader(3, version, -2, client_id), MetadataRequest())
            assert decode_request_header(frame)[1] == len(header)


def test_unknown_tags_in_headers_are_skipped() -> None:
    """A newer client or broker may put tags into either header."""
    tags = "02 00 01 aa 07 03 bbbbbb"
    request = bytes.fromhex(f"0003 0009 00000001 ffff {tags}") + encode(MetadataRequest(), 9)
    assert decode_request(request) == (RequestHeader(3, 9, 1, None), MetadataRequest())
    response = bytes.fromhex(f"00000001 {tags}") + encode(ProduceResponse(), 9)
    assert decode_response(response, Api.PRODUCE, 9) == (1, ProduceResponse())


def test_answers_to_api_versions_have_the_oldest_header() -> None:
    """The ApiVersions response has no tags in its header in any version, so that a client can read it before it knows the broker."""
    for version in ApiVersionsResponse.versions:
        frame = b"".join(encode_response(ApiVersionsResponse(), version, correlation_id=9))[4:]
        assert frame == (9).to_bytes(4, "big") + encode(ApiVersionsResponse(), version)
        assert decode_response(frame, Api.API_VERSIONS, version) == (9, ApiVersionsResponse())


def test_headers_of_versions_not_spoken_here_can_be_read() -> None:
    """A broker needs the header of an unknown ApiVersions version to answer it, and that of an unknown API to log it."""
    future = bytes.fromhex("0012 0063 00000007 0001 63 00 ff ff")
    assert decode_request_header(future) == (RequestHeader(Api.API_VERSIONS, 99, 7, "c"), 12)
    with pytest.raises(Malformed, match="a version that is not supported") as caught:
        decode_request(future)
    assert (caught.value.api, caught.value.version) == (Api.API_VERSIONS, 99)
    unknown = bytes.fromhex("03e7 0000 00000007 ffff")
    assert decode_request_header(unknown) == (RequestHeader(999, 0, 7, None), 10)
    with pytest.raises(Malformed, match="an API that is not supported") as caught:
        decode_request(unknown)
    assert (caught.value.api, caught.value.version) == (999, 0)


@pytest.mark.parametrize("version", [3, 4])
def test_the_fallback_answer_of_api_versions(version: int) -> None:
    """A broker that does not know the version answers in version 0 with UNSUPPORTED_VERSION. Both known forms of that are read."""
    for api_keys in ([ApiVersion(api_key=18, max_version=2)], []):
        answer = ApiVersionsResponse(error_code=35, api_keys=api_keys)
        frame = b"".join(encode_response(answer, 0, correlation_id=1))[4:]
        assert decode_response(frame, Api.API_VERSIONS, version) == (1, answer)
    regular = ApiVersionsResponse(error_code=35, api_keys=[ApiVersion(api_key=18, max_version=2)])
    frame = b"".join(encode_response(regular, version, correlation_id=1))[4:]
    assert decode_response(frame, Api.API_VERSIONS, version) == (1, regular)
    other_error = b"".join(encode_response(ApiVersionsResponse(error_code=42), 0, correlation_id=1))[4:]
    with pytest.raises(Malformed):
        decode_response(other_error, Api.API_VERSIONS, version)


def test_a_truncated_answer_is_no_fallback_answer() -> None:
    """Versions 1 and 2 have no fallback. A truncated response of these versions is not read as version 0."""
    for version in (1, 2):
        frame = b"".join(encode_response(ApiVersionsResponse(error_code=35), version, correlation_id=1))[4:]
        with pytest.raises(Malformed):
            decode_response(frame[:-4], Api.API_VERSIONS, version)


def test_damaged_headers_are_refused() -> None:
    """A header that ends early, a client id that is too long, negative or not UTF-8, and a bad tag buffer are Malformed."""
    whole = bytes.fromhex("0003 0009 00000001 0001 63 01 00 01 aa")
    assert decode_request_header(whole)[1] == len(whole)
    for length in range(len(whole)):
        with pytest.raises(Malformed):
            decode_request_header(whole[:length])
    for client_id in ("fffe", "0005 63", "0001 ff"):
        with pytest.raises(Malformed) as caught:
            decode_request_header(bytes.fromhex(f"0003 0001 00000001 {client_id}"))
        assert (caught.value.api, caught.value.version, caught.value.offset) == (Api.METADATA, 1, 10)
    for response in ("000000", "00000001", "00000001 01", "00000001 01 00 05"):
        with pytest.raises(Malformed):
            decode_response(bytes.fromhex(response), Api.PRODUCE, 9)


def test_headers_that_cannot_be_written() -> None:
    """A correlation id or a client id that does not fit its field is refused."""
    for correlation_id, client_id in ((1 << 31, None), (1, "x" * 32768), (1, "\ud800")):
        with pytest.raises(UnsupportedFieldValue):
            encode_request(ProduceRequest(), 9, correlation_id=correlation_id, client_id=client_id)
    with pytest.raises(UnsupportedFieldValue):
        encode_response(ProduceResponse(), 9, correlation_id=1 << 31)


@pytest.mark.parametrize("seed", range(20))
def test_streams_are_cut_the_same_however_they_arrive(seed: int) -> None:
    """Frames come out whole and in order, for a stream that comes byte by byte or all at once, also from reused buffers."""
    rng = random.Random(seed)
    frames = [rng.randbytes(rng.choice([0, 1, 3, 4, 5, 100, 5000])) for _ in range(30)]
    stream = framed(*frames)
    splitter = FrameSplitter()
    cut: list[bytes] = []
    buffer = bytearray(8192)
    at = 0
    while at < len(stream):
        piece = stream[at : at + rng.choice([1, 2, 3, 4, 7, 500, 8192])]
        buffer[: len(piece)] = piece
        forms: list[bytes | bytearray | memoryview] = [piece, bytearray(piece), memoryview(buffer)[: len(piece)]]
        cut += splitter.feed(rng.choice(forms))
        at += len(piece)
        delivered = sum(4 + len(frame) for frame in cut)
        assert splitter.pending == at - delivered
    assert cut == frames
    assert all(type(frame) is bytes for frame in cut)
    assert splitter.pending == 0


def test_a_size_out_of_bounds_is_refused_before_its_frame_is_kept() -> None:
    """Negative sizes and sizes above the limit raise as soon as the length is complete. The error carries the frames before it."""
    for size in (-1, 1001, (1 << 31) - 1, -(1 << 31)):
        prefix = size.to_bytes(4, "big", signed=True)
        splitter = FrameSplitter(limit=1000)
        with pytest.raises(FrameTooLarge) as caught:
            splitter.feed(framed(b"a" * 1000, b"") + prefix + b"b" * 5000)
        assert (caught.value.size, caught.value.limit, caught.value.frames) == (size, 1000, [b"a" * 1000, b""])
        assert splitter.pending == 0
        splitter = FrameSplitter(limit=1000)
        assert splitter.feed(prefix[:3]) == []
        with pytest.raises(FrameTooLarge):
            splitter.feed(prefix[3:])
        assert splitter.pending == 0


def test_a_stream_can_be_cut_one_frame_at_a_time() -> None:
    """If a splitter gets exactly its missing bytes, it returns at most one frame. The limit applies to the next length."""
    frames = [b"a" * 10, b"", b"b" * 3000, b"c"]
    stream, cut = memoryview(framed(*frames)), list[bytes]()
    splitter = FrameSplitter(limit=10)
    while stream:
        piece = stream[: splitter.missing]
        stream = stream[len(piece) :]
        found = splitter.feed(piece[:1]) + splitter.feed(piece[1:])
        assert len(found) <= 1
        cut += found
        splitter.limit = 3000 if len(cut) == 2 else 10
    assert cut == frames


def test_the_default_limit_is_kafkas() -> None:
    """A frame of 100 MiB is accepted. One byte more is refused."""
    assert FrameSplitter().feed((100 * MIB).to_bytes(4, "big")) == []
    with pytest.raises(FrameTooLarge):
        FrameSplitter().feed((100 * MIB + 1).to_bytes(4, "big"))


def test_large_frames_in_small_pieces_take_linear_time() -> None:
    """A frame of 32 MiB in 64 thousand pieces takes CPU time in proportion to its size."""
    splitter = FrameSplitter()
    piece = bytes(512)
    assert splitter.feed((32 * MIB).to_bytes(4, "big")) == []
    start = time.process_time()
    for _ in range(32 * MIB // 512 - 1):
        splitter.feed(piece)
    (frame,) = splitter.feed(piece)
    assert len(frame) == 32 * MIB
    # Copying what is there for every piece would be a terabyte: minutes, not seconds.
    assert time.process_time() - start < 10
