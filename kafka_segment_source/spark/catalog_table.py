"""Options of `CREATE TABLE t USING kafkaseg OPTIONS (…)`, which Spark shows once, at CREATE, and not to a query.

`schema()` puts them into the metadata of the first column, which the catalog keeps and a query's reader gets. A table
declared with columns never asks for the schema, and loses them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructField, StructType

from kafka_segment_source.decoding.tables import RECORDS
from kafka_segment_source.errors import OptionError

_METADATA_KEY = "kafkaseg.options"
_DOUBLE = "option."  # the catalog repeats each option under this prefix, among the table's properties and its own
_LOCATION = "location"  # and the path here, if LOCATION or OPTIONS gave it


def created_with(options: Mapping[str, str]) -> dict[str, str] | None:
    """The options of CREATE TABLE alone, of all that the catalog shows; None where it is not a CREATE TABLE.

    A table property is no option, whatever its name. Where both have one name, the option's value counts.
    """
    lowered = {name.lower(): text for name, text in options.items()}
    if not {"owner", "provider"} <= lowered.keys():
        return None
    own = {name: lowered[_DOUBLE + name] for name in lowered if _DOUBLE + name in lowered}
    if _LOCATION in lowered:
        own.setdefault("path", lowered[_LOCATION])
    return own


def schema(columns: Sequence[str], options: Mapping[str, str]) -> StructType:
    """The Spark schema of these columns, carrying `options`; made without a JVM, which this process has not."""
    first, *others = from_arrow_schema(RECORDS.arrow_schema(columns)).fields
    carrier = StructField(first.name, first.dataType, True, {_METADATA_KEY: json.dumps(dict(options))})
    return StructType([carrier, *others])


def options_of_query(options: Mapping[str, str], schema: StructType) -> dict[str, str]:
    """The options of a read: its own and, where it names no path, those that its table was created with."""
    own = {name.lower(): text for name, text in options.items()}
    if "path" in own or "paths" in own:
        return own
    for field in schema.fields:
        if _METADATA_KEY in (field.metadata or {}):
            return {**json.loads(field.metadata[_METADATA_KEY]), **own}
    raise OptionError(
        "option 'path' is missing: give load(path); of a table that is declared with columns, Spark keeps no options:"
        " declare it without, or use CREATE TEMPORARY VIEW … USING kafkaseg OPTIONS (path '…'),"
        " or SELECT … FROM t WITH (path = '…')"
    )
