"""Compiles the encoder and the decoder of a struct in one version when a caller first asks for it, and keeps the function.

The source is registered with linecache, so that tracebacks show its lines and a debugger steps through them. Import compiles nothing. If
two threads compile the same struct at once, both get a working function.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fencepost.producer.wire.schema.fields import Buffer, WireStruct

Encoder = Callable[[Any, bytearray, list[Buffer]], bytearray]
Decoder = Callable[[bytes | memoryview, int, int], Any]

_encoders: dict[tuple[type[WireStruct], int], Encoder] = {}
_decoders: dict[tuple[type[WireStruct], int], Decoder] = {}


def encoder_of(struct: type[WireStruct], version: int, *, flexible: bool) -> Encoder:
    """Return the function that appends a struct of this type to a buffer."""
    encoder = _encoders.get((struct, version))
    if encoder is None:
        from fencepost.producer.wire.schema.encoder import EncoderWriter

        writer = EncoderWriter(struct, version, flexible=flexible)
        encoder = _encoders[struct, version] = _compile(writer.name, writer.text, writer.constants)
    return encoder


def decoder_of(struct: type[WireStruct], version: int, *, flexible: bool, api: int | None) -> Decoder:
    """Return the function that reads a struct of this type. `api` appears in the Malformed that it raises."""
    decoder = _decoders.get((struct, version))
    if decoder is None:
        from fencepost.producer.wire.schema.decoder import DecoderWriter

        writer = DecoderWriter(struct, version, flexible=flexible, api=api)
        decoder = _decoders[struct, version] = _compile(writer.name, writer.text, writer.constants)
    return decoder


def _compile(name: str, source: str, constants: dict[str, Any]) -> Any:
    """Run the source and return the function that it defines."""
    import linecache

    filename = f"<fencepost.producer.wire {name}>"
    namespace = dict(constants)
    exec(compile(source, filename, "exec"), namespace)
    linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
    return namespace[name]
