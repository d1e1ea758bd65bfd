"""The rows of a DataFrame in this process, as Arrow, up to a number of bytes. With more, the job is cancelled.

Bytes are counted as rows arrive, one Spark task at a time. So this process never holds more than the limit and one Arrow batch.
`spark.driver.maxResultSize` limits what the driver's JVM holds of finished tasks.
"""

from __future__ import annotations

import struct
import uuid
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from typing import Any, Final

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from fencepost.txn.spark.connection.spark_context import context_of
from fencepost.txn.spark.errors import TooMuch

RESULTS_MAX: Final = "spark.driver.maxResultSize"
COUNT: Final = struct.Struct(">i")


def collected(frame: Any, bytes_max: int) -> list[pa.RecordBatch]:
    """The rows, in order. Raises TooMuch."""
    context = context_of(frame.sparkSession)
    try:
        return _up_to(_connect_batches(frame), bytes_max) if context is None else _classic(frame, context, bytes_max)
    except (PySparkException, Py4JError) as error:
        if RESULTS_MAX in str(error):
            raise TooMuch(f"the batch has more than {RESULTS_MAX} lets a driver collect") from error
        raise


def _up_to(batches: Iterator[pa.RecordBatch], bytes_max: int) -> list[pa.RecordBatch]:
    found: list[pa.RecordBatch] = []
    size = 0
    with closing(batches):  # type: ignore[type-var]  # generators
        for batch in batches:
            size += batch.nbytes
            if size > bytes_max:
                raise TooMuch(f"the batch has more than collect_bytes_max={bytes_max} bytes")
            found.append(batch)
    return found


def _connect_batches(frame: Any) -> Iterator[pa.RecordBatch]:
    # Rows from the answers that `toLocalIterator` of Spark Connect's DataFrame uses.
    client = frame._session.client
    for each in client.to_table_as_iterator(frame._plan.to_proto(client), frame._plan.observations):
        if isinstance(each, pa.Table):
            yield from each.to_batches()


def _classic(frame: Any, context: Any, bytes_max: int) -> list[pa.RecordBatch]:
    """As `toArrow`, with a limit."""
    with _cancelled_on(TooMuch, context):
        port, secret, server = frame._jdf.collectAsArrowToPython()
        try:
            stream, sock = connect()(port, secret)
            sock.settimeout(None)
            with sock, stream:
                found = _up_to(_streamed(stream), bytes_max)
                order = _order(stream)
        except TooMuch:
            raise
        except BaseException:
            _result(server)
            raise
        _result(server)
    return [found[place] for place in order]


def connect() -> Any:
    """Spark's function for this, which moved in 4.0."""
    try:
        from pyspark.util import local_connect_and_auth
    except ImportError:
        from pyspark.java_gateway import local_connect_and_auth  # type: ignore[attr-defined,no-redef,unused-ignore]  # before 4.0
    return local_connect_and_auth


def _streamed(stream: Any) -> Iterator[pa.RecordBatch]:
    with pa.ipc.open_stream(stream) as reader:
        yield from reader


def _order(stream: Any) -> list[int]:
    """Batches arrive as tasks end; their order follows at the end."""
    (count,) = COUNT.unpack(stream.read(COUNT.size))
    if count < 0:
        (length,) = COUNT.unpack(stream.read(COUNT.size))
        raise PySparkException(stream.read(length).decode(errors="replace"))
    return [COUNT.unpack(stream.read(COUNT.size))[0] for _ in range(count)]


def _result(server: Any) -> None:
    """Waits for the end of Spark's stream, and raises the job's error."""
    from pyspark.errors.exceptions.captured import unwrap_spark_exception

    with unwrap_spark_exception():
        server.getResult()


@contextmanager
def _cancelled_on(kind: type[BaseException], context: Any) -> Iterator[None]:
    tag = f"fencepost-{uuid.uuid4().hex}"
    context.addJobTag(tag)
    try:
        yield
    except kind:
        with suppress(Py4JError):
            context.cancelJobsWithTag(tag)
        raise
    finally:
        context.removeJobTag(tag)
