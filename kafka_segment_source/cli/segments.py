"""`kafkaseg segments`: prints the segments of a log, from names, sizes and index files."""

from __future__ import annotations

from kafka_segment_source.cli.view_tables import Row, Shown, columns_of, make_view_command
from kafka_segment_source.option_values import SEGMENTS
from kafka_segment_source.storage.paths import name_of, parent_of


def _title(row: Row) -> str:
    """The partition, and the log directory of this copy of it."""
    return f"{row['topic']}-{row['partition']}  {name_of(parent_of(parent_of(row['file_path'])))}"


segments_command = make_view_command(
    "segments",
    SEGMENTS,
    Shown(
        _title,
        columns_of("baseOffset", "nextBaseOffset", "size", "largestTimestamp", "isActive")
        | columns_of("indexEntries", "timeIndexEntries", "abortedTransactions", "largestTimestampOffset", "changed"),
    ),
    "The segments of a log, one a line.",
    """Print the segments of a log, one a line, with every copy of a partition.

    They come from names, sizes and index files, so a line costs two or three small reads. `kafkaseg ls --segments`
    reads batch headers, and counts records. docs/views.md says what each column is. Exits with 1 if damage was left
    out (--mode DROPMALFORMED).

    \b
    kafkaseg segments /var/kafka-logs --subscribe orders
    kafkaseg segments /var/kafka-logs --columns topic,partition,size --json
    kafkaseg segments /var/kafka-logs --format parquet --output segments.parquet
    """,
    only_damage_counts=True,
)
