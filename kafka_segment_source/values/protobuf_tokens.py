"""The text of a `.proto` file → its tokens: words, numbers, texts and signs, without comments.

The grammar: https://protobuf.dev/reference/protobuf/proto3-spec/ and proto2-spec.
"""

from __future__ import annotations

import re

from kafka_segment_source.values.avro_schema import shorten
from kafka_segment_source.values.protobuf_errors import ProtobufError

_MOST_TOKENS = 500_000
_MOST_DIGITS = 25  # of a number
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


class Tokens:
    """The tokens of one text, read from the first to the last. What is not as it must be is a ProtobufError."""

    def __init__(self, text: str) -> None:
        self._tokens = _split(text)
        self._at = 0

    def peek(self, ahead: int = 0) -> str:
        """Returns the next token, or one further ahead, without taking it. Empty after the last one."""
        at = self._at + ahead
        return self._tokens[at] if at < len(self._tokens) else ""

    def next(self) -> str:
        """Takes the next token."""
        token = self.peek()
        if token == "":
            raise ProtobufError("its text ends inside a statement")
        self._at += 1
        return token

    def expect(self, token: str) -> None:
        """Takes the next token, which must be this one."""
        if self.peek() != token:
            raise self.wrong(repr(token))
        self._at += 1

    def wrong(self, expected: str) -> ProtobufError:
        """Returns the error for the next token."""
        before = " ".join(self._tokens[max(self._at - 6, 0) : self._at])
        return ProtobufError(f"found {shorten(self.peek() or 'the end')} after {shorten(before)}, expected {expected}")

    def read_word(self) -> str:
        """Takes a name without dots."""
        token = self.peek()
        if not (token[:1].isalpha() or token[:1] == "_"):
            raise self.wrong("a name")
        self._at += 1
        return token

    def read_name(self) -> str:
        """Takes a name with dots."""
        parts = [self.read_word()]
        while self.peek() == ".":
            self.next()
            parts.append(self.read_word())
        return ".".join(parts)

    def read_type_name(self) -> str:
        """Takes the name of a type, which may begin with a dot."""
        if self.peek() == ".":
            self.next()
            return "." + self.read_name()
        return self.read_name()

    def read_number(self, most: int = 2**29 - 1) -> int:
        """Takes a number without a sign."""
        token = self.peek()
        if not token[:1].isdigit():
            raise self.wrong("a number")
        number = to_int(self.next())
        if number > most:
            raise ProtobufError(f"{number} is more than {most}")
        return number

    def read_text(self) -> bytes:
        """Takes texts in quotes that follow each other, as one."""
        if self.peek()[:1] not in ('"', "'"):
            raise self.wrong("a text in quotes")
        parts = []
        while self.peek()[:1] in ('"', "'") and self.peek():
            parts.append(_unescape(self.next()[1:-1]))
        return b"".join(parts)

    def is_block(self) -> bool:
        """Whether a name and a brace follow."""
        at = 1
        while self.peek(at) == "." or self.peek(at).isidentifier():
            at += 1
        return self.peek(at) == "{"

    def skip_statement(self) -> None:
        """Takes all up to a semicolon, and that."""
        self.skip_value((";",))
        self.expect(";")

    def skip_block(self) -> None:
        """Takes all up to the end of the next braces."""
        while self.peek() != "{":
            self.next()
        self.skip_brackets()

    def skip_value(self, ends: tuple[str, ...]) -> None:
        """Skips to one of `ends` that is not inside brackets."""
        while self.peek() not in ends:
            if self.peek() in ("{", "[", "("):
                self.skip_brackets()
            else:
                self.next()

    def skip_brackets(self) -> None:
        """Takes brackets, with all inside."""
        depth = 0
        while True:
            token = self.next()
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


def to_int(token: str) -> int:
    if len(token) > _MOST_DIGITS:
        raise ProtobufError(f"{shorten(token)} is no number")
    try:
        if token[:2] in ("0x", "0X"):
            return int(token[2:], 16)
        return int(token, 8) if token.startswith("0") else int(token)
    except ValueError as error:
        raise ProtobufError(f"{shorten(token)} is no number") from error


def to_float(token: str) -> float:
    try:
        if token[:2] in ("0x", "0X") or (token.startswith("0") and token.isdigit()):
            return float(to_int(token))
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
