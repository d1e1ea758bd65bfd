"""Writes the source of decoders: one straight function per (message, version), with nested structs and arrays inlined.

One call reads neighbouring fields of fixed width, together with the length of what follows them. The decoder compares every length and
count with the remaining bytes before it allocates. For data that break the layout it raises Malformed.
"""

from __future__ import annotations

from struct import unpack_from

from fencepost.producer.foundations.counted import counted
from fencepost.producer.wire.schema import runtime
from fencepost.producer.wire.schema.declarations import Array, Blob, FieldSpec, Kind, Nested, Text, Uuid, describe, smallest_size
from fencepost.producer.wire.schema.fields import RecordsType, Scalar, WireStruct
from fencepost.producer.wire.schema.source import Source

LENGTH_CODES = {Text: "h", Blob: "i", RecordsType: "i", Array: "i"}


class DecoderWriter:
    """Writes `name(data, pos, end)`, which reads one struct from exactly the bytes between `pos` and `end`, and returns it."""

    def __init__(self, struct: type[WireStruct], version: int, *, flexible: bool, api: int | None) -> None:
        self.name = f"decode_{struct.__name__}_v{version}"
        self._version = version
        self._flexible = flexible
        self._source = Source("data", "pos", "end", "view", "stop", "error", "range", "str", "list", "bytes", "memoryview", "_")
        self._pending: list[tuple[str, str]] = []
        self._is_tag = False  # whether the next value is a tagged field itself
        for helper in (runtime.LayoutBroken, counted, runtime.malformed, runtime.read_uvarint, runtime.skip_tags, runtime.uuid_of):
            self._source.constant(helper.__name__, helper)
        self._source.constant("REFUSALS", runtime.REFUSALS)
        self._source.constant("unpack_from", unpack_from)
        self._write(struct, api)

    @property
    def text(self) -> str:
        """The source."""
        return self._source.text()

    @property
    def constants(self) -> dict[str, object]:
        """The objects that the source refers to, by name."""
        return self._source.constants

    def _write(self, struct: type[WireStruct], api: int | None) -> None:
        source = self._source
        with source.block(f"def {self.name}(data, pos, end):"):
            if _holds_records(struct, self._version):
                source.line("view = memoryview(data)")
            with source.block("try:"):
                result = self._struct(struct)
                with source.block("if pos != end:"):
                    source.line("raise LayoutBroken(f\"{counted(end - pos, 'byte')} too many\", pos)")
                source.line(f"return {result}")
            with source.block("except REFUSALS as error:"):
                source.line(f"raise malformed(error, pos, {None if api is None else int(api)}, {self._version}) from error")

    def _struct(self, struct: type[WireStruct]) -> str:
        """Write the reading of a struct's fields; return the expression that builds the struct."""
        present = [field for field in describe(struct) if field.present(self._version)]
        arguments = {}
        for field in present:
            if field.tag is None:
                nullable = field.nullable_in(self._version)
                arguments[field.name] = self._value(field.kind, field.name, f"{struct.__name__}.{field.name}", nullable=nullable)
        if self._flexible:
            arguments |= self._tags(struct, [field for field in present if field.tag is not None])
        self._flush()
        maker = self._source.constant(struct.__name__, struct)
        return f"{maker}({', '.join(f'{name}={value}' for name, value in arguments.items())})"

    def _value(self, kind: Kind, name: str, where: str, *, nullable: bool) -> str:
        """Write the reading of one value; return the expression for it. The expression is valid after the next flush."""
        is_tag, self._is_tag = self._is_tag, False
        match kind:
            case Scalar():
                return self._fixed(kind.code, name)
            case Uuid():
                return f"uuid_of({self._fixed('16s', name)})"
            case Nested():
                return self._nested(kind, name, where, nullable=nullable, null=0 if is_tag else -1)
        size = self._length(kind, name)
        result = self._source.local(name)
        if nullable:
            with self._source.block(f"if {size} == -1:"):
                self._source.line(f"{result} = None")
            with self._source.block("else:"):
                self._sized(kind, size, result, where)
        else:
            self._sized(kind, size, result, where)
        return result

    def _sized(self, kind: Text | Blob | RecordsType | Array, size: str, result: str, where: str) -> None:
        """Write the reading of a value with a length or a count in front. The caller has handled null."""
        source = self._source
        match kind:
            case Array():
                self._array(kind, size, result, where)
                return
            case Text():
                limit = f"not 0 <= {size} <= 32767" if self._flexible else f"{size} < 0"
                value = 'str(data[pos:stop], "utf-8")'
            case Blob():
                limit, value = f"{size} < 0", "bytes(data[pos:stop])"
            case RecordsType():
                limit, value = f"{size} < 0", "view[pos:stop]"
        source.line(f"stop = pos + {size}")
        with source.block(f"if {limit} or stop > end:"):
            source.line(
                f"raise LayoutBroken(f\"{where} of length {{{size}}} where {{counted(end - pos, 'byte is', 'bytes are')}} left\", pos)"
            )
        source.line(f"{result} = {value}")
        source.line("pos = stop")

    def _array(self, kind: Array, size: str, result: str, where: str) -> None:
        """Write the reading of the elements after a count. The decoder first compares the count with the fewest bytes that the elements can
        take.
        """
        source = self._source
        smallest = max(1, smallest_size(kind.element, self._version, flexible=self._flexible))
        with source.block(f"if {size} < 0 or {size} * {smallest} > end - pos:"):
            source.line(f"raise LayoutBroken(f\"{where} of {{counted({size}, 'element')}} in {{counted(end - pos, 'byte')}}\", pos)")
        if isinstance(kind.element, Scalar):
            source.line(f'{result} = list(unpack_from(f">{{{size}}}{kind.element.code}", data, pos))')
            source.line(f"pos += {size} * {smallest}")
            return
        source.line(f"{result} = []")
        with source.block(f"for _ in range({size}):"):
            element = self._value(kind.element, f"{result}_item", where, nullable=False)
            self._flush()
            source.line(f"{result}.append({element})")

    def _nested(self, kind: Nested, name: str, where: str, *, nullable: bool, null: int) -> str:
        """Write the reading of a nested struct. A struct that may be null has a marker byte in front, another one for null in a tag."""
        if not nullable:
            return self._struct(kind.struct)
        source = self._source
        marker = self._fixed("b", f"{name}_marker")
        self._flush()
        result = source.local(name)
        with source.block(f"if {marker} == {null}:"):
            source.line(f"{result} = None")
        with source.block(f"elif {marker} == 1:"):
            source.line(f"{result} = {self._struct(kind.struct)}")
        with source.block("else:"):
            source.line(f'raise LayoutBroken(f"{where} behind the marker {{{marker}}}", pos - 1)')
        return result

    def _tags(self, struct: type[WireStruct], fields: list[FieldSpec]) -> dict[str, str]:
        """Write the reading of the tag buffer at the end of a struct. It skips unknown tags; of equal tags the last one counts, as in
        Kafka.
        """
        source = self._source
        arguments = {}
        for field in fields:
            arguments[field.name] = source.local(field.name)
        count = self._fixed("B", "tags")
        self._flush()
        for field in fields:
            default = "[]" if field.default == [] else source.constant(f"default_{field.name}", field.default)
            source.line(f"{arguments[field.name]} = {default}")
        with source.block(f"if {count}:"):
            if not fields:
                source.line("pos = skip_tags(data, pos - 1, end)")
                return arguments
            number, limit = source.local("tag"), source.local("tag_end")
            source.line(f"{count}, pos = read_uvarint(data, pos - 1)")
            with source.block(f"if {count} * 2 > end - pos:"):
                source.line(f"raise LayoutBroken(f\"{{counted({count}, 'tag')}} in {{counted(end - pos, 'byte')}}\", pos)")
            with source.block(f"for _ in range({count}):"):
                source.line(f"{number}, pos = read_uvarint(data, pos)")
                source.line(f"{limit}, pos = read_uvarint(data, pos)")
                source.line(f"{limit} += pos")
                with source.block(f"if {limit} > end:"):
                    source.line(f"raise LayoutBroken(f\"a tag of {{counted({limit} - pos, 'byte')}} where {{end - pos}} are left\", pos)")
                for index, field in enumerate(fields):
                    with source.block(f"{'elif' if index else 'if'} {number} == {field.tag}:"):
                        where = f"{struct.__name__}.{field.name}"
                        self._is_tag = True
                        value = self._value(field.kind, field.name, where, nullable=field.nullable_in(self._version))
                        self._flush()
                        source.line(f"{arguments[field.name]} = {value}")
                        with source.block(f"if pos != {limit}:"):
                            source.line(f'raise LayoutBroken("{where} does not fill its tag", pos)')
                with source.block("else:"):
                    source.line(f"pos = {limit}")
        return arguments

    def _length(self, kind: Text | Blob | RecordsType | Array, name: str) -> str:
        """Write the reading of a length or a count into a local, -1 for null, and flush."""
        size = self._fixed("B" if self._flexible else LENGTH_CODES[type(kind)], f"{name}_size")
        self._flush()
        if self._flexible:
            # The first byte was read with the fixed fields in front of it. A longer varint is read again from its start.
            with self._source.block(f"if {size} > 127:"):
                self._source.line(f"{size}, pos = read_uvarint(data, pos - 1)")
            self._source.line(f"{size} -= 1")
        return size

    def _fixed(self, code: str, name: str) -> str:
        """Queue a value of fixed width. Its local has the value after the next flush."""
        result = self._source.local(name)
        self._pending.append((code, result))
        return result

    def _flush(self) -> None:
        """Write one call that reads all queued values."""
        if not self._pending:
            return
        codes = "".join(code for code, _ in self._pending)
        names = ", ".join(name for _, name in self._pending)
        if codes == "B":
            self._source.line(f"{names} = data[pos]")
            self._source.line("pos += 1")
        else:
            unpack, size = self._source.layout(codes, "unpack_from")
            self._source.line(f"{names}{',' if len(self._pending) == 1 else ''} = {unpack}(data, pos)")
            self._source.line(f"pos += {size}")
        self._pending.clear()


def _holds_records(struct: type[WireStruct], version: int) -> bool:
    """Whether the struct has records somewhere in this version."""
    for field in describe(struct):
        kind = field.kind.element if isinstance(field.kind, Array) else field.kind
        if field.present(version) and (
            isinstance(kind, RecordsType) or (isinstance(kind, Nested) and _holds_records(kind.struct, version))
        ):
            return True
    return False
