"""The name of a pool's instance: given, or chosen so that no other live process has it.

A chosen name stands for a file that this process has locked (flock). The kernel releases the lock when the process ends, however it ends.
So the next process on the machine finds the file unlocked, and takes the name over, with what its transactions left open. A file says
where and when it was made: the boot, the file system and the inode. A copy of a file, in an image or on another machine, does not match,
and is no lock.

Where files cannot be locked, a chosen name is random, and no process takes it over. This module asks no broker.
"""

from __future__ import annotations

import hashlib
import logging
import os
import secrets
import socket
import sys
import tempfile
from contextlib import suppress
from os import PathLike
from pathlib import Path
from typing import Final

from fencepost.producer.errors import ConfigError

HAS_FLOCK: Final = sys.platform != "win32"
if sys.platform != "win32":
    from fcntl import LOCK_EX, LOCK_NB, flock

log = logging.getLogger("fencepost.pool")

HOST_CHARS: Final = 30
BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")
ATTEMPTS: Final = 100


class Instance:
    """A name, and what keeps it. `chosen`: the pool chose it."""

    def __init__(self, name: str, *, chosen: bool, path: Path | None = None, fd: int = -1) -> None:
        self.name: Final = name
        self.chosen: Final = chosen
        self._path = path
        self._fd = fd

    def __del__(self) -> None:
        self.release()  # The pool was dropped without close().

    def release(self) -> None:
        """Let another process take the name over. In a forked child this only gives the child's copy of the lock away."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def forget(self) -> None:
        """Let no process have the name again."""
        if self._path is not None and self._fd >= 0:
            with suppress(OSError):
                self._path.unlink()
        self.release()


def choose(prefix: str, directory: str | PathLike[str] | None) -> Instance:
    """A name that a process of this machine has left, or a new one. Raises ConfigError if locks cannot be made in the given directory."""
    try:
        found = _locked(prefix, directory)
    except OSError as error:
        if directory is not None:
            raise ConfigError(f"lock_directory={os.fspath(directory)!r}: {error}") from None
        log.warning("the pool's instance has a random name, and no process can take it over: %s", error)
        found = None
    return found if found is not None else Instance(_new_name(), chosen=True)


def _locked(prefix: str, directory: str | PathLike[str] | None) -> Instance | None:
    """A name with a lock. None: this system has no locks. Raises OSError if none can be made, as on a full disk."""
    home = _home(directory)
    if not HAS_FLOCK:
        return None
    scope = hashlib.sha256(prefix.encode(errors="surrogatepass")).hexdigest()[:16]
    for path in sorted(home.glob(f"{scope}.*")):
        found = _take(path, path.name.partition(".")[2])
        if found is not None:
            return found
    for _ in range(ATTEMPTS):
        name = _new_name()
        found = _make(home / f"{scope}.{name}", name)
        if found is not None:
            return found
    raise OSError("no lock could be made there")


def _new_name() -> str:
    host = "".join(char if char.isascii() and (char.isalnum() or char in "-_.") else "_" for char in socket.gethostname())
    return f"{host[:HOST_CHARS] or 'host'}.{secrets.token_hex(6)}"


def _home(directory: str | PathLike[str] | None) -> Path:
    """The directory of the locks. Raises OSError if it is not this user's."""
    if directory is not None:
        home = Path(directory)
        home.mkdir(parents=True, exist_ok=True)
        return home
    if not HAS_FLOCK:
        return Path(tempfile.gettempdir())
    home = Path(tempfile.gettempdir(), f"fencepost-pool-{os.getuid()}")
    home.mkdir(mode=0o700, exist_ok=True)
    found = home.lstat()
    if found.st_uid != os.getuid() or found.st_mode & 0o022 or home.is_symlink():
        raise PermissionError(f"{home} can be written by other users")
    return home


def _record(fd: int) -> bytes:
    """What the file must say, so that it is no copy."""
    status = os.fstat(fd)
    boot = ""
    with suppress(OSError):
        boot = BOOT_ID.read_text().strip()
    return f"{boot} {status.st_dev} {status.st_ino}\n".encode()


def _take(path: Path, name: str) -> Instance | None:
    """The file's name, if no process has it. A file that is no lock is removed."""
    try:
        fd = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        flock(fd, LOCK_EX | LOCK_NB)
        if not _is_at(fd, path):
            raise OSError("another process removed it")
        if os.pread(fd, 1000, 0) != _record(fd):
            path.unlink()
            raise OSError("a copy, or of an earlier boot")
    except OSError:
        os.close(fd)
        return None
    return Instance(name, chosen=True, path=path, fd=fd)


def _make(path: Path, name: str) -> Instance | None:
    """A new file, locked. None if another process was faster."""
    try:
        fd = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return None
    try:
        flock(fd, LOCK_EX | LOCK_NB)
        os.pwrite(fd, _record(fd), 0)
        if _is_at(fd, path):
            return Instance(name, chosen=True, path=path, fd=fd)
    except BlockingIOError:  # Another process looks whether it is a lock yet, and removes it.
        pass
    except OSError:
        os.close(fd)
        with suppress(OSError):
            path.unlink()
        raise
    os.close(fd)
    return None


def _is_at(fd: int, path: Path) -> bool:
    with suppress(OSError):
        return os.path.samestat(os.fstat(fd), os.stat(path, follow_symlinks=False))
    return False
