"""`kafkaseg rebuild`: writes one clean log directory out of what is left."""

from __future__ import annotations

from typing import Any

import click
from rich.filesize import decimal
from rich.text import Text

from kafka_segment_source.cli.shared import (
    count,
    follow,
    json_flag,
    paths_argument,
    paths_of,
    print_json,
    read_options,
    show,
    skipped_data,
    threads_option,
)
from kafka_segment_source.keywords import RebuildOptions, option_names
from kafka_segment_source.rebuilding.journal import REPORT
from kafka_segment_source.rebuilding.rebuild import rebuild
from kafka_segment_source.rebuilding.rebuild_report import RebuildReport

_SHOWN = 50  # of what is left out; rebuild.json has all of it


@click.command("rebuild", short_help="One clean log directory out of what is left.")
@paths_argument
@click.option("--to", required=True, metavar="DIR", help="The new log directory: empty, or made if need be.")
@click.option(
    "--segment-bytes", metavar="BYTES", help="Where segments are rolled. [default: where the sources' segments end]"
)
@click.option(
    "--internal",
    is_flag=True,
    help="Rebuild __consumer_offsets, __transaction_state and _schemas too, beside what is selected.",
)
@json_flag
@threads_option("Partitions that are written at once.")
@read_options(*option_names(RebuildOptions))
def rebuild_command(  # click passes each option by its name
    paths: tuple[str, ...],
    to: str,
    segment_bytes: str | None,
    internal: bool,
    as_json: bool,
    threads: int | None,
    **options: Any,
) -> None:
    """Write what a read of PATHs takes as one clean log directory that a broker can start on.

    Batches are copied byte for byte, each after a check of its CRC. Where PATHs hold several copies of a partition, or
    a tier of it, each batch comes from a copy that holds it whole. Index files, the producers' state and the
    checkpoints are made new. PATHs are only read. A run that was interrupted goes on when it is given again.

    A selection by offset or time takes whole batches. What is left out is said, and is in rebuild.json of DIR.
    docs/recovery.md shows how a cluster takes the result.

    \b
    kafkaseg rebuild /disks/a /disks/b --to /new/kafka-logs --internal
    kafkaseg rebuild /backup --to /new --subscribe orders --mode DROPMALFORMED
    """
    with skipped_data(), follow("rebuilding") as on_progress:
        report = rebuild(
            paths_of(paths),
            to,
            segment_bytes=segment_bytes,
            internal=internal,
            threads=threads,
            on_progress=on_progress,
            **options,
        )
    if as_json:
        print_json(report.to_dict())
        return
    show(*(Text(line) for line in _describe(report)))


def _describe(report: RebuildReport) -> list[str]:
    records = "" if report.records is None else f"{count(report.records, 'record')}, "
    lines = [
        f"{report.target}: {count(len(report.partitions), 'partition')}, {records}"
        f"{report.batches:,} batch{'' if report.batches == 1 else 'es'}, {decimal(report.bytes)}"
    ]
    left_out = report.left_out
    lines += [f"{name}: {left.kind}: {left.why}" for name, left in left_out[:_SHOWN]]
    if len(left_out) > _SHOWN:
        lines.append(f"and {len(left_out) - _SHOWN:,} more in {REPORT}")
    if not left_out:
        lines.append("nothing is left out")
    return lines
