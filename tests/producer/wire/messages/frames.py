"""Checks of this project's frames against the bytes of another implementation."""

from __future__ import annotations

from fencepost.producer.wire import Message, RequestHeader, decode, decode_request, decode_response, encode, encode_request, encode_response


def check_body(ours: Message, version: int, data: bytes) -> None:
    """The other implementation's bytes of the message, `data`, equal this one's, and are read back, also from inside a larger buffer."""
    assert encode(ours, version) == data
    assert decode(type(ours), version, data) == ours
    assert decode(type(ours), version, bytearray(b"in front" + data), start=8) == ours


def check_frame(cls: type[Message], version: int, frame: bytes, correlation_id: int, client_id: str | None) -> None:
    """The other implementation's header before an empty message, `frame`, equals this one's, and is read back."""
    if cls.is_request:
        parts = encode_request(cls(), version, correlation_id=correlation_id, client_id=client_id)
        header = RequestHeader(api_key=cls.api, api_version=version, correlation_id=correlation_id, client_id=client_id)
        assert decode_request(frame) == (header, cls())
    else:
        parts = encode_response(cls(), version, correlation_id=correlation_id)
        assert decode_response(frame, cls.api, version) == (correlation_id, cls())
    assert b"".join(parts) == len(frame).to_bytes(4, "big") + frame
