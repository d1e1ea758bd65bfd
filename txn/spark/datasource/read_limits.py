"""The limits that Spark gives a streaming source: pyspark's classes from 4.2 on, and stand-ins for earlier versions."""

from __future__ import annotations

from typing import TYPE_CHECKING

__all__ = ["HAS_LIMITS", "ReadAllAvailable", "ReadLimit", "ReadMaxRows", "ReadMinRows", "SupportsTriggerAvailableNow"]

HAS_LIMITS = True
"""Whether this pyspark can limit a trigger."""

if TYPE_CHECKING:
    from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, ReadMinRows, SupportsTriggerAvailableNow
else:
    try:
        from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, ReadMinRows, SupportsTriggerAvailableNow
    except ImportError:
        HAS_LIMITS = False

        class ReadLimit:
            """Before pyspark 4.2 there are no limits."""

        class ReadAllAvailable(ReadLimit):
            """See ReadLimit."""

        class ReadMinRows(ReadLimit):
            """See ReadLimit."""

        class ReadMaxRows(ReadLimit):
            """See ReadLimit."""

        class SupportsTriggerAvailableNow:
            """Before pyspark 4.2 a trigger takes everything."""
