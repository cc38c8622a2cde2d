"""`kafkaseg offsets`: finds the first offset at or after a time, as a broker's offsetsForTimes answers."""

from __future__ import annotations

import sys
from typing import Any

import click
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

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
    width,
)
from kafka_segment_source.inspection.offsets import OffsetsForTime, PartitionOffset, offsets_for_time
from kafka_segment_source.keywords import OffsetOptions, option_names
from kafka_segment_source.option_values import EARLIEST, LATEST

_LEAST_ROOM = 40  # columns for an offset and what it is, which may take two lines


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


def _make_table(found: OffsetsForTime) -> RenderableType:
    """Makes one line for each partition. If names leave no room for the rest, they have lines of their own."""
    names = [f"{each.topic}-{each.partition}" for each in found.partitions]
    if max(map(len, names), default=0) <= width() - _LEAST_ROOM:
        table = Table(box=None, pad_edge=False, header_style="dim")
        table.add_column("partition", overflow="fold")
        table.add_column("offset", justify="right", no_wrap=True)
        table.add_column("which is")
        for name, each in zip(names, found.partitions, strict=True):
            offset, which = _describe_offset(found.timestamp, each)
            table.add_row(name, offset, which, style="yellow" if each.offset is None else "")
        return table
    lines = []
    for name, each in zip(names, found.partitions, strict=True):
        offset, which = _describe_offset(found.timestamp, each)
        lines += [Text(name, overflow="fold"), Text(f"  {offset}  {which}", "yellow" if each.offset is None else "dim")]
    return Group(*lines)


def _describe_offset(timestamp: int, found: PartitionOffset) -> tuple[str, str]:
    """The offset of one partition, and which one it is."""
    end = "the log end" if found.end_offset == found.log_end_offset else "the last stable offset"
    if found.offset is None:
        return str(found.end_offset), f"{end}: no record before it is at or after that time"
    known = {LATEST: end, EARLIEST: "the log start"}
    return str(found.offset), known.get(timestamp) or f"the first at or after {times.format_millis(timestamp)}"
