"""Record headers that name the schema of a key or a value, as newer serializers of Confluent write them.

The header is `__key_schema_id` or `__value_schema_id`: byte 1 and the 16 bytes of a GUID, or byte 0 and an id of four
bytes. Of several the last one counts, and the header counts before the bytes of the value
(`serializers.schema.id.DualSchemaIdDeserializer`).
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kafka_segment_source.values.avro_arrays import NONE_CHOSEN, Ints

_NOT_NAMED = -1
_FIRST_UNKNOWN = -2
_ID_BYTES = 5
_GUID_BYTES = 17
_MOST_UNKNOWN = 1000  # different ones


class UnknownHeaders:
    """Headers that name no schema that is known. Each has a number, which is less than -1."""

    def __init__(self) -> None:
        self._numbers: dict[bytes, int] = {}

    def number(self, value: bytes | None) -> int:
        head = (value or b"")[:_GUID_BYTES]
        if len(self._numbers) >= _MOST_UNKNOWN:
            head = b""  # memory is bounded, and a message names but the first
        return self._numbers.setdefault(head, _FIRST_UNKNOWN - len(self._numbers))

    def name(self, number: int) -> str:
        """What a message calls the schema that a header names."""
        head = list(self._numbers)[_FIRST_UNKNOWN - number]
        if len(head) >= _ID_BYTES and head[0] == 0:
            return f"schema id {int.from_bytes(head[1:_ID_BYTES], 'big')}"
        if len(head) == _GUID_BYTES and head[0] == 1:
            return f"schema GUID {uuid.UUID(bytes=head[1:])}"
        return f"bytes {head.hex()}" if head else "no schema"


def choose_by_headers(
    headers: pa.Array, name: str, ids: Mapping[int, int], guids: Mapping[bytes, int], unknown: UnknownHeaders
) -> Ints:
    """Returns which program the headers of each row choose: -1 where there is no such header, less where it names none.

    headers: the column of that name. ids, guids: of the schemas, each with the place of its program. unknown: gets the
    headers that name none.
    """
    listed = headers.flatten()
    places = np.flatnonzero(pc.equal(listed.field("key"), name).to_numpy(zero_copy_only=False))
    if not len(places):
        return NONE_CHOSEN
    parents = pc.list_parent_indices(headers).to_numpy()
    values = listed.field("value").take(pa.array(places)).to_pylist()
    chosen = np.full(len(headers), _NOT_NAMED, np.int32)
    for place, value in zip(places.tolist(), values, strict=True):
        header_place = _find_place(value, ids, guids)
        chosen[parents[place]] = unknown.number(value) if header_place is None else header_place
    return chosen


def _find_place(value: bytes | None, ids: Mapping[int, int], guids: Mapping[bytes, int]) -> int | None:
    if value is None:
        return None
    if len(value) == _ID_BYTES and value[0] == 0:
        return ids.get(int.from_bytes(value[1:], "big"))
    if len(value) >= _GUID_BYTES and value[0] == 1:
        return guids.get(value[1:_GUID_BYTES])
    return None
