"""Whether a read has typed keys and values. Most reads have none, and load nothing of this."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kafka_segment_source.option_values import BINARY, NEWEST, RECORDS
from kafka_segment_source.options import ReadOptions
from kafka_segment_source.reporting import Warnings
from kafka_segment_source.request import Formats

if TYPE_CHECKING:
    from kafka_segment_source.values.avro_columns import Wanted


def type_columns(options: ReadOptions, warnings: Warnings, wanted: Mapping[str, Wanted] | None = None) -> ReadOptions:
    """Returns the options with the types of keys and values, or the same options where these are bytes.

    It reads `_schemas`, or what option 'schemas' names. wanted: by column, the fields of its values that are wanted.
    Raises OptionError for a schema that is not there or cannot be used, and SchemaError for a field that is not in it.
    """
    if options.content.view not in (RECORDS, NEWEST) or options.formats.are_binary:
        return options
    from kafka_segment_source.schema_registry.resolving import make_typed_columns  # noqa: PLC0415  # it loads kernels
    from kafka_segment_source.values.typed_keys import read_keys  # noqa: PLC0415  # as above

    typed = make_typed_columns(options.formats, options.source, options.policy, warnings, wanted or {})
    if options.content.typed_keys is not None:
        read_keys(options.content.typed_keys, typed.meanings["key"].arrow)  # it raises for what is no key
    return options._replace(content=options.content._replace(typed=typed))


def split_names(formats: Formats, columns: Sequence[str] | None) -> tuple[list[str] | None, dict[str, Wanted]]:
    """Splits names such as `value.customer_id`, where keys or values are typed.

    Returns the names of the columns, each once, and for each of them the fields that are wanted.
    """
    if columns is None or not any("." in name for name in columns):
        return None if columns is None else [*columns], {}
    names: list[str] = []
    wanted: dict[str, Any] = {}
    for name in columns:
        column, dot, path = name.partition(".")
        if not dot or column not in ("key", "value") or formats.of(column)[0] == BINARY:
            names.append(name)
            continue
        if column not in wanted:
            names.append(column)
        inside = wanted.setdefault(column, {})
        for part in path.split("."):
            inside = inside.setdefault(part, {})
    return names, wanted
