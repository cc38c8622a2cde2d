"""The primitives of Kafka's messages: fixed and flexible, and bytes that are neither."""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_segment_source.internal_topics.messages import MessageError, MessageReader, NewerVersionError, read_version
from tests.support.internal_logs import array, tags, text, unsigned_varint

READERS: dict[str, Callable[[MessageReader], object]] = {
    "int8": MessageReader.read_int8,
    "int16": MessageReader.read_int16,
    "int32": MessageReader.read_int32,
    "int64": MessageReader.read_int64,
    "uuid": MessageReader.read_uuid,
    "varint": MessageReader.read_unsigned_varint,
    "string": MessageReader.read_string,
    "nullable": MessageReader.read_nullable_string,
    "bytes": MessageReader.read_bytes,
    "tags": MessageReader.read_tags,
    "array": lambda reader: reader.read_array(reader.read_nullable_string),
}


@pytest.mark.parametrize("flexible", [False, True])
def test_fields_one_after_another(flexible: bool) -> None:
    """Each primitive ends where the next one begins."""
    reader = MessageReader(
        struct.pack(">bhiq", -1, -2, -3, -4)
        + bytes(range(16))
        + text("größe", flexible)
        + text(None, flexible)
        + text("", flexible)
        + array([text("a", flexible), text("b" * 200, flexible)], flexible)
        + (tags({2: b"xy", 200: b""}) if flexible else b""),
        flexible,
    )
    assert [reader.read_int8(), reader.read_int16(), reader.read_int32(), reader.read_int64()] == [-1, -2, -3, -4]
    assert reader.read_uuid() == "AAECAwQFBgcICQoLDA0ODw"
    assert reader.read_string() == "größe"
    assert reader.read_nullable_string() is None
    assert reader.read_string() == ""
    assert reader.read_array(reader.read_string) == ["a", "b" * 200]
    assert reader.read_tags() == ({2: b"xy", 200: b""} if flexible else {})
    assert reader.left == 0


@given(st.integers(0, 2**32 - 1))
def test_varints(number: int) -> None:
    """Any number comes back, and no byte after it is used."""
    reader = MessageReader(unsigned_varint(number) + b"\xff")
    assert reader.read_unsigned_varint() == number and reader.left == 1


@given(st.sampled_from(sorted(READERS)), st.binary(max_size=40), st.booleans())
def test_any_bytes_are_read_or_refused(name: str, data: bytes, flexible: bool) -> None:
    """A reader returns something or raises MessageError, and never goes past the end."""
    reader = MessageReader(data, flexible)
    with contextlib.suppress(MessageError):
        READERS[name](reader)
    assert 0 <= reader.left <= len(data)


@pytest.mark.parametrize(
    ("data", "flexible", "name", "said"),
    [
        (b"\x00", False, "int32", "a number of 4 bytes at byte 0 of 1"),
        (b"\x7f\xff" + b"a" * 9, False, "string", "a string of 32,767 bytes at byte 2 of 11"),
        (b"\xff\xff", False, "string", "a null string, where null is not allowed, ends at byte 2"),
        (b"\xff\xfe", False, "nullable", "a length of -2 ends at byte 2"),
        (struct.pack(">i", 2**31 - 1), False, "array", "an array of 2,147,483,647 elements at byte 4 of 4"),
        (b"\xff\xff\xff\xff\x0f", True, "bytes", "a byte array of 4,294,967,294 bytes at byte 5 of 5"),
        (b"\x80" * 6, True, "varint", "a varint of more than 5 bytes ends at byte 5"),
        (b"\x01\x03\x09a", True, "tags", "the tagged field 3 of 9 bytes at byte 3 of 4"),
    ],
)
def test_what_is_said_of_wrong_bytes(data: bytes, flexible: bool, name: str, said: str) -> None:
    """The error has what was found, and at which byte."""
    with pytest.raises(MessageError) as caught:
        READERS[name](MessageReader(data, flexible))
    assert str(caught.value) == said


def test_versions() -> None:
    """A known version is returned; a newer one, and a negative one, have an error of their own."""
    assert read_version(MessageReader(b"\x00\x04"), "OffsetCommit", 4) == 4
    for version in (b"\x00\x05", b"\xff\xff"):
        with pytest.raises(NewerVersionError, match="of type OffsetCommit in version"):
            read_version(MessageReader(version), "OffsetCommit", 4)
