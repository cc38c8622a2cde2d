"""Whether a read has typed keys and values. Most reads have none, and load nothing of this."""

from __future__ import annotations

from kafka_segment_source.option_values import BINARY, RECORDS
from kafka_segment_source.options import ReadOptions


def type_columns(options: ReadOptions, warnings: list[str]) -> ReadOptions:
    """Returns the options with the types of keys and values, or the same options where these are bytes.

    It reads `_schemas`, or what option 'schemas' names. Raises OptionError for a schema that is not there or cannot be
    used.
    """
    if options.view != RECORDS or options.key_format == options.value_format == BINARY:
        return options
    from kafka_segment_source.schema_registry.resolving import with_typed_columns  # noqa: PLC0415  # it loads kernels

    return with_typed_columns(options, warnings)
