"""Texts of JSON for types that come inside themselves, which no column can have. It decodes one value after another.

As Avro's own JSON encoding, but for unions, which show the value alone, and bytes, which are text in base64.
"""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from kafka_segment_source.values.avro_schema import Type

_TAG = 4  # bytes that say the writer's type


def to_json_array(values: pa.Array, types: Sequence[Type]) -> pa.Array:
    """Converts bytes that the kernel has kept, each behind the number of its type, into texts of JSON.

    The kernel has checked them.
    """
    encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
    texts = []
    for value in values.to_pylist():
        if not value:  # a null, or a place in a struct that is null
            texts.append(None if value is None else "")
            continue
        [number] = struct.unpack_from("<i", value)
        texts.append(encode(_Reader(value).read(types[number])))
    return pa.array(texts, pa.string())


class _Reader:
    """Decodes one value that is known to be right."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = _TAG

    def read(self, of: Type) -> Any:
        kind = of.kind
        if kind == "record":
            return {field.name: self.read(field.type) for field in of.fields}
        if kind == "union":
            return self.read(of.branches[self._read_long()])
        if kind == "array":
            return [self.read(of.item) for _ in self._items()]
        if kind == "map":
            return {self._take(self._read_long()).decode(): self.read(of.item) for _ in self._items()}
        if kind == "enum":
            return of.symbols[self._read_long()]
        return self._read_simple(of)

    def _read_simple(self, of: Type) -> Any:
        kind = of.kind
        if kind == "null":
            return None
        if kind == "boolean":
            return self._take(1) == b"\1"
        if kind in ("int", "long"):
            return self._read_long()
        if kind in ("float", "double"):
            code, size = ("<f", 4) if kind == "float" else ("<d", 8)
            return struct.unpack(code, self._take(size))[0]
        data = self._take(of.size if kind == "fixed" else self._read_long())
        return data.decode() if kind == "string" else base64.b64encode(data).decode("ascii")

    def _items(self) -> Any:
        while count := self._read_long():
            if count < 0:
                self._read_long()
            yield from range(abs(count))

    def _read_long(self) -> int:
        number = shift = 0
        while True:
            byte = self._data[self._at]
            self._at += 1
            number |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:  # noqa: PLR2004  # the last byte of a number
                return (number >> 1) ^ -(number & 1)

    def _take(self, size: int) -> bytes:
        self._at += size
        return self._data[self._at - size : self._at]
