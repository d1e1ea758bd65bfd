"""`fencepost consume`: a topic's records on standard output, read by confluent-kafka.

It joins no group and commits nothing, so that looking at a topic changes nothing.
"""

from __future__ import annotations

import enum
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from fencepost.cli.error_lines import CommandError
from fencepost.cli.numbers import a_number
from fencepost.cli.options import Bootstrap, connection
from fencepost.cli.output import say
from fencepost.cli.profiles import source_of_settings
from fencepost.cli.token_provider import for_librdkafka
from fencepost.cli.waiting import waiting
from fencepost.producer.foundations.counted import counted

if TYPE_CHECKING:
    from confluent_kafka import Consumer, KafkaError, Message

METADATA_TIMEOUT_S: Final = 10.0
POLL_S: Final = 0.2
POLLED_MAX: Final = 1_000


class Isolation(enum.StrEnum):
    """Which records of transactions the command prints."""

    COMMITTED = "read_committed"
    UNCOMMITTED = "read_uncommitted"


def consume(
    topic: Annotated[str, typer.Option(help="The topic to read.")],
    bootstrap: Bootstrap = None,
    from_beginning: Annotated[bool, typer.Option("--from-beginning", help="Begin with the oldest record instead of the next one.")] = False,
    offset: Annotated[int | None, typer.Option(help="Begin with this offset; -N begins N before the end.")] = None,
    partition: Annotated[list[int] | None, typer.Option(min=0, help="Only this partition; repeatable.")] = None,
    max_messages: Annotated[int | None, typer.Option(min=1, help="End after this many; exit code 1 if fewer come.")] = None,
    timeout: Annotated[
        float | None, typer.Option(min=0, metavar="SECONDS", callback=a_number, help="End when no record has come for this long.")
    ] = None,
    exit_eof: Annotated[bool, typer.Option("--exit-eof", help="End at the end of every partition.")] = False,
    json: Annotated[
        bool, typer.Option("--json", help="One JSON object for each record; bytes that are not UTF-8 as {base64: ...}.")
    ] = False,
    isolation: Annotated[Isolation, typer.Option(help="Whether to print records of aborted and open transactions.")] = Isolation.COMMITTED,
    config: Annotated[list[str] | None, typer.Option(metavar="NAME=VALUE", help="A setting of librdkafka; repeatable.")] = None,
) -> None:
    """Print a topic's values, one on each line, until Ctrl-C. Control characters are escaped."""
    if from_beginning and offset is not None:
        raise CommandError("--from-beginning and --offset exclude each other")
    servers, settings = connection(bootstrap, "--config", config)
    reader = Reader(servers, settings, isolation)
    try:
        begin = 0 if from_beginning else offset
        with waiting(f"where topic {topic!r} at {servers} begins and ends", METADATA_TIMEOUT_S):
            reader.assign(topic, partition, begin, oldest=from_beginning)
        ends = "until Ctrl-C" if timeout is None else f"for at most {timeout:g} s without one"
        reader.awaited = f"records of topic {topic!r} at {servers}, {ends}"
        came = reader.run(_as_json if json else _as_text, limit=max_messages, timeout_s=timeout, exit_eof=exit_eof)
    finally:
        reader.close()
    if max_messages is not None and came < max_messages:
        raise CommandError(f"only {came} of {counted(max_messages, 'record')} came", code=1)


class Reader:
    """A consumer of fixed partitions."""

    def __init__(self, bootstrap: str, settings: dict[str, Any], isolation: Isolation) -> None:
        from confluent_kafka import Consumer, KafkaException

        from fencepost.cli.reachability import reach

        reach(bootstrap, settings)
        self._left: set[int] = set()
        self._trouble = ""
        self.awaited = ""
        fixed: dict[str, Any] = {
            "group.id": "fencepost-consume",  # librdkafka requires one; the consumer never joins it
            "client.id": "fencepost-consume",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
            "fetch.wait.max.ms": 100,
            "log_level": 0,
        }
        own = {"bootstrap.servers": bootstrap, "isolation.level": isolation.value, "error_cb": self._hear}
        try:
            self._consumer: Consumer = Consumer({**fixed, **for_librdkafka(bootstrap, settings), **own})
        except KafkaException as error:
            raise CommandError(f"{source_of_settings('--config')}: {error.args[0].str()}") from None

    def assign(self, topic: str, chosen: list[int] | None, begin: int | None, *, oldest: bool) -> None:
        """Begin at that offset of each partition. A negative one counts from the end; None is the end."""
        from confluent_kafka import TopicPartition

        known = self._ask(lambda: self._consumer.list_topics(topic, timeout=METADATA_TIMEOUT_S)).topics[topic]
        if known.error is not None:
            raise CommandError(f"topic {topic!r}: {known.error.str()}")
        for number in chosen or ():
            if number not in known.partitions:
                raise CommandError(f"--partition {number}: topic {topic!r} has partitions 0 to {len(known.partitions) - 1}")
        places = []
        for number in sorted(chosen or known.partitions):
            if known.partitions[number].leader < 0:
                raise CommandError(f"partition {number} of topic {topic!r} has no leader: `fencepost topics describe` shows its replicas")
            at = TopicPartition(topic, number)
            low, high = self._ask(partial(self._consumer.get_watermark_offsets, at, timeout=METADATA_TIMEOUT_S))
            at.offset = high if begin is None else low if oldest else begin if begin >= 0 else max(low, high + begin)
            if not low <= at.offset <= high:
                raise CommandError(f"--offset {begin}: partition {number} has offsets {low} to {high}")
            places.append(at)
        self._left = {at.partition for at in places}
        self._consumer.assign(places)

    def run(self, show: Callable[[Message], str], *, limit: int | None, timeout_s: float | None, exit_eof: bool) -> int:
        """Print until the limit, the end or Ctrl-C; return the number of records. `show` returns lines of printable characters."""
        came, came_at = 0, time.monotonic()
        silence = ExitStack()
        silence.enter_context(waiting(self.awaited))
        try:
            while limit is None or came < limit:
                wanted = POLLED_MAX if limit is None else min(POLLED_MAX, limit - came)
                # The result has the ends of partitions, too.
                polled = self._consumer.consume(wanted, timeout=POLL_S)
                records = [message for message in polled if message.error() is None]
                self._left.update(message.partition() or 0 for message in records)
                if records:
                    silence.close()
                    say(*map(show, records))
                    came, came_at = came + len(records), time.monotonic()
                for message in polled:
                    error = message.error()
                    if error is not None:
                        self._note(message, error)
                if (exit_eof and not self._left) or (timeout_s is not None and time.monotonic() - came_at > timeout_s):
                    return came
        except KeyboardInterrupt:
            pass
        finally:
            silence.close()
        return came

    def close(self) -> None:
        self._consumer.close()

    def _note(self, message: Message, error: KafkaError) -> None:
        from confluent_kafka import KafkaError

        if error.code() == KafkaError._PARTITION_EOF:
            self._left.discard(message.partition() or 0)
        elif not error.retriable():
            raise CommandError(f"{message.topic()}-{message.partition()}: {error.str()}", code=1)

    def _ask(self, ask: Callable[[], Any]) -> Any:
        from confluent_kafka import KafkaException

        try:
            return ask()
        except KafkaException as error:
            self._consumer.poll(0)  # It calls `_hear`, which hears of which broker the error is.
            raise CommandError(f"{error.args[0].str()}{f' ({self._trouble})' if self._trouble else ''}") from None

    def _hear(self, error: Any) -> None:
        from confluent_kafka import KafkaError

        if error.code() != KafkaError._ALL_BROKERS_DOWN or not self._trouble:  # That one names no broker.
            self._trouble = error.str()


def _as_text(message: Message) -> str:
    from fencepost.cli.output import shown

    return shown(message.value())


def _as_json(message: Message) -> str:
    from fencepost.cli.output import as_json, json_line

    _, timestamp_ms = message.timestamp()
    headers: Any = message.headers() or ()  # its declared type is only a dictionary
    told = {
        "topic": message.topic(),
        "partition": message.partition(),
        "offset": message.offset(),
        "timestamp": timestamp_ms,
        "key": as_json(message.key()),
        "value": as_json(message.value()),
        "headers": [[name, as_json(value)] for name, value in headers],
    }
    return json_line(told)
