"""What fencepost uses of `librt.strings`, in plain Python. Each name does what librt's does, for the values that fencepost gives it."""

from __future__ import annotations

from fencepost.producer.foundations.counted import counted


class BytesWriter(bytearray):
    """Grows at its end; `len`, items and `append` are a bytearray's."""

    __slots__ = ()

    def write(self, data: bytes | bytearray, /) -> None:
        """Append the bytes."""
        self += data

    def getvalue(self) -> bytes:
        """What was written."""
        return bytes(self)

    def truncate(self, size: int, /) -> None:
        """Keep the first bytes. Raises ValueError if there are fewer."""
        if not 0 <= size <= len(self):
            raise ValueError(f"size={size}: from 0 to {len(self)}, the bytes that were written")
        del self[size:]


def read_i32_le(data: bytes, index: int, /) -> int:
    """The 32-bit integer at the index. Raises IndexError if the bytes end before."""
    return _read(data, index, 4)


def read_i64_le(data: bytes, index: int, /) -> int:
    """The 64-bit integer at the index. Raises IndexError if the bytes end before."""
    return _read(data, index, 8)


def write_i32_le(writer: BytesWriter, number: int, /) -> None:
    """Append four bytes. Raises ValueError for a number of more than 32 bits."""
    _write(writer, number, 4)


def write_i64_le(writer: BytesWriter, number: int, /) -> None:
    """Append eight bytes. Raises ValueError for a number of more than 64 bits."""
    _write(writer, number, 8)


def _read(data: bytes, index: int, size: int) -> int:
    if not 0 <= index <= len(data) - size:
        raise IndexError(f"index {index}: {counted(len(data), 'byte has', 'bytes have')} no {counted(size, 'byte')} there")
    return int.from_bytes(data[index : index + size], "little", signed=True)


def _write(writer: BytesWriter, number: int, size: int) -> None:
    try:
        writer += number.to_bytes(size, "little", signed=True)
    except OverflowError:
        raise ValueError(f"{number} does not fit {size * 8} bits") from None
