"""`kafkaseg verify`: whether a log directory is whole."""

from __future__ import annotations

import os
import sys
import time
from functools import partial
from typing import Any

import click
from rich.console import Group, RenderableType
from rich.filesize import decimal
from rich.padding import Padding
from rich.text import Text

from kafka_segment_source.cli.shared import (
    DAMAGED,
    TOPIC_OPTIONS,
    count,
    json_flag,
    parse,
    paths_argument,
    print_json,
    progress,
    read_options,
    show,
    warn,
)
from kafka_segment_source.errors import StorageError, UsageError
from kafka_segment_source.inspection.findings import Finding
from kafka_segment_source.inspection.verify import Verified, verify
from kafka_segment_source.logdir.catalog import PartitionLog, list_directories
from kafka_segment_source.logdir.checkpoints import Checkpoints
from kafka_segment_source.options import ReadOptions
from kafka_segment_source.partition.missing import lost_partitions

_SHOWN = 50  # problems printed at most, and notes; --json has them all


@click.command("verify", short_help="Whether it is whole: every CRC, offset and index.")
@paths_argument
@click.option("--deep", is_flag=True, help="Decompress and decode every record as well.")
@json_flag
@read_options(*TOPIC_OPTIONS, "maxBatchBytes")
def verify_command(paths: tuple[str, ...], deep: bool, as_json: bool, **options: Any) -> None:
    """Check every CRC, length, offset order and index entry, by the rules of every Kafka version.

    Says what is wrong where and what it means, and exits with 1 if anything is. Goes on after damage. Notes are about
    what is legal but worth knowing: a torn or preallocated end of the last segment, index files that are missing or
    empty, gaps that compaction leaves. Internal topics are verified too.

    Unlike kafka-dump-log it knows that index entries differ by Kafka version and by replica, and raises no alarm over
    "Mismatches" that are none.

    \b
    kafkaseg verify /var/kafka-logs
    kafkaseg verify /backup/orders-0 --deep
    kafkaseg verify /var/kafka-logs --json | jq '.problems[].path'
    """
    parsed, _ = parse(paths, options)
    logs = list_directories(parsed)
    with progress("verifying", sum(segment.size for log in logs for segment in log.segments)) as advance:
        done = [
            verify(
                log,
                deep=deep,
                max_batch_bytes=parsed.max_batch_bytes,
                advance=advance,
                list_again=partial(_list_again, parsed),
            )
            for log in logs
        ]
    for lost in lost_partitions(logs, Checkpoints([]), parsed, time.monotonic()):
        warn(lost)
    if as_json:
        print_json(_json(done))
    else:
        show(_report(done))
    if any(each.problems for each in done):
        sys.exit(DAMAGED)


def _list_again(options: ReadOptions, log: PartitionLog) -> PartitionLog | None:
    """The log of one directory as it is now; None if it is gone, or cannot be listed."""
    try:
        logs = list_directories(options)
    except (UsageError, StorageError):
        return None
    return next((each for each in logs if each.directory == log.directory), None)


def _json(done: list[Verified]) -> dict[str, Any]:
    return {
        "ok": not any(each.problems for each in done),
        "partitions": len(done),
        "segments": sum(each.segments for each in done),
        "bytes": sum(each.size for each in done),
        "batches": sum(each.batches for each in done),
        "problems": [finding.to_dict() for each in done for finding in each.problems],
        "notes": [finding.to_dict() for each in done for finding in each.notes],
    }


def _report(done: list[Verified]) -> RenderableType:
    problems = [finding for each in done for finding in each.problems]
    notes = [finding for each in done for finding in each.notes]
    parts: list[RenderableType] = []
    for findings, style in ((notes, "yellow"), (problems, "bold red")):
        parts += [_shown(finding, style) for finding in findings[:_SHOWN]]
        if len(findings) > _SHOWN:
            parts.append(Text(f"… and {len(findings) - _SHOWN:,} more; --json lists them all\n", style="dim"))
    verdict = count(len(problems), "problem") if problems else "nothing wrong"
    said = f", {count(len(notes), 'note')}" if notes else ""
    parts.append(Text(f"{verdict}{said}: {_looked_at(done)}", style="bold red" if problems else "bold green"))
    return Group(*parts)


def _looked_at(done: list[Verified]) -> str:
    segments, size = sum(each.segments for each in done), decimal(sum(each.size for each in done))
    batches = sum(each.batches for each in done)
    return f"{count(len(done), 'partition')}, {count(segments, 'segment')}, {batches:,} batches, {size}"


def _shown(finding: Finding, style: str) -> RenderableType:
    where = Text(f"{'problem' if finding.problem else 'note'}  ", style=style)
    where.append(_short(finding.path), style="bold")
    if finding.position is not None:
        where.append(f"  byte {finding.position:,}")
    if finding.offset is not None:
        where.append(f"  offset {finding.offset:,}")
    return Group(
        where, Padding(Text(finding.what), (0, 0, 0, 4)), Padding(Text(finding.meaning, style="dim"), (0, 0, 1, 4))
    )


def _short(path: str) -> str:
    """A file with its directory; a directory by its name."""
    directory, name = os.path.split(path)
    return os.path.join(os.path.basename(directory), name) if "." in name and name[:1].isdigit() else name
