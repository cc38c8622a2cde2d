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

from kafka_segment_source.values.avro_schema import shorten
from kafka_segment_source.values.protobuf_errors import ProtobufError

MOST_TEXT = 8 * 1024 * 1024  # characters
_MOST_TOKENS = 500_000
_MOST_DEPTH = 32  # messages inside one another, as in Google's compiler
_MOST_DIGITS = 25  # of a number
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
_TOKEN = re.compile(
    r"\s+|//[^\n]*|/\*.*?\*/"
    r"|(?P<word>[A-Za-z_]\w*)"
    r"|(?P<number>\.?[0-9](?:[eE][+-]|[\w.])*)"
    r"""|(?P<text>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')"""
    r"|(?P<sign>[][{}()<>=;,.:/+-])",
    re.DOTALL | re.ASCII,
)
_ESCAPE = re.compile(r"\\(x[0-9a-fA-F]{1,2}|[0-7]{1,3}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|.)", re.DOTALL)
_PLAIN_ESCAPES = {"a": 7, "b": 8, "f": 12, "n": 10, "r": 13, "t": 9, "v": 11}
_BASE64 = re.compile(r"[A-Za-z0-9+/\s]+={0,2}\s*")
_CLOSING = {"{": "}", "[": "]", "(": ")", "<": ">"}


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
        self._tokens = _split(text)
        self._at = 0
        self._file = descriptor_pb2.FileDescriptorProto(name=name)
        self._depth = 0

    def parse(self) -> Any:
        while (word := self._peek()) != "":
            if word == "syntax":
                self._read_syntax()
            elif word == "edition":
                raise ProtobufError(_EDITION)
            elif word == "package":
                self._next()
                self._file.package = self._read_name()
                self._expect(";")
            elif word == "import":
                self._read_import()
            elif word == "message":
                self._next()
                self._read_message(self._file.message_type.add())
            elif word == "enum":
                self._next()
                self._read_enum(self._file.enum_type.add())
            elif word in ("service", "extend"):
                self._skip_block()
            elif word == "option":
                self._skip_statement()
            elif word == ";":
                self._next()
            else:
                raise self._wrong("a message")
        return self._file

    def _read_syntax(self) -> None:
        self._next()
        self._expect("=")
        syntax = self._read_text().decode("utf-8", "replace")
        if syntax not in ("proto2", "proto3"):
            raise ProtobufError(f"its syntax is {shorten(syntax)}: only proto2 and proto3 are read")
        if syntax == "proto3":
            self._file.syntax = syntax
        self._expect(";")

    def _read_import(self) -> None:
        self._next()
        if self._peek() == "public":
            self._file.public_dependency.append(len(self._file.dependency))
        if self._peek() in ("public", "weak"):
            self._next()
        try:
            self._file.dependency.append(self._read_text().decode("utf-8"))
        except UnicodeDecodeError as error:
            raise ProtobufError("an import is not UTF-8") from error
        self._expect(";")

    # ---- messages ----

    def _read_message(self, message: Any) -> None:
        message.name = self._read_word()
        self._read_body(message)

    def _read_body(self, message: Any) -> None:  # noqa: PLR0912  # one of each statement
        self._depth += 1
        if self._depth > _MOST_DEPTH:
            raise ProtobufError(f"it has more than {_MOST_DEPTH} messages inside one another")
        self._expect("{")
        optional: list[Any] = []
        while (word := self._peek()) != "}":
            after = self._peek(1)
            if word == "message" and self._peek(2) == "{":
                self._next()
                self._read_message(message.nested_type.add())
            elif word == "enum" and self._peek(2) == "{":
                self._next()
                self._read_enum(message.enum_type.add())
            elif word == "extend" and self._is_block():
                self._skip_block()
            elif word == "oneof" and self._peek(2) == "{":
                self._read_oneof(message)
            elif word == "option" and (after == "(" or self._peek(2) in ("=", ".")):
                if after == "message_set_wire_format":
                    raise ProtobufError(_MESSAGE_SET.format(message.name))
                self._skip_statement()
            elif word in ("reserved", "extensions") and self._peek(2) != "=" and self._peek(2) != ".":
                self._skip_statement()
            elif word == ";":
                self._next()
            else:
                field = self._read_field(message)
                if field is not None:
                    optional.append(field)
        self._next()
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
        self._next()
        number = len(message.oneof_decl)
        message.oneof_decl.add(name=self._read_word())
        self._expect("{")
        while (word := self._peek()) != "}":
            if word == "option" and (self._peek(1) == "(" or self._peek(2) in ("=", ".")):
                self._skip_statement()
            elif word == ";":
                self._next()
            else:
                self._read_field(message, number)
        self._next()

    def _read_field(self, message: Any, oneof: int | None = None) -> Any | None:
        """Reads a field. Returns it if it is `optional` in proto3."""
        label = None
        if oneof is None and self._peek() in _LABELS and self._peek(2) != "=":
            label = self._next()
        if self._peek() == "map" and self._peek(1) == "<":
            if label is not None or oneof is not None:
                raise self._wrong("a type that may have a label")
            self._read_map(message)
            return None
        kind = self._read_type_name()
        field = message.field.add(name=self._read_word(), label=_LABELS[label or "optional"])
        if oneof is not None:
            field.oneof_index = oneof
        self._expect("=")
        field.number = self._read_number()
        if self._file.syntax == "proto3" and label == "required":
            raise ProtobufError(f"field {field.name} is required, which proto3 does not have")
        if self._file.syntax != "proto3" and label is None and oneof is None:
            raise ProtobufError(f"field {field.name} has no label, which proto2 wants")
        if kind == "group" and self._peek() in ("{", "["):
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
        self._expect(";")
        if self._file.syntax == "proto3" and label == "optional":
            field.proto3_optional = True
            return field
        return None

    def _read_map(self, message: Any) -> None:
        self._next()
        self._expect("<")
        key = self._read_type_name()
        if key not in _SCALARS or key in (*_FLOATS, "bytes"):
            raise ProtobufError(f"{shorten(key)} is no type of a map's keys")
        self._expect(",")
        value = self._read_type_name()
        self._expect(">")
        name = self._read_word()
        self._expect("=")
        field = message.field.add(name=name, label=_Field.LABEL_REPEATED, number=self._read_number())
        entry = message.nested_type.add(name=_name_entry(name))
        entry.options.map_entry = True
        for at, (part, kind) in enumerate((("key", key), ("value", value)), 1):
            inside = entry.field.add(name=part, number=at, label=_Field.LABEL_OPTIONAL)
            _set_type(inside, kind)
        field.type, field.type_name = _Field.TYPE_MESSAGE, entry.name
        self._read_options(field)
        self._expect(";")

    def _read_options(self, field: Any, kind: str = "") -> None:
        """Reads what stands in brackets after a field. A default is taken; the others do not count."""
        if self._peek() != "[":
            return
        self._next()
        while True:
            name = self._peek()
            while (token := self._next()) != "=":
                if token in ("", ";", "]"):
                    raise self._wrong("the value of an option")
            if name == "default" and kind:
                field.default_value = self._read_default(kind)
            else:
                self._skip_value((",", "]"))
            if self._next() == "]":
                return

    def _read_default(self, kind: str) -> str:
        if kind in ("string", "bytes"):
            text = self._read_text()
            if kind == "bytes":
                return "".join(
                    chr(byte) if chr(byte).isalnum() and chr(byte).isascii() else f"\\{byte:03o}" for byte in text
                )
            try:
                return text.decode("utf-8")
            except UnicodeDecodeError as error:
                raise ProtobufError("a default is not UTF-8") from error
        sign = ""
        while self._peek() in ("-", "+"):
            sign = "-" if self._next() == "-" else ""
        token = self._next()
        if kind in _FLOATS:
            if token in ("inf", "nan"):
                return sign + token
            return sign + repr(_to_float(token))
        return sign + (str(_to_int(token)) if token[:1].isdigit() else token)

    def _read_enum(self, enum: Any) -> None:
        enum.name = self._read_word()
        self._expect("{")
        while (word := self._peek()) != "}":
            if word == "option" and self._peek(1) != "=":
                if self._peek(1) == "allow_alias":
                    enum.options.allow_alias = True
                self._skip_statement()
            elif word == "reserved" and self._peek(1) != "=":
                self._skip_statement()
            elif word == ";":
                self._next()
            else:
                value = enum.value.add(name=self._read_word())
                self._expect("=")
                sign = -1 if self._peek() == "-" and self._next() else 1
                number = sign * self._read_number(2**31)
                value.number = number
                if self._peek() == "[":
                    self._skip_value((";",))
                self._expect(";")
        self._next()

    # ---- tokens ----

    def _peek(self, ahead: int = 0) -> str:
        at = self._at + ahead
        return self._tokens[at] if at < len(self._tokens) else ""

    def _next(self) -> str:
        token = self._peek()
        if token == "":
            raise ProtobufError("its text ends inside a statement")
        self._at += 1
        return token

    def _expect(self, token: str) -> None:
        if self._peek() != token:
            raise self._wrong(repr(token))
        self._at += 1

    def _wrong(self, expected: str) -> ProtobufError:
        before = " ".join(self._tokens[max(self._at - 6, 0) : self._at])
        return ProtobufError(f"found {shorten(self._peek() or 'the end')} after {shorten(before)}, expected {expected}")

    def _read_word(self) -> str:
        token = self._peek()
        if not (token[:1].isalpha() or token[:1] == "_"):
            raise self._wrong("a name")
        self._at += 1
        return token

    def _read_name(self) -> str:
        parts = [self._read_word()]
        while self._peek() == ".":
            self._next()
            parts.append(self._read_word())
        return ".".join(parts)

    def _read_type_name(self) -> str:
        if self._peek() == ".":
            self._next()
            return "." + self._read_name()
        return self._read_name()

    def _read_number(self, most: int = 2**29 - 1) -> int:
        token = self._peek()
        if not token[:1].isdigit():
            raise self._wrong("a number")
        number = _to_int(self._next())
        if number > most:
            raise ProtobufError(f"{number} is more than {most}")
        return number

    def _read_text(self) -> bytes:
        if self._peek()[:1] not in ('"', "'"):
            raise self._wrong("a text in quotes")
        parts = []
        while self._peek()[:1] in ('"', "'") and self._peek():
            parts.append(_unescape(self._next()[1:-1]))
        return b"".join(parts)

    def _is_block(self) -> bool:
        """Whether a name and a brace follow."""
        at = 1
        while self._peek(at) == "." or self._peek(at).isidentifier():
            at += 1
        return self._peek(at) == "{"

    def _skip_statement(self) -> None:
        self._skip_value((";",))
        self._expect(";")

    def _skip_block(self) -> None:
        while self._peek() != "{":
            self._next()
        self._skip_brackets()

    def _skip_value(self, ends: tuple[str, ...]) -> None:
        """Skips to one of `ends` that is not inside brackets."""
        while self._peek() not in ends:
            if self._peek() in ("{", "[", "("):
                self._skip_brackets()
            else:
                self._next()

    def _skip_brackets(self) -> None:
        depth = 0
        while True:
            token = self._next()
            depth += (token in ("{", "[", "(")) - (token in ("}", "]", ")"))
            if depth == 0:
                return


def _split(text: str) -> list[str]:
    tokens, at = [], 0
    text = text.removeprefix("\ufeff")
    for match in _TOKEN.finditer(text):
        if match.start() != at:
            break
        at = match.end()
        if match.lastgroup is not None:
            tokens.append(match.group())
            if len(tokens) > _MOST_TOKENS:
                raise ProtobufError(f"its text has more than {_MOST_TOKENS:,} words")
    if at != len(text):
        raise ProtobufError(f"found {shorten(text[at : at + 20])} after {shorten(' '.join(tokens[-6:]))}")
    return tokens


def _set_type(field: Any, kind: str) -> None:
    if kind in _SCALARS:
        field.type = _SCALARS[kind]
    else:
        field.type_name = kind


def _name_entry(name: str) -> str:
    """The name of the message that a map's entries are, as Google's compiler makes it."""
    return "".join(part[:1].upper() + part[1:] for part in name.split("_")) + "Entry"


def _to_int(token: str) -> int:
    if len(token) > _MOST_DIGITS:
        raise ProtobufError(f"{shorten(token)} is no number")
    try:
        if token[:2] in ("0x", "0X"):
            return int(token[2:], 16)
        return int(token, 8) if token.startswith("0") else int(token)
    except ValueError as error:
        raise ProtobufError(f"{shorten(token)} is no number") from error


def _to_float(token: str) -> float:
    try:
        if token[:2] in ("0x", "0X") or (token.startswith("0") and token.isdigit()):
            return float(_to_int(token))
        return float(token.rstrip("fF"))
    except ValueError as error:
        raise ProtobufError(f"{shorten(token)} is no number") from error


def _unescape(text: str) -> bytes:
    made, at = bytearray(), 0
    for match in _ESCAPE.finditer(text):
        made += text[at : match.start()].encode()
        at = match.end()
        escape = match.group(1)
        if escape[0] in "uU":
            number = int(escape[1:], 16)
            if number > 0x10FFFF or 0xD800 <= number <= 0xDFFF:  # noqa: PLR2004  # what Unicode has
                raise ProtobufError(f"{shorten(match.group())} is no character")
            made += chr(number).encode()
        elif escape[0] == "x" and len(escape) > 1:
            made.append(int(escape[1:], 16))
        elif escape[0] in "01234567":
            made.append(int(escape, 8) & 0xFF)
        else:
            made.append(_PLAIN_ESCAPES.get(escape, ord(escape) & 0xFF))
    return bytes(made) + text[at:].encode()
