"""The option `key` where keys are typed: texts → values of the column's type, and the rows that have one of them.

Different bytes may be the same value: Avro keys name their schema by an id. So values are compared after decoding.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from functools import reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from kafka_segment_source.errors import OptionError

Wanted = Any
"""A scalar of Arrow, or the wanted fields of a struct by name."""


def read_keys(texts: Collection[str], kind: pa.DataType) -> list[Wanted]:
    """Converts the texts of the option `key` to values of a type. Raises OptionError for a text that is none.

    Text stands for itself. A struct is a JSON object with one field or more: the fields that are compared.
    """
    return [_read_key(text, kind) for text in sorted(texts)]


def _read_key(text: str, kind: pa.DataType) -> Wanted:
    try:
        value = json.loads(text) if pa.types.is_struct(kind) else text
        return _convert(value, kind)
    except (ValueError, TypeError, RecursionError, pa.ArrowException, OverflowError) as error:
        words = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise OptionError(
            f"option 'key' is {text!r}: expected a key of type {kind} ({words})", options=("key",)
        ) from error


def _convert(value: object, kind: pa.DataType) -> Wanted:
    if pa.types.is_struct(kind):
        if not isinstance(value, dict) or not value:
            raise ValueError("a JSON object with one field or more")
        names = [field.name for field in kind]
        for name in value:
            if name not in names:
                raise ValueError(f"there is no field {name!r}, but there are {', '.join(names)}")
        return {name: _convert(part, kind.field(name).type) for name, part in value.items()}
    if pa.types.is_nested(kind):
        raise TypeError("keys of this type cannot be compared")
    if value is None:
        raise ValueError("a null matches no key")
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return pa.scalar(value, pa.string()).cast(kind)
    text = value if isinstance(value, str) else json.dumps(value)
    return pa.scalar(text, pa.string()).cast(kind)


def find_rows(keys: pa.Array, wanted: Collection[Wanted]) -> pa.Array:
    """Returns which rows have one of some keys, as bool. A null key is none."""
    return reduce(pc.or_, [_find_equal(keys, key) for key in wanted])


def _find_equal(array: pa.Array, wanted: Wanted) -> pa.Array:
    if isinstance(wanted, Mapping):
        return reduce(pc.and_, [_find_equal(pc.struct_field(array, name), part) for name, part in wanted.items()])
    return pc.fill_null(pc.equal(array, wanted), False)
