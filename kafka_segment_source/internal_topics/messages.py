"""Decodes the primitives of Kafka's messages: numbers, strings, arrays and tagged fields, fixed and flexible.

Input: the bytes of one message, which may be anything. Output: Python values, field by field, in the order of the
message's definition. Every length is checked against the bytes left before it is used, so nothing is allocated for a
length that cannot be. Raises MessageError. Source: Kafka's protocol guide ("Protocol Primitive
Types"), KIP-482 for flexible versions.
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_INT64 = struct.Struct(">q")
_VARINT_BYTES = 5  # of 32 bits
_MORE_FOLLOWS = 0x80
_UUID_BYTES = 16


class MessageError(ValueError):
    """The bytes are not the message that they should be. The text says what was found, at which byte.

    It does not leave this room: its callers make rows or warnings of it.
    """


class NewerVersionError(Exception):
    """A type or a version that is newer than this code. The text names it, in words that follow "a record".

    It does not leave this room either.
    """


class MessageReader:
    """Reads one message from its first byte on.

    is_flexible: whether lengths are compact (unsigned varints, one more than the length) and tagged fields follow.
    It may change between a header and a body.
    """

    def __init__(self, data: bytes, is_flexible: bool = False) -> None:
        self._data = data
        self._at = 0
        self.is_flexible = is_flexible

    @property
    def left(self) -> int:
        """Bytes that were not read yet."""
        return len(self._data) - self._at

    def read_int8(self) -> int:
        return int.from_bytes(self._take(1, "a number"), "big", signed=True)

    def read_int16(self) -> int:
        return int(_INT16.unpack(self._take(2, "a number"))[0])

    def read_int32(self) -> int:
        return int(_INT32.unpack(self._take(4, "a number"))[0])

    def read_int64(self) -> int:
        return int(_INT64.unpack(self._take(8, "a number"))[0])

    def read_uuid(self) -> str:
        """An id as Kafka prints it: 22 characters of URL-safe base64."""
        return base64.urlsafe_b64encode(self._take(_UUID_BYTES, "an id")).decode().rstrip("=")

    def read_unsigned_varint(self) -> int:
        value = 0
        for at in range(_VARINT_BYTES):
            byte = self._take(1, "a varint")[0]
            value |= (byte & ~_MORE_FOLLOWS) << (7 * at)
            if not byte & _MORE_FOLLOWS:
                return value
        raise MessageError(f"a varint of more than {_VARINT_BYTES} bytes ends at byte {self._at}")

    def read_string(self) -> str:
        text = self.read_nullable_string()
        if text is None:
            raise MessageError(f"a null string, where null is not allowed, ends at byte {self._at}")
        return text

    def read_nullable_string(self) -> str | None:
        """A string. What is not UTF-8 in it becomes U+FFFD, as it does in a broker."""
        length = self._read_length(self.read_int16)
        return None if length is None else self._take(length, "a string").decode("utf-8", errors="replace")

    def read_bytes(self) -> bytes | None:
        length = self._read_length(self.read_int32)
        return None if length is None else self._take(length, "a byte array")

    def read_array(self, read_element: Callable[[], T]) -> list[T] | None:
        """An array, or None for null."""
        length = self._read_length(self.read_int32)
        if length is None:
            return None
        if length > self.left:  # an element takes at least a byte
            raise MessageError(f"an array of {length:,} elements at byte {self._at} of {len(self._data)}")
        return [read_element() for _ in range(length)]

    def read_tags(self) -> dict[int, bytes]:
        """The tagged fields at the end of a structure, by tag. A fixed version has none."""
        if not self.is_flexible:
            return {}
        tags = {}
        for _ in range(self.read_unsigned_varint()):
            tag = self.read_unsigned_varint()
            tags[tag] = self._take(self.read_unsigned_varint(), f"the tagged field {tag}")
        return tags

    def _read_length(self, read_fixed: Callable[[], int]) -> int | None:
        length = self.read_unsigned_varint() - 1 if self.is_flexible else read_fixed()
        if length < -1:
            raise MessageError(f"a length of {length} ends at byte {self._at}")
        return None if length == -1 else length

    def _take(self, count: int, what: str) -> bytes:
        if count > self.left:
            raise MessageError(f"{what} of {count:,} bytes at byte {self._at} of {len(self._data)}")
        taken = self._data[self._at : self._at + count]
        self._at += count
        return taken


def read_version(reader: MessageReader, name: str, newest: int) -> int:
    """Reads the version at the start of a value. Raises NewerVersionError for one above `newest`, or a negative one."""
    version = reader.read_int16()
    if not 0 <= version <= newest:
        raise NewerVersionError(f"of type {name} in version {version}, which is unknown")
    return version
