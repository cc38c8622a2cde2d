"""Defaults of a reader's fields: values of JSON → bytes and bits of columns."""

from __future__ import annotations

import struct

from kafka_segment_source.values.avro_matching import find_factor
from kafka_segment_source.values.avro_schema import AvroError, Type, shorten


def bad_default(value: object, of: Type) -> AvroError:
    return AvroError(f"the default {shorten(value)} is no {of.label}")


def encode_text(text: object) -> bytes:
    return str(text).encode("utf-8", "replace")


def default_bytes(value: object, of: Type) -> bytes:
    """The bytes of a default: of bytes and fixed, each character is a byte."""
    if not isinstance(value, str) or (of.kind == "enum" and value not in of.symbols):
        raise bad_default(value, of)
    if of.kind in ("string", "enum"):
        return encode_text(value)
    try:
        data = value.encode("latin-1")
    except UnicodeEncodeError as error:
        raise bad_default(value, of) from error
    if of.kind == "fixed" and len(data) != of.size:
        raise bad_default(value, of)
    return data


def default_bits(value: object, of: Type) -> int:
    """The bits of a default of a fixed width."""
    if of.kind == "boolean":
        if isinstance(value, bool):
            return int(value)
    elif of.kind in ("int", "long"):
        bits = 31 if of.kind == "int" else 63
        if type(value) is int and -(2**bits) <= value < 2**bits:
            number = value * find_factor(of, of)
            if -(2**63) <= number < 2**63:
                return number
    elif type(value) in (int, float):
        code = "f" if of.kind == "float" else "d"
        try:
            return int(struct.unpack("<i" if code == "f" else "<q", struct.pack(f"<{code}", value))[0])
        except (OverflowError, struct.error) as error:
            raise bad_default(value, of) from error
    raise bad_default(value, of)


def halves(number: int) -> tuple[int, int]:
    """The low and the high half of 128 bits, both signed."""
    low, high = struct.unpack("<qq", number.to_bytes(16, "little", signed=True))
    return low, high
