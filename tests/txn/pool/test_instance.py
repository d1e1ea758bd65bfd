"""The chosen name of an instance: no two live processes have it, and the next process takes the name of a dead one."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from fencepost.producer.errors import ConfigError
from fencepost.txn.pool import instance
from fencepost.txn.pool.instance import choose
from tests.producer.stub_helpers import drop

pytestmark = pytest.mark.skipif(not instance.HAS_FLOCK, reason="files cannot be locked here")

HOLDER = """
import sys
from fencepost.txn.pool.instance import choose
held = choose("p", sys.argv[1])
print(held.name, flush=True)
sys.stdin.read()
"""


def test_each_has_its_own(tmp_path: Path) -> None:
    """Of one process, too. A name that was released is taken again, but not with another prefix."""
    first, second, other = choose("p", tmp_path), choose("p", tmp_path), choose("q", tmp_path)
    names = {first.name, second.name, other.name}
    assert len(names) == 3
    first.release()
    apart, again = choose("q", tmp_path), choose("p", tmp_path)
    assert again.name == first.name
    assert apart.name not in names
    for each in (second, other, apart, again):
        each.release()


def test_a_killed_process_leaves_its_name(tmp_path: Path) -> None:
    """While it lives, or is stopped, no other process has it."""
    with subprocess.Popen(
        [sys.executable, "-P", "-c", HOLDER, tmp_path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        name = holder.stdout.readline().strip()
        holder.send_signal(signal.SIGSTOP)
        beside = choose("p", tmp_path)
        assert beside.name != name
        holder.kill()
    after = choose("p", tmp_path)
    assert after.name == name
    beside.release()
    after.release()


def test_a_forked_child_does_not_keep_it(tmp_path: Path) -> None:
    """The child gives its copy away: after the parent's end the name is free. Its own end frees nothing of the parent's."""
    held = choose("p", tmp_path)
    child = os.fork()
    if not child:
        held.release()
        os._exit(int(choose("p", tmp_path).name == held.name))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    held.release()
    again = choose("p", tmp_path)
    again.release()
    assert again.name in {path.name.partition(".")[2] for path in tmp_path.iterdir()}


@pytest.mark.parametrize("what", ["copied", "of an earlier boot", "empty", "removed while it is held"])
def test_what_is_no_lock(tmp_path: Path, what: str) -> None:
    """A copy of a lock, as in an image, or one that another boot or a crash has left, gives no name away."""
    held = choose("p", tmp_path)
    (file,) = tmp_path.iterdir()
    if what == "copied":
        shutil.copy(file, tmp_path / "copy")
        held.release()
        file.unlink()
        (tmp_path / "copy").rename(file)
    elif what == "removed while it is held":
        file.unlink()
    else:
        held.release()
        file.write_bytes(file.read_bytes().replace(b" ", b"0 ", 1) if what == "of an earlier boot" else b"")
    other = choose("p", tmp_path)
    assert other.name != held.name
    assert [path.name.partition(".")[2] for path in tmp_path.iterdir()] == [other.name]
    other.release()
    held.release()


def test_a_name_that_was_given_up(tmp_path: Path) -> None:
    """No process gets it again."""
    held = choose("p", tmp_path)
    held.forget()
    assert list(tmp_path.iterdir()) == []
    other = choose("p", tmp_path)
    assert other.name != held.name
    other.release()


def test_a_name_that_was_dropped(tmp_path: Path) -> None:
    """With its pool, without a close: it is free again."""
    held = [choose("p", tmp_path)]
    name = held[0].name
    drop(held)
    again = choose("p", tmp_path)
    assert again.name == name
    again.release()


def test_a_directory_that_other_users_can_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The pool does not trust it: the name is random, and is not kept there."""
    monkeypatch.setattr(tempfile, "gettempdir", lambda: str(tmp_path))
    (tmp_path / f"fencepost-pool-{os.getuid()}").mkdir()
    (tmp_path / f"fencepost-pool-{os.getuid()}").chmod(0o777)
    first, second = choose("p", None), choose("p", None)
    assert first.name != second.name
    assert list((tmp_path / f"fencepost-pool-{os.getuid()}").iterdir()) == []
    first.release()


def test_a_directory_that_cannot_be_made(tmp_path: Path) -> None:
    """A given one is an error that names the setting."""
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="lock_directory="):
        choose("p", tmp_path / "file")


@pytest.mark.parametrize("given", [True, False])
def test_a_directory_in_which_nothing_can_be_locked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, given: bool
) -> None:
    """A network file system without locks, or a full disk. A given directory is an error that names the setting; otherwise the service goes
    on with a random name. No file is left."""

    def flock(fd: int, how: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(instance, "flock", flock)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    if given:
        with pytest.raises(ConfigError, match=r"^lock_directory=.*: \[Errno \d+\] No locks available$"):
            choose("p", tmp_path)
    else:
        assert choose("p", None).chosen
        assert "random name, and no process can take it over: " in caplog.text
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
