"""What a release of Spark does not have is named, with the release that has it."""

from __future__ import annotations

import sys
from importlib import import_module

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from fencepost.producer.errors import Misuse
from tests.txn.spark.releases import RELEASE


def test_data_sources_that_are_not_there(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before 4.0 there are none, and before 4.1 none that write streams of Arrow batches: what is newer is made to look like that."""
    if RELEASE < (4, 0):
        with pytest.raises(ImportError, match=r"format\('fencepost'\) needs pyspark 4\.0 or newer, this is 3\.5"):
            import_module("fencepost.txn.spark.datasource.datasource")
        return
    from fencepost.txn.spark.datasource.datasource import FencepostDataSource, register

    monkeypatch.setitem(sys.modules, "fencepost.txn.spark.datasource.writer", None)
    with pytest.raises(Misuse, match=r"writes with pyspark 4\.1 or newer, this is "):
        FencepostDataSource({}).streamWriter(StructType([]), overwrite=False)
    if RELEASE < (4, 1):
        register(spark)
        with pytest.raises(PySparkException, match=r"writes with pyspark 4\.1 or newer, this is 4\.0"):
            spark.range(1).write.format("fencepost").mode("append").save()
