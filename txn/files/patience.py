"""Reads blocks of a file, a pipe or a compressed file as they arrive, until the user interrupts it."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import select
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from fencepost.txn.files.errors import InputBroken

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

BLOCK_BYTES: Final = 256 * 1024
TICK_S: Final = 0.2
OPENERS: Final[dict[str, Callable[..., Any]]] = {".gz": gzip.GzipFile, ".bz2": bz2.BZ2File, ".xz": lzma.LZMAFile}
DAMAGED: Final = (zlib.error, lzma.LZMAError, EOFError, gzip.BadGzipFile)


class Interrupt(Protocol):
    """What ends the reading early. `signal`: whether it has come, 0 if not. `fd`: becomes readable when it comes, -1 for none."""

    @property
    def signal(self) -> int: ...
    @property
    def fd(self) -> int: ...


class NoInterrupt:
    """Nothing ends the reading early."""

    signal = 0
    fd = -1


class PatientPipe(io.RawIOBase):
    """A file or pipe, as it arrives. It ends when the user interrupts it. `tick`: called while nothing arrives."""

    def __init__(self, fd: int, interrupt: Interrupt, tick: Callable[[], None]) -> None:
        self._fd = fd
        self._interrupt = interrupt
        self._tick = tick
        self._watched = [fd, interrupt.fd] if interrupt.fd >= 0 else None

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        return os.readv(self._fd, [buffer]) if self._arrived() else 0

    def block(self) -> bytes:
        """The next bytes, none at the end."""
        return os.read(self._fd, BLOCK_BYTES) if self._arrived() else b""

    def _arrived(self) -> bool:
        if self._watched is None:
            return True  # The read itself waits.
        while not self._interrupt.signal:
            able, _, _ = select.select(self._watched, [], [], TICK_S)
            if self._fd in able and not self._interrupt.signal:
                return True
            self._tick()
        return False


def block_reader(name: str, fd: int, interrupt: Interrupt, tick: Callable[[], None]) -> Callable[[], bytes]:
    """What returns the file's next bytes, none at the end. A compressed file is opened by its suffix. Damage raises InputBroken."""
    pipe = PatientPipe(fd, interrupt, tick)
    opener = OPENERS.get(Path(name).suffix.lower())
    if opener is None:
        return pipe.block
    file = (
        opener(io.BufferedReader(pipe, BLOCK_BYTES))
        if opener is not gzip.GzipFile
        else opener(fileobj=io.BufferedReader(pipe, BLOCK_BYTES))
    )

    def block() -> bytes:
        try:
            data: bytes = file.read1(BLOCK_BYTES)
        except (*DAMAGED, OSError) as error:
            if interrupt.signal:
                return b""
            raise InputBroken(f"the compressed file is damaged or cut short: {error}") from None
        return data

    return block
