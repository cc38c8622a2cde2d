"""`kafkaseg batches`: prints the record batches of a log, from their headers."""

from __future__ import annotations

from kafka_segment_source.cli.view_tables import Row, Shown, columns_of, make_view_command
from kafka_segment_source.option_values import BATCHES
from kafka_segment_source.storage.paths import name_of


def _title(row: Row) -> str:
    return f"{row['topic']}-{row['partition']}  {name_of(row['file_path'])}"


def _kind(row: Row) -> str:
    """`control`, `txn` for data of a transaction, or nothing."""
    return "control" if row["isControl"] else "txn" if row["isTransactional"] else ""


batches_command = make_view_command(
    "batches",
    BATCHES,
    Shown(
        _title,
        columns_of("baseOffset", "lastOffset", "count", "size", "maxTimestamp")
        | {"kind": _kind}
        | columns_of("position", "compresscodec", "producerId", "producerEpoch", "baseSequence")
        | columns_of("partitionLeaderEpoch", "magic", "baseTimestamp", "crc"),
    ),
    "The record batches of a log, one a line.",
    """Print the record batches of a log, one a line, in the words of kafka-dump-log.

    Only headers are read where batches are large. --check-crcs true reads and proves every byte. docs/views.md says
    what each column is. Exits with 1 if damage was left out (--mode DROPMALFORMED).

    \b
    kafkaseg batches /var/kafka-logs --since 2026-03-10T09:30 -n 20
    kafkaseg batches orders-0 --columns baseOffset,producerId,size --json
    kafkaseg batches /var/kafka-logs --format parquet --output batches.parquet
    """,
)
