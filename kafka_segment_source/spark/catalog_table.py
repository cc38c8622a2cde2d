"""Options of `CREATE TABLE t USING kafkaseg OPTIONS (…)`. Spark passes them once, at CREATE, and not to a query.

`schema()` puts them into the metadata of the first column. The catalog keeps that metadata, and the reader of a query
gets it. For a table declared with columns, Spark never calls `schema()`, so the options are lost.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructField, StructType

from kafka_segment_source.errors import OptionError
from kafka_segment_source.storage.secrets import find_secret, is_secret

_METADATA_KEY = "kafkaseg.options"
_DOUBLE = "option."  # the catalog repeats each option with this prefix, among table properties and its own entries
_LOCATION = "location"  # the catalog puts the path here, if LOCATION or OPTIONS gave it


def created_with(options: Mapping[str, str]) -> dict[str, str] | None:
    """Selects the options of CREATE TABLE from the entries of the catalog; None where it is not a CREATE TABLE.

    A table property is not an option. If both have the same name, the option's value counts. Raises OptionError for a
    secret: the catalog would keep it, for all to read.
    """
    lowered = {name.lower(): text for name, text in options.items()}
    if not {"owner", "provider"} <= lowered.keys():
        return None
    own = {name: lowered[_DOUBLE + name] for name in lowered if _DOUBLE + name in lowered}
    if _LOCATION in lowered:
        own.setdefault("path", lowered[_LOCATION])
    _refuse_secrets(own)
    return own


def _refuse_secrets(options: Mapping[str, str]) -> None:
    secrets = sorted(name for name in options if is_secret(name))
    if secrets:
        raise OptionError(
            f"CREATE TABLE would keep {', '.join(map(repr, secrets))} in the catalog, where others can read it: leave it"
            " out, and give it to each query, as in SELECT … FROM t WITH (aws_session_token = '…'), or use the"
            " environment, an AWS profile, or CREATE TEMPORARY VIEW, which no catalog keeps"
        )
    for name, text in sorted(options.items()):
        place = find_secret(name, text)
        if place is not None:
            raise OptionError(
                f"CREATE TABLE would keep the secret in {name!r} ({place}) in the catalog, where others can read it: no"
                " URL may have one; give it to each query as an option of its own, as in SELECT … FROM t WITH"
                " (aws_session_token = '…'), or use the environment"
            )


def schema(columns: pa.Schema, options: Mapping[str, str]) -> StructType:
    """The Spark schema of these columns, with `options` as metadata. It needs no JVM: this process has none."""
    first, *others = from_arrow_schema(columns).fields
    carrier = StructField(first.name, first.dataType, True, {_METADATA_KEY: json.dumps(dict(options))})
    return StructType([carrier, *others])


def options_of_query(options: Mapping[str, str], schema: StructType) -> dict[str, str]:
    """The options of a read: its own options and, if it names no path, those of its CREATE TABLE.

    Raises OptionError if there is no path at all.
    """
    own = {name.lower(): text for name, text in options.items()}
    if "path" in own or "paths" in own:
        return own
    for field in schema.fields:
        if _METADATA_KEY in (field.metadata or {}):
            return {**json.loads(field.metadata[_METADATA_KEY]), **own}
    raise OptionError(
        "option 'path' is missing: give load(path); of a table that is declared with columns, Spark keeps no options:"
        " declare it without, or use CREATE TEMPORARY VIEW … USING kafkaseg OPTIONS (path '…'),"
        " or SELECT … FROM t WITH (path = '…')",
        options=("path",),
    )
