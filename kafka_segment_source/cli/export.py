"""`kafkaseg export`: adds what is new to Parquet files, a Delta table or an Iceberg table."""

from __future__ import annotations

from typing import Any

import click
from rich.filesize import decimal
from rich.table import Table
from rich.text import Text

from kafka_segment_source.cli.shared import (
    AS_A_SCAN,
    count,
    follow,
    json_flag,
    parse_pairs,
    paths_argument,
    paths_of,
    print_json,
    read_options,
    show,
    skipped_data,
    threads_option,
    view_options,
)
from kafka_segment_source.exporting.data_files import BY_RULES
from kafka_segment_source.exporting.export import TARGET_BYTES, export
from kafka_segment_source.exporting.export_run import TableReport
from kafka_segment_source.exporting.target_tables import FORMATS
from kafka_segment_source.option_values import RECORDS

_NOT_HERE = ("until", "endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp", "isolationLevel", "endAt")


@click.command("export", short_help="What is new, into Parquet, Delta or Iceberg.")
@paths_argument
@click.option(
    "--to",
    required=True,
    metavar="TARGET",
    help="A directory or a bucket's URL; CATALOG.NAMESPACE.TABLE for Iceberg. {topic} stands for each topic's name.",
)
@click.option("--format", "form", type=click.Choice(FORMATS), default=FORMATS[0], show_default=True)
@click.option(
    "--by",
    multiple=True,
    metavar="RULE",
    help=f"Divide the table: {BY_RULES}; may be given several times.",
)
@click.option(
    "--rejected",
    metavar="TARGET",
    help="A second table, for rows whose key or value does not fit; with --value-format or --key-format.",
)
@click.option("--target-bytes", metavar="BYTES", default=TARGET_BYTES, show_default=True, help="The size of a file.")
@click.option(
    "--catalog-option",
    "catalog",
    metavar="KEY=VALUE",
    multiple=True,
    callback=parse_pairs,
    help="A property of the Iceberg catalog, over those of .pyiceberg.yaml; may be given several times.",
)
@click.option("--dry-run", is_flag=True, help="Say what a run would read, and write nothing.")
@json_flag
@threads_option("Threads that read and decode.", AS_A_SCAN)
@click.option(
    "--isolation-level",
    "isolationLevel",
    metavar="read_uncommitted|read_committed",
    help="read_committed leaves out aborted records, and waits for open transactions. [default: read_committed]",
)
@click.option(
    "--end-at",
    "endAt",
    metavar="end|highWatermark",
    help="highWatermark: export what all replicas have; end: all that the files have."
    " [default: highWatermark where replication-offset-checkpoint is, else end]",
)
@read_options(*view_options(RECORDS, _NOT_HERE), view=RECORDS)
def export_command(  # noqa: PLR0913, PLR0917  # click passes each option by its name
    paths: tuple[str, ...],
    to: str,
    form: str,
    by: tuple[str, ...],
    rejected: str | None,
    target_bytes: str,
    catalog: dict[str, str] | None,
    dry_run: bool,
    as_json: bool,
    threads: int | None,
    **options: Any,
) -> None:
    """Add to a table what the logs have gained since the last run, each record once, and end.

    The first run begins at the start of the logs. The table itself knows where the next run begins. A run may be killed
    at any moment. Run one at a time for each table.

    \b
    kafkaseg export /var/kafka-logs --to /data/events
    kafkaseg export /var/kafka-logs --to 's3://lake/{topic}' --format delta
    kafkaseg export /var/kafka-logs --to lake.kafka.events --format iceberg
    """

    def say(report: TableReport) -> None:
        if not as_json:
            show(
                Text(_describe(report, dry_run)),
                *([_list_partitions(report)] if report.bytes_to_read and dry_run else []),
            )

    with skipped_data(), follow("exporting") as on_progress:
        reports = export(
            paths_of(paths),
            to,
            form,
            by=by,
            rejected=rejected,
            target_bytes=target_bytes,
            catalog=catalog,
            threads=threads,
            dry_run=dry_run,
            on_progress=on_progress,
            on_report=say,
            **options,
        )
    if as_json:
        print_json([report.to_dict() for report in reports])


def _describe(report: TableReport, dry_run: bool) -> str:
    if report.begin == report.end:
        return f"{report.target}: nothing new"
    if dry_run:
        new = sum(end - report.begin.get(key, 0) for key, end in report.end.items())
        into = "a new table" if report.is_new else "the table"
        read = f"{decimal(report.bytes_to_read)}, {count(new, 'offset')}"
        return f"{report.target}: a run would read {read}, into {into}"
    where = f" in {count(report.files, 'file')}, {decimal(report.bytes)}" if report.files else ""
    rejected = f"; {count(report.rejected, 'record')} rejected" if report.rejected else ""
    return f"{report.target}: {count(report.rows, 'record')} added{where}{rejected}"


def _list_partitions(report: TableReport) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    for name in ("partition", "from offset", "to offset (exclusive)"):
        table.add_column(name, justify="left" if name == "partition" else "right")
    for key, end in sorted(report.end.items()):
        begin = report.begin.get(key, 0)
        if end != begin:
            table.add_row(f"{key[0]}-{key[1]}", f"{begin:,}", f"{end:,}")
    return table
