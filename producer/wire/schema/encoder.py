"""Writes the source of encoders: one straight function per (message, version), with nested structs and arrays inlined.

One call writes neighbouring fields of fixed width. If the version lacks a field that has a value, the encoder raises UnsupportedFieldValue,
unless the field is ignorable.
"""

from __future__ import annotations

from struct import pack
from typing import Any
from uuid import UUID

from fencepost.producer.wire.schema import runtime
from fencepost.producer.wire.schema.declarations import Array, Blob, FieldSpec, Kind, Nested, Text, Uuid, describe
from fencepost.producer.wire.schema.fields import NEVER, RecordsType, Scalar, WireStruct
from fencepost.producer.wire.schema.source import Source


class EncoderWriter:
    """Writes `name(message, out, parts)`, which appends to `out` and returns the last buffer.

    If the encoder does not copy records, it moves the contents of `out` and then the records to `parts`, and continues with a new buffer.
    """

    def __init__(self, struct: type[WireStruct], version: int, *, flexible: bool) -> None:
        self.name = f"encode_{struct.__name__}_v{version}"
        self._version = version
        self._flexible = flexible
        self._source = Source("message", "out", "parts", "bytearray", "bytes", "len", "tuple", "type")
        self._pending: list[tuple[str, str]] = []
        self._inside_tag = False
        self._is_tag = False  # whether the next value is a tagged field itself
        for helper in (runtime.absent, runtime.not_null, runtime.too_long, runtime.uvarint, runtime.records_size):
            self._source.constant(helper.__name__, helper)
        self._source.constant("pack", pack)
        with self._source.block(f"def {self.name}(message, out, parts):"):
            self._struct(struct, "message")
            self._flush()
            self._source.line("return out")

    @property
    def text(self) -> str:
        """The source."""
        return self._source.text()

    @property
    def constants(self) -> dict[str, object]:
        """The objects that the source refers to, by name."""
        return self._source.constants

    def _struct(self, struct: type[WireStruct], owner: str) -> None:
        """Write the fields of the struct that the expression `owner` names."""
        tagged = []
        for field in describe(struct):
            where = f"{struct.__name__}.{field.name}"
            if not field.present(self._version):
                if not field.ignorable:
                    with self._source.block(f"if {self._differs(field, f'{owner}.{field.name}')}:"):
                        self._source.line(f'raise absent("{where}", {self._version})')
            elif field.tag is None:
                self._field(field, f"{owner}.{field.name}", where)
            else:
                tagged.append(field)
        if not self._flexible:
            return
        if tagged:
            self._tags(struct, owner, tagged)
        else:
            self._pending.append(("x", ""))

    def _field(self, field: FieldSpec, expression: str, where: str) -> None:
        """Write one field, after a check that this version can express a null."""
        if isinstance(field.kind, Scalar | Uuid) or (isinstance(field.kind, Nested) and field.nullable == NEVER):
            self._value(field.kind, field.name, expression, where, nullable=False)
            return
        value = expression
        if not expression.isidentifier():
            value = self._source.local(field.name)
            self._source.line(f"{value} = {expression}")
        nullable = field.nullable_in(self._version)
        if field.nullable != NEVER and not nullable:
            with self._source.block(f"if {value} is None:"):
                self._source.line(f'raise not_null("{where}", {self._version})')
        self._value(field.kind, field.name, value, where, nullable=nullable)

    def _value(self, kind: Kind, name: str, value: str, where: str, *, nullable: bool) -> None:
        """Write one value. If the code uses the expression more than once, the caller passes a plain name."""
        is_tag, self._is_tag = self._is_tag, False
        match kind:
            case Scalar():
                self._pending.append((kind.code, value))
            case Uuid():
                self._pending.append(("16s", f"{value}.bytes"))
            case Text():
                self._text(name, value, where, nullable=nullable)
            case Blob():
                self._blob(name, value, nullable=nullable)
            case RecordsType():
                self._records(name, value, where, nullable=nullable)
            case Array():
                self._array(kind, name, value, where, nullable=nullable)
            case Nested():
                self._nested(kind, value, nullable=nullable, null=0 if is_tag else 255)

    def _text(self, name: str, value: str, where: str, *, nullable: bool) -> None:
        source = self._source
        raw, size = source.local(f"{name}_raw"), source.local(f"{name}_size")
        if nullable:
            source.line(f'{raw} = b"" if {value} is None else {value}.encode()')
            source.line(f"{size} = -1 if {value} is None else len({raw})")
        else:
            source.line(f"{raw} = {value}.encode()")
            source.line(f"{size} = len({raw})")
        with source.block(f"if {size} > 32767:"):
            source.line(f'raise too_long("{where}", {size})')
        self._length("h", size)
        source.line(f"out += {raw}")

    def _blob(self, name: str, value: str, *, nullable: bool) -> None:
        source = self._source
        size = source.local(f"{name}_size")
        source.line(f"{size} = -1 if {value} is None else len({value})" if nullable else f"{size} = len({value})")
        self._length("i", size)
        with source.block(f"if {size} > 0:"):
            source.line(f"out += {value}")

    def _records(self, name: str, value: str, where: str, *, nullable: bool) -> None:
        """Write records. If copying costs more than one more buffer, the caller's own object goes between two buffers."""
        if self._inside_tag:
            raise TypeError(f"{where}: records in a tagged field have no form here")
        source = self._source
        size = source.local(f"{name}_size")
        measured = f"len({value}) if type({value}) is bytes else records_size({value})"
        source.line(f"{size} = -1 if {value} is None else {measured}" if nullable else f"{size} = {measured}")
        self._length("i", size)
        with source.block(f"if {size} > {runtime.RECORDS_COPIED_BYTES_MAX}:"):
            source.line("parts.append(out)")
            with source.block(f"if type({value}) is tuple:"):
                source.line(f"parts.extend({value})")
            with source.block("else:"):
                source.line(f"parts.append({value})")
            source.line("out = bytearray()")
        with source.block(f"elif {size} > 0:"):
            source.line(f'out += b"".join({value}) if type({value}) is tuple else {value}')

    def _array(self, kind: Array, name: str, value: str, where: str, *, nullable: bool) -> None:
        source = self._source
        size = source.local(f"{name}_size")
        source.line(f"{size} = -1 if {value} is None else len({value})" if nullable else f"{size} = len({value})")
        self._length("i", size)
        if isinstance(kind.element, Scalar):
            with source.block(f"if {size} > 0:"):
                source.line(f'out += pack(f">{{{size}}}{kind.element.code}", *{value})')
            return
        element = source.local(f"{name}_item")
        with source.block(f"for {element} in {value} or ():" if nullable else f"for {element} in {value}:"):
            self._value(kind.element, element, element, where, nullable=False)
            self._flush()

    def _nested(self, kind: Nested, value: str, *, nullable: bool, null: int) -> None:
        """Write a nested struct. A struct that may be null has a marker byte in front, which is another one for null in a tag."""
        if not nullable:
            self._struct(kind.struct, value)
            return
        self._flush()
        with self._source.block(f"if {value} is None:"):
            self._source.line(f"out.append({null})")
        with self._source.block("else:"):
            self._source.line("out.append(1)")
            self._struct(kind.struct, value)
            self._flush()

    def _tags(self, struct: type[WireStruct], owner: str, fields: list[FieldSpec]) -> None:
        """Write the tag buffer: only fields that differ from their default, ids ascending, each value after its size."""
        source = self._source
        self._flush()
        fields = sorted(fields, key=lambda field: field.tag or 0)
        values = {field.name: source.local(field.name) for field in fields}
        chosen = {field.name: source.local(f"has_{field.name}") for field in fields}
        for field in fields:
            source.line(f"{values[field.name]} = {owner}.{field.name}")
            source.line(f"{chosen[field.name]} = {self._differs(field, values[field.name])}")
        source.line(f"out.append({' + '.join(chosen.values())})")
        outer = source.local("outer")
        for field in fields:
            with source.block(f"if {chosen[field.name]}:"):
                source.line(f"{outer} = out")
                source.line("out = bytearray()")
                was_inside, self._inside_tag = self._inside_tag, True
                self._is_tag = True
                self._field(field, values[field.name], f"{struct.__name__}.{field.name}")
                self._flush()
                self._inside_tag = was_inside
                source.line(f"{outer} += {runtime.uvarint(field.tag or 0)!r} + uvarint(len(out)) + out")
                source.line(f"out = {outer}")

    def _length(self, code: str, size: str) -> None:
        """Write a length or a count, -1 for null, and flush."""
        if not self._flexible:
            self._pending.append((code, size))
            self._flush()
            return
        self._flush()
        with self._source.block(f"if {size} < 127:"):
            self._source.line(f"out.append({size} + 1)")
        with self._source.block("else:"):
            self._source.line(f"out += uvarint({size} + 1)")

    def _flush(self) -> None:
        """Write one call that writes all queued values."""
        if not self._pending:
            return
        codes = "".join(code for code, _ in self._pending)
        if codes.strip("x"):
            pack, _ = self._source.layout(codes, "pack")
            self._source.line(f"out += {pack}({', '.join(value for code, value in self._pending if code != 'x')})")
        else:
            self._source.line(f"out += {bytes(len(codes))!r}")
        self._pending.clear()

    def _differs(self, field: FieldSpec, value: str) -> str:
        """An expression that is true if the value differs from the field's default."""
        default: Any = field.default
        if default is None:
            return f"{value} is not None"
        if default == [] and isinstance(field.kind, Array):
            return f"({value} is None or len({value}) > 0)"
        if isinstance(default, WireStruct | UUID):
            name = self._source.constant(f"default_{field.name}", default)
            return f"({value} is not {name} and {value} != {name})"
        return f"{value} != {default!r}"
