"""Typed columns of a stream: the schema that its values are read as stays, and writers may come."""

from __future__ import annotations

import re
from collections.abc import Mapping

from kafka_segment_source.errors import OptionError, PathError
from kafka_segment_source.internal_topics.log_records import list_topic
from kafka_segment_source.reporting import Warnings, log_warnings, logger
from kafka_segment_source.request import Formats
from kafka_segment_source.schema_registry.registry import name_place
from kafka_segment_source.schema_registry.resolving import Known, find_choice, make_typed_columns
from kafka_segment_source.schema_registry.schema_rows import TOPIC
from kafka_segment_source.source import Source
from kafka_segment_source.trust import Policy
from kafka_segment_source.values.typed import TypedColumns

_NAMED = re.compile(r"id:|[0-9]+(#|$)")  # an option that always names the same schema


def check_checkpoint(typed: TypedColumns, formats: Formats, kept: Mapping[str, str]) -> None:
    """Checks that a stream goes on with the schemas that its checkpoint names.

    Spark fixes the columns of a query before it reads the checkpoint. So `latest` cannot go on as before once there is
    a newer version. Raises OptionError then. A schema that the options name themselves may be another one.
    """
    for column, now in typed.readers.items():
        before = kept.get(column, now)
        _, asked = formats.of(column)
        if before == now:
            continue
        if _NAMED.match(asked):
            logger.warning("this stream read %ss as %s, and reads them as %s from here on", column, before, now)
            continue
        raise OptionError(
            f"the checkpoint of this stream reads {column}s as {before}, and option '{column}Schema' ({asked}) is {now}"
            f" by now: write {column}Schema={before} to go on as before, or {column}Schema={now} to read {column}s as"
            " that from here on",
            options=(f"{column}Schema",),
        )


class SchemaFollower:
    """Reads the schemas of a stream again whenever their log has changed."""

    def __init__(self, typed: TypedColumns, formats: Formats, source: Source, policy: Policy) -> None:
        self._asked = formats
        self._fixed = formats._replace(
            value_schema=typed.readers.get("value", formats.value_schema),
            key_schema=typed.readers.get("key", formats.key_schema),
        )
        self._source = source
        self._policy = policy
        self._typed = typed
        self._seen = self._look()
        self._said: set[int] = set()

    def refresh(self) -> TypedColumns:
        """Returns the typed columns with all writers that are known now. A newer schema is said once."""
        seen = self._look()
        if seen != self._seen:
            warnings = Warnings()
            typed = make_typed_columns(self._fixed, self._source, self._policy, warnings, self._typed.wanted)
            self._typed, self._seen = typed, seen
            self._say_newer(warnings)
            log_warnings(warnings)
        return self._typed

    def _look(self) -> object:
        """Returns what changes when the log of the schemas does."""
        source, schemas = self._source, self._asked.schemas
        try:
            logs = list_topic(TOPIC, source if schemas is None else source.at((schemas,)))
        except PathError:
            return None
        return [(segment.path, segment.size) for log in logs for segment in log.segments]

    def _say_newer(self, warnings: Warnings) -> None:
        known = Known(self._asked, self._source, self._policy, Warnings())
        for column, reader in self._typed.readers.items():
            try:
                newest = find_choice(column, known).registered
            except OptionError:
                continue
            if newest is not None and reader.partition("#")[0] != f"id:{newest.id}" and newest.id not in self._said:
                self._said.add(newest.id)
                warnings.add(
                    f"{name_place(newest.place)} (id {newest.id}) is newer than the schema that this stream reads"
                    f" {column}s as ({reader}): what it adds is left out. A restart of the stream names one of the two by option"
                    f" '{column}Schema'"
                )
