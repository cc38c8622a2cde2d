"""How much memory a value of Protobuf takes once it is parsed, told from its bytes before it is.

Two bytes of a value can be a message of thousands of fields. Google's library takes room for all of them. So a value
whose bytes could take more than the limit is walked first, without parsing it. Most values are too short for that.
"""

from __future__ import annotations

from typing import Any

from kafka_segment_source.values.protobuf_columns import TooLargeError, walk_messages

_BASE = 128  # bytes of a message in memory, without its fields
_FIELD = 24  # of a field, in the message, in Arrow and in Python
_ITEM = 48  # of an item of a packed list, of one byte
_DEPTH = 100  # messages inside one another, as Google's library allows
_VARINT, _EIGHT, _BYTES, _GROUP, _GROUP_END, _FOUR = range(6)
_MESSAGES = (10, 11)  # types of fields
_TEXTS = (9, 12)


class Sizes:
    """Tells whether values of a message fit into memory. per_byte: the most that one byte of a value takes."""

    def __init__(self, message: Any) -> None:
        self._root = message
        self._weights = {kind.full_name: _BASE + _FIELD * len(kind.fields) for kind in walk_messages(message)}
        self.per_byte = max(_ITEM, *(weight // 2 for weight in self._weights.values()))

    def check(self, data: bytes, most: int) -> None:
        """Raises TooLargeError for a value that takes more than `most` bytes. Bytes that are no message pass."""
        if len(data) * self.per_byte > most:
            self._left = most
            self._walk(data, 0, len(data), self._root, 0)

    def _take(self, size: int) -> None:
        self._left -= size
        if self._left < 0:
            raise TooLargeError

    def _walk(self, data: bytes, at: int, end: int, message: Any, depth: int) -> None:
        self._take(self._weights[message.full_name])
        inside = [message.fields_by_number]  # of the message and of groups that have begun
        while at < end:
            tag, at = _read(data, at, end)
            field, wire = inside[-1].get(tag >> 3), tag & 7
            holds = field is not None and field.type in _MESSAGES
            if wire in (_EIGHT, _FOUR):
                at += 8 if wire == _EIGHT else 4
            elif wire == _BYTES:
                size, at = _read(data, at, end)
                stop = min(at + size, end)
                if field is None:
                    self._take(stop - at)
                elif holds and depth + len(inside) <= _DEPTH:
                    self._walk(data, at, stop, field.message_type, depth + len(inside))
                elif field.type in _TEXTS:
                    self._take(_ITEM + 3 * (stop - at))
                else:
                    self._take(_ITEM * (stop - at))
                at = stop
            elif wire == _VARINT:
                _, at = _read(data, at, end)
            elif wire == _GROUP:
                if holds:
                    self._take(self._weights[field.message_type.full_name])
                inside.append(field.message_type.fields_by_number if holds else {})
            elif wire == _GROUP_END and len(inside) > 1:
                inside.pop()
            self._take(_ITEM)


def _read(data: bytes, at: int, end: int) -> tuple[int, int]:
    number = shift = 0
    while at < end and shift < 70:  # noqa: PLR2004  # ten bytes
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:  # noqa: PLR2004  # the last byte of a number
            break
        shift += 7
    return number, at
