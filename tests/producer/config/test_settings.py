"""Settings: both spellings, types, defaults, and every refusal with its reason."""

from __future__ import annotations

import logging
import re
from collections import UserList, deque
from fractions import Fraction
from numbers import Integral
from typing import Any

import msgspec
import pytest

from fencepost.producer import AsyncProducer, ConfigError, Partitioner, Producer, Settings
from fencepost.producer.config.limits import BATCH_SIZE_MAX
from fencepost.producer.config.names import DOTTED
from fencepost.producer.config.reader import READERS, WANTED, read_settings
from fencepost.producer.foundations.address import Address
from fencepost.producer.wire.codecs.codec import Codec
from tests.producer.config.reading import BARE, read, refusal


def test_the_defaults_are_the_safe_ones() -> None:
    """Idempotence on, acks=all, five in flight, Java's murmur2 partitioner and Kafka's own times."""
    s = read()
    assert (s.enable_idempotence, s.acks, s.max_in_flight, s.partitioner) == (True, -1, 5, Partitioner.DEFAULT)
    assert (s.linger_ms, s.request_timeout_ms, s.delivery_timeout_ms, s.max_block_ms) == (5, 30_000, 120_000, 60_000)
    assert (s.retries, s.retry_backoff_ms, s.retry_backoff_max_ms) == (2**31 - 1, 100, 1000)
    assert (s.buffer_memory, s.max_request_size, s.compression_type) == (32 * 1024 * 1024, 1024 * 1024, Codec.NONE)
    assert s.batch_size <= BATCH_SIZE_MAX < 1_048_588


@pytest.mark.parametrize(
    ("dotted", "name", "value", "read_as"),
    [
        ("linger.ms", "linger_ms", 7, 7.0),
        ("batch.size", "batch_size", 1000, 1000),
        ("buffer.memory", "buffer_memory", 5_000_000, 5_000_000),
        ("acks", "acks", "1", 1),
        ("enable.idempotence", "enable_idempotence", "false", False),
        ("max.in.flight.requests.per.connection", "max_in_flight", "3", 3),
        ("compression.type", "compression_type", "lz4", Codec.LZ4),
        ("delivery.timeout.ms", "delivery_timeout_ms", "90000", 90_000.0),
        ("client.id", "client_id", "me", "me"),
        ("allow.auto.create.topics", "allow_auto_create_topics", "0", False),
        ("exit.flush.ms", "exit_flush_ms", 10, 10.0),
    ],
)
def test_both_spellings_are_read_alike(dotted: str, name: str, value: object, read_as: object) -> None:
    """Kafka's dotted name and ours give the same setting, numbers and truth values also as text."""
    for key in (dotted, name):
        settings = read_settings({**BARE, key: value})
        assert getattr(settings, name) == read_as
        assert type(getattr(settings, name)) is type(read_as)


def test_every_setting_has_a_dotted_name() -> None:
    """A Kafka configuration can be written completely in Kafka's style."""
    assert set(DOTTED.values()) == set(Settings.__struct_fields__)


def test_a_dictionary_and_keywords_mix() -> None:
    """A dictionary in Kafka's style and keyword arguments together, the keywords winning where both name the same key."""
    with Producer({"bootstrap.servers": "a:1", "linger.ms": 3}, batch_size=99) as producer:
        assert (producer._settings.linger_ms, producer._settings.batch_size) == (3.0, 99)


def test_a_setting_given_twice_is_refused() -> None:
    """A setting in both spellings is an error, even if both values are equal."""
    assert "linger_ms is set twice" in refusal({"linger.ms": 1, "linger_ms": 1})


@pytest.mark.parametrize(
    ("key", "meant"),
    [
        ("linger_msec", "linger_ms"),
        ("linger.msec", "linger.ms"),
        ("bootstrap_server", "bootstrap_servers"),
        ("compresion.type", "compression.type"),
        ("batchsize", "batch_size"),
    ],
)
def test_an_unknown_key_suggests_the_one_that_was_meant(key: str, meant: str) -> None:
    """A misspelt key is refused and the closest one named, in the same spelling."""
    words = refusal({key: 1})
    assert repr(key) in words
    assert repr(meant) in words


@pytest.mark.parametrize(
    ("name", "value", "wanted"),
    [
        ("linger_ms", "fast", "it must be a number"),
        ("batch_size", "big", "it must be a whole number"),
        ("enable_idempotence", "perhaps", "it must be True or False"),
        ("client_id", 5, "it must be text (str)"),
        ("compression_level", "most", "it must be a whole number, or None"),
    ],
)
def test_a_value_of_another_type(name: str, value: object, wanted: str) -> None:
    """The error names the setting, the value and what it must be, in words."""
    assert refusal({name: value}).endswith(f"{name}={value!r}: {wanted}")


def test_every_type_of_a_setting_has_words() -> None:
    """A setting of a new type has words for its error."""
    assert {field.type for field in msgspec.structs.fields(Settings) if field.name not in READERS} <= set(WANTED)


def test_a_key_like_nothing_is_refused_without_a_guess() -> None:
    """No suggestion is better than a wrong one."""
    words = refusal({"zzz": 1})
    assert "'zzz'" in words
    assert "mean" not in words


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"enable_idempotence": True, "acks": 1}, ["enable_idempotence", "acks=1", "all"]),
        ({"enable_idempotence": True, "acks": 0}, ["enable_idempotence", "acks=0", "all"]),
        ({"max_in_flight": 6}, ["enable_idempotence", "max_in_flight", "6", "5"]),
        ({"enable_idempotence": True, "max_in_flight": 8}, ["max_in_flight", "8", "5"]),
        ({"enable_idempotence": True, "retries": 0}, ["enable_idempotence", "retries"]),
        (
            {"linger_ms": 100, "request_timeout_ms": 30_000, "delivery_timeout_ms": 30_050},
            ["delivery_timeout_ms=30050", "linger_ms=100", "request_timeout_ms=30000"],
        ),
        ({"delivery_timeout_ms": 1_000}, ["delivery_timeout_ms=1000", "request_timeout_ms=30000"]),
        ({"buffer_memory": 500_000, "max_request_size": 600_000}, ["max_request_size=600000", "buffer_memory=500000"]),
        ({"retry_backoff_ms": 2_000}, ["retry_backoff_ms=2000", "retry_backoff_max_ms=1000"]),
        ({"reconnect_backoff_ms": 2_000}, ["reconnect_backoff_ms=2000", "reconnect_backoff_max_ms=1000"]),
    ],
)
def test_conflicts_are_refused_with_both_sides(given: dict[str, Any], words: list[str]) -> None:
    """Settings that contradict each other are refused, naming the values, the limit and the settings."""
    said = refusal(given)
    for word in words:
        assert word in said


def test_acks_alone_switch_idempotence_off() -> None:
    """As in the Java client: acks=0 or 1, or retries=0, without a word on idempotence means a producer without it."""
    for given in ({"acks": 1}, {"acks": "0"}, {"retries": 0}):
        assert read(**given).enable_idempotence is False
    assert read(acks="all").enable_idempotence is True
    assert read(acks=1, max_in_flight=50).max_in_flight == 50


def test_defaults_make_room_for_what_was_chosen() -> None:
    """An unset delivery_timeout_ms grows with linger_ms and request_timeout_ms. An unset max_request_size shrinks to buffer_memory."""
    assert read(linger_ms=200_000).delivery_timeout_ms == 230_000
    assert read(buffer_memory=500_000).max_request_size == 500_000


@pytest.mark.parametrize(
    ("name", "value", "limit"),
    [
        ("linger_ms", -1, "0"),
        ("batch_size", -1, "0"),
        ("batch_size", BATCH_SIZE_MAX + 1, "1048576"),
        ("buffer_memory", 10, "1024"),
        ("max_request_size", 1, "1024"),
        ("max_block_ms", -5, "0"),
        ("max_in_flight", 0, "1"),
        ("retries", -1, "0"),
        ("retries", 2**31, "2147483647"),
        ("request_timeout_ms", 0, "1"),
        ("delivery_timeout_ms", 0, "1, or float('inf') for no limit"),
        ("metadata_max_age_ms", 0, "1"),
        ("connections_max_idle_ms", -1, "1, or float('inf') for no limit"),
        ("resolve_grace_ms", -1, "0"),
        ("exit_flush_ms", -1, "0"),
        ("linger_ms", float("nan"), "0"),
    ],
)
def test_what_is_out_of_range_is_refused(name: str, value: object, limit: str) -> None:
    """Each limit is named with the value that broke it."""
    said = refusal({name: value})
    assert f"{name}=" in said
    assert limit in said


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("linger_ms", "soon"),
        ("batch_size", 1.5),
        ("enable_idempotence", "perhaps"),
        ("client_id", 5),
        ("acks", "most"),
        ("acks", True),
        ("acks", 2),
        ("acks", [1]),
        ("compression_type", "brotli"),
        ("partitioner", "lucky"),
        ("bootstrap_servers", "a"),
        ("bootstrap_servers", "a:0"),
        ("bootstrap_servers", "a:70000"),
        ("bootstrap_servers", ":9092"),
        ("bootstrap_servers", ""),
        ("bootstrap_servers", []),
        ("bootstrap_servers", [123]),
        ("bootstrap_servers", None),
    ],
)
def test_what_has_the_wrong_type_or_word_is_refused(name: str, value: object) -> None:
    """A value of the wrong kind is a ConfigError that names the setting and the value, never another exception."""
    said = refusal({name: value})
    assert name in said
    assert (str(value) or "''") in said


@pytest.mark.parametrize(("given", "named"), [({"acks": 1}, "acks=1"), ({"acks": "0"}, "acks=0"), ({"retries": 0}, "retries=0")], ids=str)
def test_losing_idempotence_is_said(given: dict[str, Any], named: str, caplog: pytest.LogCaptureFixture) -> None:
    """Settings that turn idempotence off cause one warning, which names the setting, for either producer. There is no warning if
    `enable_idempotence` is set explicitly, or if idempotence stays on."""
    with caplog.at_level(logging.WARNING, "fencepost.producer"):
        AsyncProducer(bootstrap_servers="a:1", **{**given, "enable.idempotence": False})
        AsyncProducer(bootstrap_servers="a:1")
        AsyncProducer({"enable_idempotence": "false"}, bootstrap_servers="a:1", **given)
        assert not caplog.records
        AsyncProducer(bootstrap_servers="a:1", **given)
        Producer(bootstrap_servers="a:1", **given).close()
    first, second = [record.getMessage() for record in caplog.records]
    assert first == second
    assert first.startswith(f"{named} switches idempotence off")


def test_servers_are_read_from_text_and_lists() -> None:
    """One string with commas, a list, spaces, IPv6 in brackets, and a protocol in front as in `PLAINTEXT://host:port`."""
    from fencepost.producer.config.bootstrap_servers import addresses

    for servers in ("a:1, b:2", ["a:1", "b:2"], ("a:1", " b:2")):
        assert addresses(read(bootstrap_servers=servers)) == [Address("a", 1), Address("b", 2)]
    assert addresses(read(bootstrap_servers="PLAINTEXT://[::1]:9092")) == [Address("::1", 9092)]


@pytest.mark.parametrize(
    "given", ["joe:s3cret@a:9092", "b:1, joe:s3,cret@a:9092", ["SASL_SSL://joe:s3cret@a:9092"], ["joe:s3cret@a"], ["a:x", "s3cret@a", 3]]
)
def test_a_password_before_a_server_is_refused_and_not_shown(given: Any) -> None:
    """As in an URL of other systems. The error names the settings that take it."""
    with pytest.raises(ConfigError, match=r"^bootstrap_servers: '\*{8}@a.* sasl_username and sasl_password$") as refused:
        read(bootstrap_servers=given)
    shown = str(refused.value)
    assert "joe" not in shown
    assert "cret" not in shown


def test_servers_are_needed() -> None:
    """Without a broker to start from there is nothing to do."""
    with pytest.raises(ConfigError, match="bootstrap_servers"):
        read_settings({})


def test_a_config_error_is_a_value_error() -> None:
    """Callers that know nothing of this library catch it as ValueError."""
    with pytest.raises(ValueError, match="acks"):
        Producer(bootstrap_servers="a:1", acks=7)  # type: ignore[arg-type]  # the mistake under test


def test_settings_are_frozen() -> None:
    """What a producer runs with cannot be changed behind its back."""
    with pytest.raises(AttributeError):
        read().linger_ms = 3  # type: ignore[misc]  # it must not work
    assert isinstance(read(), msgspec.Struct)


def test_a_refused_producer_leaves_nothing_behind() -> None:
    """A constructor that raises has started no thread."""
    import threading

    before = threading.active_count()
    with pytest.raises(ConfigError):
        Producer(bootstrap_servers="a:1", linger_ms=-1)
    assert threading.active_count() == before


class Exactly(float):
    """A float of another class, as numpy.float64 is one."""


class Whole(int):
    """An int of another class."""


class Name(str):
    """A str of another class, as a member of a StrEnum is one."""

    __slots__ = ()


@Integral.register
class Machine:
    """A number that is neither int nor float, as numpy.int64 is one."""

    def __init__(self, number: int) -> None:
        self._number = number

    def __index__(self) -> int:
        return self._number

    def __float__(self) -> float:
        return float(self._number)


@pytest.mark.parametrize(
    ("setting", "given", "read_as"),
    [
        ("linger_ms", Exactly(5.5), 5.5),
        ("linger_ms", Machine(5), 5.0),
        ("linger_ms", Fraction(11, 2), 5.5),
        ("batch_size", Whole(5000), 5000),
        ("batch_size", Machine(5000), 5000),
        ("compression_level", Machine(3), 3),
        ("client_id", Name("me"), "me"),
        ("acks", Whole(-1), -1),
    ],
)
def test_numbers_and_texts_of_other_classes(setting: str, given: Any, read_as: object) -> None:
    """Subclasses and numpy's numbers are read as Python's own."""
    kept = getattr(read(**{setting: given}, compression_type="zstd"), setting)
    assert kept == read_as
    assert type(kept) is type(read_as)


@pytest.mark.parametrize("given", [True, None, "soon", 10**400, b"5"])
def test_no_numbers(given: object) -> None:
    """A value that is no number is refused with the setting's name, also one that no float can hold."""
    assert re.match(r"linger_ms=.*: it must be a number$", refusal({"linger_ms": given}))


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"max_in_flight_requests_per_connection": 0}, "max_in_flight_requests_per_connection=0 is out of range"),
        ({"max.in.flight.requests.per.connection": 9}, "needs max.in.flight.requests.per.connection of at most 5, not 9"),
        ({"linger.ms": "soon"}, "linger.ms='soon': it must be a number"),
        ({"retry.backoff.ms": 5_000}, "retry.backoff.ms=5000 exceeds retry_backoff_max_ms=1000"),
        ({"compression.codec": "gzip", "compression.level": 99}, "compression.level=99 is out of range"),
        ({"sasl_plain_username": "a"}, "sasl_plain_username is set, but security_protocol=PLAINTEXT"),
        ({"security.protocol": "SASL_SSL", "sasl.mechanisms": "PLAIN"}, "sasl.mechanisms=PLAIN needs sasl_username"),
        ({"security_protocol": "SSL", "ssl_key_location": "k"}, "ssl_key_location is set without ssl_certfile"),
    ],
)
def test_errors_use_the_name_that_the_caller_wrote(given: dict[str, Any], words: str) -> None:
    """An alias stands in the error as the program has it, so that a search finds it there."""
    assert words in refusal(given)


@pytest.mark.parametrize("given", [deque(["a:1", "b:2"]), UserList(["a:1", "b:2"])])
def test_servers_in_any_sequence(given: Any) -> None:
    """A deque and a UserList are lists of servers, too."""
    assert read(bootstrap_servers=given).bootstrap_servers == ("a:1", "b:2")


@pytest.mark.parametrize("given", [b"a:1", {"a:1": 1}, {"a:1"}, iter(["a:1"]), 5, None])
def test_no_sequence_of_servers(given: Any) -> None:
    """The error says what is wanted, and what was given."""
    with pytest.raises(ConfigError, match=rf"must be a str, or a list of str, not {type(given).__name__}"):
        read(bootstrap_servers=given)


def test_interceptors_in_any_sequence() -> None:
    """A deque of interceptors is as good as a list."""
    assert read(interceptors=deque([print, repr])).interceptors == (print, repr)
