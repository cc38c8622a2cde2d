"""`kafkaseg offsets`: the first offset at or after a time, as a broker's offsetsForTimes answers."""

from __future__ import annotations

import sys
import time
from typing import Any

import click
from rich.table import Table

from kafka_segment_source import times
from kafka_segment_source.bounds import OffsetRange
from kafka_segment_source.cli.shared import (
    DAMAGED,
    TOPIC_OPTIONS,
    json_flag,
    parse,
    paths_argument,
    print_json,
    read_options,
    show,
    skipped_data,
    warn,
)
from kafka_segment_source.errors import OptionError
from kafka_segment_source.logdir.catalog import PartitionLog
from kafka_segment_source.option_values import EARLIEST, LATEST
from kafka_segment_source.options import ReadOptions
from kafka_segment_source.partition.logs import examined_logs
from kafka_segment_source.partition.missing import all_evidence
from kafka_segment_source.planning.offsets import StableEnds, log_end_offset
from kafka_segment_source.planning.time_lookup import first_offset_at

_WORDS = {"earliest": EARLIEST, "-2": EARLIEST, "latest": LATEST, "-1": LATEST}


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
@read_options(*TOPIC_OPTIONS, "timeZone", "checkCrcs", "trustIndexes", "mode", "endAt", "isolationLevel")
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
    parsed, warnings = parse(paths, options)
    wanted = _wanted(moment, options.get("timeZone"))
    logs = examined_logs(parsed, warnings)
    for warning in warnings:
        warn(warning)
    stable = StableEnds(parsed)
    for log in logs:
        for evidence in all_evidence(log, log_end_offset(log, parsed)):
            warn(evidence.text(f"partition {log.topic}-{log.partition}"))
    with skipped_data() as skipped:
        rows = [_answer(log, wanted, parsed, stable) for log in logs]
    if as_json:
        print_json(
            {"timestamp": None if wanted in (EARLIEST, LATEST) else times.format_millis(wanted), "partitions": rows}
        )
    else:
        show(_table(rows, wanted))
    if skipped:
        sys.exit(DAMAGED)


def _wanted(moment: str, zone: str | None) -> int:
    """Epoch milliseconds, EARLIEST or LATEST; OptionError for what is none of them."""
    word = moment.strip().lower()
    if word in _WORDS:
        return _WORDS[word]
    try:
        return times.parse_moment(moment, times.zone(zone or "UTC"), int(time.time() * 1000))
    except ValueError as error:
        raise OptionError(f"option 'time' is {moment!r}: {error}, earliest or latest") from error


def _answer(log: PartitionLog, wanted: int, options: ReadOptions, stable: StableEnds) -> dict[str, Any]:
    log_end = log_end_offset(log, options)
    said: list[str] = []
    end = stable.intersect(log, OffsetRange(0, log_end), said).end
    for warning in said:
        warn(warning)
    if wanted == LATEST:
        offset: int | None = end
    elif wanted == EARLIEST:
        offset = max([log.offsets.start, *(segment.base_offset for segment in log.segments[:1])])
    else:
        found = first_offset_at(log, wanted, options)
        offset = found if found is not None and found < end else None
    answer = {"topic": log.topic, "partition": log.partition, "offset": offset, "logEndOffset": log_end}
    return answer | ({"lastStableOffset": end} if options.read_committed else {})


def _table(rows: list[dict[str, Any]], wanted: int) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("partition", overflow="fold")
    table.add_column("offset", justify="right", no_wrap=True)
    table.add_column("which is")
    for row in rows:
        name = f"{row['topic']}-{row['partition']}"
        end = row.get("lastStableOffset", row["logEndOffset"])
        end_words = "the log end" if end == row["logEndOffset"] else "the last stable offset"
        known = {LATEST: end_words, EARLIEST: "the log start"}
        if row["offset"] is None:
            table.add_row(
                name, f"{end:,}", f"{end_words}: no record before it is at or after that time", style="yellow"
            )
        else:
            which = known.get(wanted) or f"the first at or after {times.format_millis(wanted)}"
            table.add_row(name, f"{row['offset']:,}", which)
    return table
