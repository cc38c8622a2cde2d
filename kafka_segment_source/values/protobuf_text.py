"""The text of a `.proto` file → its descriptor, as Google's compiler makes it.

It is a parser of our own: the compiler is 19 MB, wants files on a disk, and ends its process on some texts. Options,
services and extensions are passed over: none of them changes how a message is decoded, but for those that are refused.
Names are resolved later, by Google's library (`protobuf_files.py`), which checks numbers and names too.

The grammar: https://protobuf.dev/reference/protobuf/proto3-spec/ and proto2-spec.
"""

from __future__ import annotations

import base64
import binascii
import re
from typing import Any

from google.protobuf import descriptor_pb2
from google.protobuf.message import DecodeError

from kafka_segment_source.values.avro_schema import MOST_TEXT, shorten
from kafka_segment_source.values.protobuf_errors import ProtobufError
from kafka_segment_source.values.protobuf_tokens import Tokens, to_float, to_int

_MOST_DEPTH = 32  # messages inside one another, as in Google's compiler
_EDITION = "it is written in an edition: only proto2 and proto3 are read"
_MESSAGE_SET = "{} has message_set_wire_format, which is not read"

_Field = descriptor_pb2.FieldDescriptorProto
_SCALARS = {
    name: getattr(_Field, f"TYPE_{name.upper()}")
    for name in (
        *("double", "float", "int32", "int64", "uint32", "uint64", "sint32", "sint64"),
        *("fixed32", "fixed64", "sfixed32", "sfixed64", "bool", "string", "bytes"),
    )
}
_FLOATS = ("double", "float")
_LABELS = {
    "optional": _Field.LABEL_OPTIONAL,
    "required": _Field.LABEL_REQUIRED,
    "repeated": _Field.LABEL_REPEATED,
}
_BASE64 = re.compile(r"[A-Za-z0-9+/\s]+={0,2}\s*")


def parse_file(text: str, name: str) -> Any:
    """Parses a `.proto` file, or the base64 of its descriptor, as registries take it.

    name: its import path. Returns a FileDescriptorProto, whose types are names that are not resolved. Raises
    ProtobufError.
    """
    if len(text) > MOST_TEXT:
        raise ProtobufError(f"its text has more than {MOST_TEXT:,} characters")
    if _BASE64.fullmatch(text):
        try:
            made = descriptor_pb2.FileDescriptorProto.FromString(base64.b64decode("".join(text.split()), validate=True))
        except (binascii.Error, DecodeError):
            pass
        else:
            _refuse_what_is_not_read(made)
            made.name = name
            return made
    try:
        return _Parser(text, name).parse()
    except UnicodeEncodeError as error:  # a lone surrogate, which JSON can write
        raise ProtobufError("its text is not Unicode") from error


def _refuse_what_is_not_read(file: Any) -> None:
    if file.syntax not in ("", "proto2", "proto3"):
        raise ProtobufError(_EDITION)
    waiting = list(file.message_type)
    while waiting:
        message = waiting.pop()
        if message.options.message_set_wire_format:
            raise ProtobufError(_MESSAGE_SET.format(message.name))
        waiting += message.nested_type


class _Parser:
    def __init__(self, text: str, name: str) -> None:
        self._tokens = Tokens(text)
        self._file = descriptor_pb2.FileDescriptorProto(name=name)
        self._depth = 0

    def parse(self) -> Any:
        while (word := self._tokens.peek()) != "":
            if word == "syntax":
                self._read_syntax()
            elif word == "edition":
                raise ProtobufError(_EDITION)
            elif word == "package":
                self._tokens.next()
                self._file.package = self._tokens.read_name()
                self._tokens.expect(";")
            elif word == "import":
                self._read_import()
            elif word == "message":
                self._tokens.next()
                self._read_message(self._file.message_type.add())
            elif word == "enum":
                self._tokens.next()
                self._read_enum(self._file.enum_type.add())
            elif word in ("service", "extend"):
                self._tokens.skip_block()
            elif word == "option":
                self._tokens.skip_statement()
            elif word == ";":
                self._tokens.next()
            else:
                raise self._tokens.wrong("a message")
        return self._file

    def _read_syntax(self) -> None:
        self._tokens.next()
        self._tokens.expect("=")
        syntax = self._tokens.read_text().decode("utf-8", "replace")
        if syntax not in ("proto2", "proto3"):
            raise ProtobufError(f"its syntax is {shorten(syntax)}: only proto2 and proto3 are read")
        if syntax == "proto3":
            self._file.syntax = syntax
        self._tokens.expect(";")

    def _read_import(self) -> None:
        self._tokens.next()
        if self._tokens.peek() == "public":
            self._file.public_dependency.append(len(self._file.dependency))
        if self._tokens.peek() in ("public", "weak"):
            self._tokens.next()
        try:
            self._file.dependency.append(self._tokens.read_text().decode("utf-8"))
        except UnicodeDecodeError as error:
            raise ProtobufError("an import is not UTF-8") from error
        self._tokens.expect(";")

    # ---- messages ----

    def _read_message(self, message: Any) -> None:
        message.name = self._tokens.read_word()
        self._read_body(message)

    def _read_body(self, message: Any) -> None:  # noqa: PLR0912  # one of each statement
        self._depth += 1
        if self._depth > _MOST_DEPTH:
            raise ProtobufError(f"it has more than {_MOST_DEPTH} messages inside one another")
        self._tokens.expect("{")
        optional: list[Any] = []
        while (word := self._tokens.peek()) != "}":
            after = self._tokens.peek(1)
            if word == "message" and self._tokens.peek(2) == "{":
                self._tokens.next()
                self._read_message(message.nested_type.add())
            elif word == "enum" and self._tokens.peek(2) == "{":
                self._tokens.next()
                self._read_enum(message.enum_type.add())
            elif word == "extend" and self._tokens.is_block():
                self._tokens.skip_block()
            elif word == "oneof" and self._tokens.peek(2) == "{":
                self._read_oneof(message)
            elif word == "option" and (after == "(" or self._tokens.peek(2) in ("=", ".")):
                if after == "message_set_wire_format":
                    raise ProtobufError(_MESSAGE_SET.format(message.name))
                self._tokens.skip_statement()
            elif word in ("reserved", "extensions") and self._tokens.peek(2) != "=" and self._tokens.peek(2) != ".":
                self._tokens.skip_statement()
            elif word == ";":
                self._tokens.next()
            else:
                field = self._read_field(message)
                if field is not None:
                    optional.append(field)
        self._tokens.next()
        self._depth -= 1
        taken = {item.name for item in (*message.field, *message.oneof_decl)}
        for field in optional:  # their oneofs come after the others
            name = f"_{field.name}"
            while name in taken:
                name = f"X{name}"
            taken.add(name)
            field.oneof_index = len(message.oneof_decl)
            message.oneof_decl.add(name=name)

    def _read_oneof(self, message: Any) -> None:
        self._tokens.next()
        number = len(message.oneof_decl)
        message.oneof_decl.add(name=self._tokens.read_word())
        self._tokens.expect("{")
        while (word := self._tokens.peek()) != "}":
            if word == "option" and (self._tokens.peek(1) == "(" or self._tokens.peek(2) in ("=", ".")):
                self._tokens.skip_statement()
            elif word == ";":
                self._tokens.next()
            else:
                self._read_field(message, number)
        self._tokens.next()

    def _read_field(self, message: Any, oneof: int | None = None) -> Any | None:
        """Reads a field. Returns it if it is `optional` in proto3."""
        label = None
        if oneof is None and self._tokens.peek() in _LABELS and self._tokens.peek(2) != "=":
            label = self._tokens.next()
        if self._tokens.peek() == "map" and self._tokens.peek(1) == "<":
            if label is not None or oneof is not None:
                raise self._tokens.wrong("a type that may have a label")
            self._read_map(message)
            return None
        kind = self._tokens.read_type_name()
        field = message.field.add(name=self._tokens.read_word(), label=_LABELS[label or "optional"])
        if oneof is not None:
            field.oneof_index = oneof
        self._tokens.expect("=")
        field.number = self._tokens.read_number()
        if self._file.syntax == "proto3" and label == "required":
            raise ProtobufError(f"field {field.name} is required, which proto3 does not have")
        if self._file.syntax != "proto3" and label is None and oneof is None:
            raise ProtobufError(f"field {field.name} has no label, which proto2 wants")
        if kind == "group" and self._tokens.peek() in ("{", "["):
            if self._file.syntax == "proto3":
                raise ProtobufError(f"field {field.name} is a group, which proto3 does not have")
            self._read_options(field)
            nested = message.nested_type.add(name=field.name)
            self._read_body(nested)
            field.name = nested.name.lower()
            field.type, field.type_name = _Field.TYPE_GROUP, nested.name
            return None
        _set_type(field, kind)
        self._read_options(field, kind)
        self._tokens.expect(";")
        if self._file.syntax == "proto3" and label == "optional":
            field.proto3_optional = True
            return field
        return None

    def _read_map(self, message: Any) -> None:
        self._tokens.next()
        self._tokens.expect("<")
        key = self._tokens.read_type_name()
        if key not in _SCALARS or key in (*_FLOATS, "bytes"):
            raise ProtobufError(f"{shorten(key)} is no type of a map's keys")
        self._tokens.expect(",")
        value = self._tokens.read_type_name()
        self._tokens.expect(">")
        name = self._tokens.read_word()
        self._tokens.expect("=")
        field = message.field.add(name=name, label=_Field.LABEL_REPEATED, number=self._tokens.read_number())
        entry = message.nested_type.add(name=_name_entry(name))
        entry.options.map_entry = True
        for at, (part, kind) in enumerate((("key", key), ("value", value)), 1):
            inside = entry.field.add(name=part, number=at, label=_Field.LABEL_OPTIONAL)
            _set_type(inside, kind)
        field.type, field.type_name = _Field.TYPE_MESSAGE, entry.name
        self._read_options(field)
        self._tokens.expect(";")

    def _read_options(self, field: Any, kind: str = "") -> None:
        """Reads what stands in brackets after a field. A default is taken; the others do not count."""
        if self._tokens.peek() != "[":
            return
        self._tokens.next()
        while True:
            name = self._tokens.peek()
            while (token := self._tokens.next()) != "=":
                if token in ("", ";", "]"):
                    raise self._tokens.wrong("the value of an option")
            if name == "default" and kind:
                field.default_value = self._read_default(kind)
            else:
                self._tokens.skip_value((",", "]"))
            if self._tokens.next() == "]":
                return

    def _read_default(self, kind: str) -> str:
        if kind in ("string", "bytes"):
            text = self._tokens.read_text()
            if kind == "bytes":
                return "".join(
                    chr(byte) if chr(byte).isalnum() and chr(byte).isascii() else f"\\{byte:03o}" for byte in text
                )
            try:
                return text.decode("utf-8")
            except UnicodeDecodeError as error:
                raise ProtobufError("a default is not UTF-8") from error
        sign = ""
        while self._tokens.peek() in ("-", "+"):
            sign = "-" if self._tokens.next() == "-" else ""
        token = self._tokens.next()
        if kind in _FLOATS:
            if token in ("inf", "nan"):
                return sign + token
            return sign + repr(to_float(token))
        return sign + (str(to_int(token)) if token[:1].isdigit() else token)

    def _read_enum(self, enum: Any) -> None:
        enum.name = self._tokens.read_word()
        self._tokens.expect("{")
        while (word := self._tokens.peek()) != "}":
            if word == "option" and self._tokens.peek(1) != "=":
                if self._tokens.peek(1) == "allow_alias":
                    enum.options.allow_alias = True
                self._tokens.skip_statement()
            elif word == "reserved" and self._tokens.peek(1) != "=":
                self._tokens.skip_statement()
            elif word == ";":
                self._tokens.next()
            else:
                value = enum.value.add(name=self._tokens.read_word())
                self._tokens.expect("=")
                sign = -1 if self._tokens.peek() == "-" and self._tokens.next() else 1
                number = sign * self._tokens.read_number(2**31)
                value.number = number
                if self._tokens.peek() == "[":
                    self._tokens.skip_value((";",))
                self._tokens.expect(";")
        self._tokens.next()


def _set_type(field: Any, kind: str) -> None:
    if kind in _SCALARS:
        field.type = _SCALARS[kind]
    else:
        field.type_name = kind


def _name_entry(name: str) -> str:
    """The name of the message that a map's entries are, as Google's compiler makes it."""
    return "".join(part[:1].upper() + part[1:] for part in name.split("_")) + "Entry"
