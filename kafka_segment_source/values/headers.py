"""Record headers that name the schema of a key or a value, as newer serializers of Confluent write them.

The header is `__key_schema_id` or `__value_schema_id`: byte 1 and the 16 bytes of a GUID, or byte 0 and an id of four
bytes. Of several the last one counts, and the header counts before the bytes of the value
(`serializers.schema.id.DualSchemaIdDeserializer`).
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kafka_segment_source.values.avro_arrays import NONE_CHOSEN, Ints

_NOT_NAMED = -1
_UNKNOWN = -2
_ID_BYTES = 5
_GUID_BYTES = 17


def choose_by_headers(headers: pa.Array, name: str, ids: Mapping[int, int], guids: Mapping[bytes, int]) -> Ints:
    """Returns which program the headers of each row choose: -1 where there is no such header, -2 where it names none.

    headers: the column of that name. ids, guids: of the schemas, each with the place of its program.
    """
    listed = headers.flatten()
    places = np.flatnonzero(pc.equal(listed.field("key"), name).to_numpy(zero_copy_only=False))
    if not len(places):
        return NONE_CHOSEN
    parents = pc.list_parent_indices(headers).to_numpy()
    values = listed.field("value").take(pa.array(places)).to_pylist()
    chosen = np.full(len(headers), _NOT_NAMED, np.int32)
    for place, value in zip(places.tolist(), values, strict=True):
        chosen[parents[place]] = _find_place(value, ids, guids)
    return chosen


def _find_place(value: bytes | None, ids: Mapping[int, int], guids: Mapping[bytes, int]) -> int:
    if value is None:
        return _UNKNOWN
    if len(value) == _ID_BYTES and value[0] == 0:
        return ids.get(int.from_bytes(value[1:], "big"), _UNKNOWN)
    if len(value) >= _GUID_BYTES and value[0] == 1:
        return guids.get(value[1:_GUID_BYTES], _UNKNOWN)
    return _UNKNOWN
