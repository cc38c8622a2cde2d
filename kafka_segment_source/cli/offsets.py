"""`kafkaseg offsets`: which offset a time has, as a broker's offsetsForTimes answers, or which batch an offset has."""

from __future__ import annotations

import sys
from typing import Any

import click
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from kafka_segment_source import times
from kafka_segment_source.cli.search_steps import explain_offset, explain_time
from kafka_segment_source.cli.shared import (
    DAMAGED,
    count,
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
from kafka_segment_source.inspection.offset_of_time import OffsetsForTime, PartitionOffset, offsets_for_time
from kafka_segment_source.inspection.offset_places import FETCH_BYTES, OffsetPlace, OffsetPlaces, locate_offset
from kafka_segment_source.keywords import OffsetOptions, option_names
from kafka_segment_source.option_values import EARLIEST, LATEST
from kafka_segment_source.storage.paths import name_of

_LEAST_ROOM = 40  # columns for an offset and what it is, which may take two lines


@click.command("offsets", short_help="The first offset at or after a time, or the batch of an offset.")
@paths_argument
@click.option(
    "--time",
    "moment",
    metavar="T",
    help="ISO-8601, epoch milliseconds, a time ago (-2h), or earliest (-2) or latest (-1).",
)
@click.option("--offset", type=click.IntRange(min=0), metavar="N", help="An offset, instead of a time.")
@click.option(
    "--explain", is_flag=True, help="Show the search: segment, index entries, scanned bytes, record or batch."
)
@click.option(
    "--fetch-bytes",
    type=click.IntRange(min=1),
    default=FETCH_BYTES,
    show_default=True,
    metavar="BYTES",
    help="With --offset --explain: the most bytes of the fetch whose end is shown.",
)
@json_flag
@read_options(*option_names(OffsetOptions))
def offsets_command(
    paths: tuple[str, ...],
    moment: str | None,
    offset: int | None,
    explain: bool,
    fetch_bytes: int,
    as_json: bool,
    **options: Any,
) -> None:
    """Find, in each partition, the first offset with a timestamp at or after a time, or the batch of an offset.

    As a broker answers offsetsForTimes: in the order of offsets, control records counted. Where no record is at or
    after the time, the offset is null in JSON, and the log end offset is the bound: the next record gets it. With
    --isolation-level read_committed the log ends at its last stable offset, as for a consumer of that level.

    With --explain it shows how the answer was found, in a broker's steps: a segment, an entry of its time index, an
    entry of its offset index, a scan from there on. For an offset it also shows which offset a fetch cannot reach.

    \b
    kafkaseg offsets /var/kafka-logs --subscribe orders --time 2026-03-10T09:30
    kafkaseg offsets orders-0 --time -15m --json
    kafkaseg offsets orders-0 --time latest
    kafkaseg offsets orders-0 --time 2026-03-10T09:30 --explain
    kafkaseg offsets orders-0 --offset 579 --explain
    """
    if (moment is None) == (offset is None):
        raise click.UsageError("give --time T or --offset N, and not both")
    with skipped_data() as skipped:
        if offset is None:
            assert moment is not None
            answer: OffsetsForTime | OffsetPlaces = offsets_for_time(
                paths_of(paths), moment, explain=explain, **options
            )
        else:
            answer = locate_offset(paths_of(paths), offset, fetch_bytes=fetch_bytes, **options)
    warn(*answer.warnings)
    if as_json:
        print_json(answer.to_dict(explain) if isinstance(answer, OffsetPlaces) else answer.to_dict())
    elif explain:
        show(*_explain(answer))
    else:
        show(_make_table(answer))
    if skipped:
        sys.exit(DAMAGED)


def _make_table(answer: OffsetsForTime | OffsetPlaces) -> RenderableType:
    """Makes one line for each partition. If names leave no room for the rest, they have lines of their own."""
    rows: list[tuple[str, str, str, bool]] = []  # name, number, words, and whether there is no answer
    if isinstance(answer, OffsetsForTime):
        heading = "offset"
        for found in answer.partitions:
            rows.append((_name(found), *_describe_offset(answer.timestamp, found), found.offset is None))
    else:
        heading = "batch"
        for place in answer.partitions:
            rows.append((_name(place), *_describe_place(answer.offset, place), place.batch is None))
    if max((len(name) for name, *_ in rows), default=0) <= width() - _LEAST_ROOM:
        table = Table(box=None, pad_edge=False, header_style="dim")
        table.add_column("partition", overflow="fold")
        table.add_column(heading, justify="right", no_wrap=True)
        table.add_column("which is")
        for *cells, is_none in rows:
            table.add_row(*cells, style="yellow" if is_none else "")
        return table
    lines = []
    for name, number, words, is_none in rows:
        lines += [Text(name, overflow="fold"), Text(f"  {number}  {words}", "yellow" if is_none else "dim")]
    return Group(*lines)


def _name(place: PartitionOffset | OffsetPlace) -> str:
    return f"{place.topic}-{place.partition}"


def _describe_offset(timestamp: int, place: PartitionOffset) -> tuple[str, str]:
    """The offset of one partition, and which one it is."""
    end = "the log end" if place.end_offset == place.log_end_offset else "the last stable offset"
    if place.offset is None:
        return str(place.end_offset), f"{end}: no record before it is at or after that time"
    known = {LATEST: end, EARLIEST: "the log start"}
    return str(place.offset), known.get(timestamp) or f"the first at or after {times.format_millis(timestamp)}"


def _describe_place(offset: int, place: OffsetPlace) -> tuple[str, str]:
    """The offsets of the batch in one partition, and where it is; or why there is none."""
    if place.batch is not None:
        batch = place.batch
        where = f"at byte {batch.position} of {name_of(batch.path)} ({count(batch.size, 'byte')})"
        return f"{batch.base_offset} to {batch.last_offset}", where
    if offset < place.log_start_offset:
        return "none", f"the log starts at offset {place.log_start_offset}"
    if offset >= place.log_end_offset:
        return "none", f"the log ends at offset {place.log_end_offset}"
    return "none", "no batch is at or after it"


def _explain(explained: OffsetsForTime | OffsetPlaces) -> list[RenderableType]:
    """A line with the answer of each partition, and the steps that led to it."""
    parts: list[RenderableType] = []
    if isinstance(explained, OffsetsForTime):
        for answer in explained.partitions:
            offset, which = _describe_offset(explained.timestamp, answer)
            parts.append(Text(f"{_name(answer)}: offset {offset}, {which}"))
            parts.append(explain_time(answer.steps or (), answer.end_offset))
        return parts
    for place in explained.partitions:
        name, batch = _name(place), place.batch
        if batch is None:
            _, why = _describe_place(explained.offset, place)
            parts.append(Text(f"{name}: offset {explained.offset} is not there: {why}"))
            continue
        gone = ", which are the next ones: no batch holds it" if batch.base_offset > explained.offset else ""
        span = f"the batch of offsets {batch.base_offset} to {batch.last_offset}"
        parts.append(Text(f"{name}: offset {explained.offset} leads to {span}{gone}"))
        parts.append(explain_offset(place.steps, place.fetch))
    return parts
