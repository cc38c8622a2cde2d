"""`kafkaseg schemas`: prints the schemas that the topic `_schemas` of a Schema Registry still has."""

from __future__ import annotations

from kafka_segment_source.cli.view_tables import Row, Shown, columns_of, make_view_command
from kafka_segment_source.option_values import SCHEMAS


def _title(row: Row) -> str:
    return str(row["subject"]) if row["context"] == "." else f":{row['context']}:{row['subject']}"


schemas_command = make_view_command(
    "schemas",
    SCHEMAS,
    Shown(_title, columns_of("version", "id", "schemaType", "deleted", "schema", "offset", "timestamp", "guid")),
    "Schemas of a Schema Registry: subjects, versions, ids.",
    """Print the schemas of a Schema Registry: one line for each version of a subject that its topic still has.

    They are those of the topic _schemas at the end of the files, or as of --until. Deleted ones are there too, as old
    records need them. docs/values.md says what each column is. Exits with 1 if damage was left out (--mode
    DROPMALFORMED).

    \b
    kafkaseg schemas /var/kafka-logs
    kafkaseg schemas /var/kafka-logs --json | jq -r .schema
    """,
    only_damage_counts=True,
)
