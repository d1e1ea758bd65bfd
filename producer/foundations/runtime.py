"""librt's byte writer, little-endian integers, lock and clock; without librt, plain Python's.

librt has no wheel for some platforms, such as PyPy and 32-bit ARM. fencepost runs there uncompiled, with the stand-ins. Type checkers and
mypyc see librt's own names, so that compiled modules use them without a call.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from librt.strings import BytesWriter as BytesWriter
    from librt.strings import read_i32_le as read_i32_le
    from librt.strings import read_i64_le as read_i64_le
    from librt.strings import write_i32_le as write_i32_le
    from librt.strings import write_i64_le as write_i64_le
    from librt.threading import Lock as Lock
    from librt.time import time as time
else:
    try:
        from librt.strings import BytesWriter, read_i32_le, read_i64_le, write_i32_le, write_i64_le
        from librt.threading import Lock
        from librt.time import time
    except ImportError:
        from threading import Lock  # noqa: F401 - imported from here
        from time import time  # noqa: F401

        from fencepost.producer.foundations.plain_byte_writer import (  # noqa: F401
            BytesWriter,
            read_i32_le,
            read_i64_le,
            write_i32_le,
            write_i64_le,
        )
