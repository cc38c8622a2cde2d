"""`kafkaseg offsets`: finds the first offset at or after a time, as a broker's offsetsForTimes answers."""

from __future__ import annotations

import sys
from typing import Any

import click
from rich.table import Table

from kafka_segment_source import times
from kafka_segment_source.cli.shared import (
    DAMAGED,
    json_flag,
    paths_argument,
    paths_of,
    print_json,
    read_options,
    show,
    skipped_data,
    warn,
)
from kafka_segment_source.inspection.offsets import OffsetsForTime, offsets_for_time
from kafka_segment_source.keywords import OffsetOptions, option_names
from kafka_segment_source.option_values import EARLIEST, LATEST


@click.command("offsets", short_help="The first offset at or after a time.")
@paths_argument
@click.option(
    "--time",
    "moment",
    required=True,
    metavar="T",
    help="ISO-8601, epoch milliseconds, a time ago (-2h), or earliest (-2) or latest (-1).",
)
@json_flag
@read_options(*option_names(OffsetOptions))
def offsets_command(paths: tuple[str, ...], moment: str, as_json: bool, **options: Any) -> None:
    """Find, in each partition, the first offset with a timestamp at or after a time.

    As a broker answers offsetsForTimes: in the order of offsets, control records counted. Where no record is at or
    after the time, the offset is null in JSON, and the log end offset is the bound: the next record gets it. With
    --isolation-level read_committed the log ends at its last stable offset, as for a consumer of that level.

    \b
    kafkaseg offsets /var/kafka-logs --subscribe orders --time 2026-03-10T09:30
    kafkaseg offsets orders-0 --time -15m --json
    kafkaseg offsets orders-0 --time latest
    """
    with skipped_data() as skipped:
        found = offsets_for_time(paths_of(paths), moment, **options)
    for warning in found.warnings:
        warn(warning)
    if as_json:
        print_json(found.to_dict())
    else:
        show(_make_table(found))
    if skipped:
        sys.exit(DAMAGED)


def _make_table(found: OffsetsForTime) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("partition", overflow="fold")
    table.add_column("offset", justify="right", no_wrap=True)
    table.add_column("which is")
    for each in found.partitions:
        name = f"{each.topic}-{each.partition}"
        end = each.end_offset
        end_words = "the log end" if end == each.log_end_offset else "the last stable offset"
        known = {LATEST: end_words, EARLIEST: "the log start"}
        if each.offset is None:
            table.add_row(name, str(end), f"{end_words}: no record before it is at or after that time", style="yellow")
        else:
            which = known.get(found.timestamp) or f"the first at or after {times.format_millis(found.timestamp)}"
            table.add_row(name, str(each.offset), which)
    return table
