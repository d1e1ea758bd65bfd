"""Where a checkpoint is, as Spark would have it, and the batch that is found there."""

from __future__ import annotations

from pathlib import Path

import pyarrow.fs as files
import pytest

from fencepost.txn.spark.errors import BatchUnknown
from fencepost.txn.spark.sink.checkpoint import newest_batch
from tests.txn.spark.datasource.write_steps import plan

STRANGE = "a b%20c é+?#"


@pytest.mark.parametrize("prefix", ["", "file:", "file://", "FILE://", "file://localhost"])
def test_a_local_path_is_taken_as_it_stands(tmp_path: Path, prefix: str) -> None:
    """Spaces, percent signs and all, with a scheme as without."""
    place = tmp_path / STRANGE
    plan(place, 9)
    plan(place, 10)
    assert newest_batch(f"{prefix}{place}").batch == 10
    assert newest_batch(f"{prefix}{place}/").full_name == "batch 10 of query a-query"


def test_a_relative_path_is_the_drivers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A relative location is read from the driver's working directory."""
    plan(tmp_path / "here:and there", 3)
    monkeypatch.chdir(tmp_path)
    assert newest_batch("./here:and there").batch == 3


@pytest.mark.parametrize(
    ("location", "uri"),
    [
        ("s3a://bucket/a b%20c", "s3://bucket/a%20b%2520c"),
        ("gs://bucket/x", "gs://bucket/x"),
        ("abfss://box@account.dfs.core.windows.net/x", "abfss://box@account.dfs.core.windows.net/x"),
        ("hdfs:///x", "hdfs:///x"),
    ],
)
def test_other_file_systems_are_pyarrows(monkeypatch: pytest.MonkeyPatch, location: str, uri: str) -> None:
    """By the names that Hadoop has for them, and with the path as it stands, which pyarrow would decode. What they say is cut short."""
    asked: list[str] = []

    class Opened:
        @staticmethod
        def from_uri(given: str) -> tuple[files.FileSystem, str]:
            asked.append(given)
            raise OSError("Unable to load libjvm\nfrom here\nor from there")

    monkeypatch.setattr(files, "FileSystem", Opened)
    with pytest.raises(BatchUnknown, match=r"driver's host \(Unable to load libjvm\), and"):
        newest_batch(location)
    assert asked == [uri]


@pytest.mark.parametrize(
    ("location", "text"),
    [
        ("dbfs:/x", r"pyarrow knows no file system 'dbfs', only file, s3, .*\. Put it where pyarrow reads files, or write with Exactly"),
        ("wasbs://box@account/x", "pyarrow knows no file system 'wasbs'"),
        ("file://elsewhere/x", "pyarrow knows no file system 'file', only"),
        ("/nowhere/at all", r"Without a scheme it is a local path here; where Spark's fs\.defaultFS is another, write its scheme, or"),
        ("gs://", "pyarrow takes credentials and regions from the environment of Spark's driver, and none of Hadoop's settings"),
    ],
)
def test_what_cannot_be_read_says_what_can_be_done(location: str, text: str) -> None:
    """The error for a location that cannot be read names it, the reason, and what to do."""
    with pytest.raises(BatchUnknown, match=rf"the checkpoint '{location}' cannot be read by Python on the driver's host .*{text}"):
        newest_batch(location)


def test_a_checkpoint_without_a_batch_is_refused(tmp_path: Path) -> None:
    """An empty directory is refused, and one with files that are not Spark's."""
    with pytest.raises(BatchUnknown):
        newest_batch(str(tmp_path))
    plan(tmp_path, 0)
    (tmp_path / "metadata").write_text("{}")
    with pytest.raises(BatchUnknown, match="missing required field `id`"):
        newest_batch(str(tmp_path))
