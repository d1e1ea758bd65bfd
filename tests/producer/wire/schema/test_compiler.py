"""The compiler itself: rare forms, invalid declarations, lazy compilation, and sources that a debugger can show."""

import linecache
import subprocess
import sys
import threading
import traceback
from typing import Annotated, Any
from uuid import UUID

import pytest

from fencepost.producer.wire import Malformed, Message, ProduceRequest, UnsupportedFieldValue, decode, encode
from fencepost.producer.wire.schema.compiler import decoder_of, encoder_of
from fencepost.producer.wire.schema.declarations import describe
from fencepost.producer.wire.schema.fields import NEVER, Records, Scalar, WireStruct, f64, i8, i16, i32, nullable, since, tag


class Cursor(WireStruct):
    """A nested struct that may be null."""

    name: str = ""
    index: i32 = 0


class Everything(Message):
    """Every wire type, in forms that are rare in Kafka."""

    api = ProduceRequest.api
    versions = range(4)
    flexible = 2
    is_request = True

    small: i8 = 0
    word: Annotated[int, Scalar("H", 2)] = 0
    long: Annotated[int, Scalar("I", 4)] = 0
    ratio: f64 = 0.0
    blob: bytes = b""
    blob_or_null: bytes | None = None
    names: list[str] = []
    flags: list[bool] = []
    ids: list[UUID] = []
    blobs: list[bytes] = []
    cursor: Annotated[Cursor | None, nullable(1)] = Cursor()
    tagged_names: Annotated[list[str] | None, since(2), tag(1)] = None
    tagged_cursor: Annotated[Cursor | None, since(3), tag(0)] = None


FULL = Everything(
    small=-1,
    word=65535,
    long=4294967295,
    ratio=0.5,
    blob=b"abc",
    blob_or_null=b"",
    names=["", "x" * 200],
    flags=[True, False],
    ids=[UUID(int=5)],
    blobs=[b"", b"z" * 200],
    cursor=Cursor(name="t", index=3),
)


@pytest.mark.parametrize("version", Everything.versions)
def test_every_wire_type_comes_back(version: int) -> None:
    """Types that no message uses yet are also read as they were written."""
    for message in (Everything(), FULL):
        assert decode(Everything, version, encode(message, version)) == message


def test_the_bytes_of_every_wire_type() -> None:
    """Fixed-width types are big endian. A nullable struct follows -1 or 1. Tags are ascending, for every order of declaration."""
    head = "ff ffff ffffffff 3fe0000000000000"
    strings = "00000002 0000 00c8" + "78" * 200
    blobs = "00000002 00000000 000000c8" + "7a" * 200
    lists = strings + "00000002 01 00" + "00000001" + "00" * 15 + "05" + blobs
    assert encode(FULL, 0) == bytes.fromhex(head + "00000003 616263 00000000" + lists + "0001 74 00000003")
    assert encode(FULL, 1) == bytes.fromhex(head + "00000003 616263 00000000" + lists + "01 0001 74 00000003")
    tagged = Everything(cursor=None, tagged_names=["a"], tagged_cursor=Cursor())
    nothing = "00" * 15 + "01 00 01 01 01 01"
    assert encode(tagged, 3) == bytes.fromhex(nothing + "ff" + "02" + "00 07 01 01 00000000 00" + "01 03 02 0261")
    assert decode(Everything, 3, encode(tagged, 3)) == tagged


def test_null_markers_of_structs() -> None:
    """Only -1 and 1 may precede a struct that may be null. Anything else is refused."""
    data = bytearray(encode(Everything(cursor=None), 1))
    assert data[-1] == 0xFF
    for marker in (0x00, 0x02, 0x80, 0xFE):
        data[-1] = marker
        with pytest.raises(Malformed, match=r"Everything\.cursor behind the marker") as caught:
            decode(Everything, 1, data)
        assert caught.value.offset == len(data) - 1
    with pytest.raises(UnsupportedFieldValue, match=r"Everything\.cursor"):
        encode(Everything(cursor=None), 0)


class NestedList(WireStruct):
    """An array of arrays."""

    rows: list[list[i32]] = []


class UnmarkedNull(WireStruct):
    """A null mark on a type that cannot be null."""

    name: Annotated[str, nullable(3)] = ""


class PlainInteger(WireStruct):
    """An integer without a width."""

    count: int = 0


class TaggedRecords(WireStruct):
    """Records in a place where they cannot be referenced."""

    records: Annotated[Records | None, tag(0)] = None


@pytest.mark.parametrize("struct", [NestedList, UnmarkedNull, PlainInteger])
def test_declarations_without_meaning_are_refused(struct: type[WireStruct]) -> None:
    """A declaration without a form on the wire raises a TypeError that names the field, at first use."""
    with pytest.raises(TypeError, match=struct.__name__):
        describe(struct)


def test_records_in_a_tag_are_refused() -> None:
    """Kafka has no records in tags, and they could not be referenced there."""
    with pytest.raises(TypeError, match=r"TaggedRecords\.records"):
        encoder_of(TaggedRecords, 0, flexible=True)


class Alone(WireStruct):
    """A struct that is not a message, as in the value of a record."""

    version: i16 = 0
    name: str = ""


def test_a_struct_that_is_no_message_compiles_too() -> None:
    """Structs of record keys and values use the same compiler. Their Malformed names no API."""
    out = encoder_of(Alone, 0, flexible=False)(Alone(version=1, name="a"), bytearray(), [])
    assert out == bytes.fromhex("0001 0001 61")
    decoder = decoder_of(Alone, 0, flexible=False, api=None)
    assert decoder(bytes(out), 0, len(out)) == Alone(version=1, name="a")
    with pytest.raises(Malformed, match="ends too early") as caught:
        decoder(b"", 0, 0)
    assert caught.value.api is None


def test_a_codec_is_compiled_once() -> None:
    """The second use returns the function of the first."""
    first = decoder_of(Alone, 5, flexible=False, api=None)
    assert decoder_of(Alone, 5, flexible=False, api=None) is first


def test_many_threads_may_need_a_codec_first() -> None:
    """Threads that compile the same codec at once all get a working function."""

    class Fresh(Message):
        api = ProduceRequest.api
        versions = range(50)
        flexible = NEVER
        is_request = True

        name: str = ""

    barrier = threading.Barrier(4)
    failures: list[BaseException] = []

    def work() -> None:
        try:
            barrier.wait(timeout=10)
            for version in Fresh.versions:
                assert decode(Fresh, version, encode(Fresh(name="x"), version)) == Fresh(name="x")
        except BaseException as error:  # noqa: BLE001 - handed to the test
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=30)
    assert not failures
    assert not any(thread.is_alive() for thread in threads)


def test_generated_sources_can_be_shown() -> None:
    """A debugger steps through the source of a codec, and a traceback shows its lines."""
    data = encode(ProduceRequest(), 9)
    visited: list[str] = []

    def trace(frame: Any, event: str, argument: object) -> Any:
        if event == "line" and frame.f_code.co_filename == "<fencepost.producer.wire decode_ProduceRequest_v9>":
            visited.append(linecache.getline(frame.f_code.co_filename, frame.f_lineno))
        return trace

    previous = sys.gettrace()
    sys.settrace(trace)
    try:
        decode(ProduceRequest, 9, data)
    finally:
        sys.settrace(previous)
    assert any("transactional_id = None" in line for line in visited)
    linecache.checkcache()
    with pytest.raises(Malformed) as caught:
        decode(ProduceRequest, 9, data[:-1])
    shown = "".join(traceback.format_exception(caught.value))
    assert 'File "<fencepost.producer.wire decode_ProduceRequest_v9>"' in shown
    assert " = data[pos]\n" in shown


def test_importing_compiles_nothing_and_is_quick() -> None:
    """Importing the wire package takes less than 30 ms of CPU beyond msgspec and compiles nothing."""
    probe = (
        "import importlib.util, sys, time, types\n"
        "import msgspec\n"
        "spec = importlib.util.find_spec('fencepost.producer')\n"
        "sys.modules['fencepost.producer'] = package = types.ModuleType('fencepost.producer')\n"
        "package.__path__ = spec.submodule_search_locations\n"
        "start = time.process_time()\n"
        "import fencepost.producer.wire\n"
        "print(time.process_time() - start)\n"
        "from fencepost.producer.wire.schema import compiler\n"
        "assert not compiler._encoders and not compiler._decoders\n"
        "schema = 'fencepost.producer.wire.schema'\n"
        "assert f'{schema}.encoder' not in sys.modules and f'{schema}.decoder' not in sys.modules\n"
    )
    runs = [subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, timeout=60, check=True) for _ in range(5)]
    assert min(float(run.stdout) for run in runs) < 0.030
