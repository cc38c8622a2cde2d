"""`kafkaseg ls`: what is in a log directory."""

from __future__ import annotations

import os
import sys
import time
from itertools import groupby
from typing import Any

import click
from rich.filesize import decimal

from kafka_segment_source.cli.listing import Listed, Rows, listing, listing_json, offsets_text
from kafka_segment_source.cli.shared import (
    DAMAGED,
    TOPIC_OPTIONS,
    json_flag,
    parse,
    paths_argument,
    print_json,
    progress,
    read_options,
    show,
    warn,
    width,
)
from kafka_segment_source.inspection.summary import Summary, summarize, total
from kafka_segment_source.logdir.catalog import Evidence, PartitionLog, list_dead_directories, list_directories
from kafka_segment_source.logdir.checkpoints import Checkpoints
from kafka_segment_source.options import TopicSelection
from kafka_segment_source.partition.missing import all_evidence, lost_partitions, notice
from kafka_segment_source.reporting import few


@click.command("ls", short_help="What is there: offsets, records, bytes, time span.")
@paths_argument
@click.option("-l", "--segments", "by_segment", is_flag=True, help="One row a segment.")
@click.option("-t", "--topics", "by_topic", is_flag=True, help="One row a topic.")
@json_flag
@read_options(*TOPIC_OPTIONS)
def ls_command(paths: tuple[str, ...], by_segment: bool, by_topic: bool, as_json: bool, **options: Any) -> None:
    """List topics, partitions and segments: offsets, records, bytes, time span, codecs, health of the indexes.

    Everything is told by batch headers: nothing is decompressed, and no CRC is checked (`kafkaseg verify` does that).
    "newest" is the newest timestamp of a record; "oldest ≤" is a bound, since no header tells a batch's oldest record.
    Internal topics are listed too. Index files that are missing or empty only make reads slower. Below the table: log
    starts inside the files, compactions under way, directories that a broker has given up (-delete, -stray) or is
    moving (-future).

    \b
    kafkaseg ls /var/kafka-logs
    kafkaseg ls /var/kafka-logs/orders-0 --segments
    kafkaseg ls /var/kafka-logs --json | jq '.partitions[].newestTimestamp'
    """
    parsed, warnings = parse(paths, options)
    seen = time.monotonic()
    logs = list_directories(parsed)
    listed = _look(logs)
    checkpoints = Checkpoints(warnings)
    warnings += few([fault for log in logs for fault in log.beside.faults])
    evidence = {log: _evidence(log, sums, checkpoints, seen) for log, (_, sums) in listed.items()}
    warnings += lost_partitions(logs, checkpoints, parsed, seen)
    log_starts = {log: checkpoints.log_start(log) for log in logs}
    dead = list_dead_directories(parsed) if parsed.topics == TopicSelection() else []  # they are of any topic
    for warning in warnings:
        warn(warning)
    if as_json:
        print_json(listing_json(listed, log_starts, dead, evidence))
    else:
        rows = _topics(listed) if by_topic else _segments(listed) if by_segment else _partitions(listed)
        show(
            listing(
                rows, total([sums for _, sums in listed.values()]), _notes(listed, log_starts, dead, evidence), width()
            )
        )
    faults = [
        f"{segment.path}: {fault}"
        for log in logs
        for segment, each in zip(log.segments, listed[log][0], strict=True)
        for fault in each.faults
    ]
    if faults:
        more = f" (and {len(faults) - 1:,} more)" if len(faults) > 1 else ""
        warn(f"damaged data: {faults[0]}{more}; `kafkaseg verify` says what it means")
    if faults or any(each.is_hard for found in evidence.values() for each in found):
        sys.exit(DAMAGED)


def _look(logs: list[PartitionLog]) -> Listed:
    listed: Listed = {}
    with progress("reading headers", sum(segment.size for log in logs for segment in log.segments)) as advance:
        for log in logs:
            segments = [summarize(segment, advance) for segment in log.segments]
            listed[log] = segments, total(segments)
    return listed


def _evidence(log: PartitionLog, sums: Summary, checkpoints: Checkpoints, seen: float) -> tuple[Evidence, ...]:
    """What should be there and is not; of a damaged log, where it ends is not known."""
    [noticed] = notice([log], [log], checkpoints, seen)
    return all_evidence(noticed, None if sums.faults else sums.end_offset)


def _notes(
    listed: Listed,
    log_starts: dict[PartitionLog, int],
    dead: list[tuple[str, int]],
    evidence: dict[PartitionLog, tuple[Evidence, ...]],
) -> list[str]:
    """What is on the disk, and yet not what a read gives; and what is not on it, and should be."""
    notes = [each.text(f"{log.topic}-{log.partition}") for log, found in evidence.items() for each in found]
    for log, (_, sums) in listed.items():
        name = f"{log.topic}-{log.partition}"
        if log_starts[log] > sums.start_offset:
            notes.append(f"{name}: records below offset {log_starts[log]:,} are deleted, though still in its files")
        if log.swaps:
            swaps = ", ".join(os.path.basename(swap.path) for swap in log.swaps)
            notes.append(f"{name}: {swaps}, left by a compaction, is read instead of the segments that it replaces")
    notes += [f"not read: {os.path.basename(directory)}, {decimal(size)}" for directory, size in dead]
    return notes


def _topics(listed: Listed) -> Rows:
    rows = []
    for topic, found in groupby(listed, key=lambda log: log.topic):
        logs = list(found)
        rows.append((topic, f"{len(logs):,}", total([listed[log][1] for log in logs])))
    return Rows("topic", "partitions", rows)


def _partitions(listed: Listed) -> Rows:
    rows = [(f"{log.topic}-{log.partition}", offsets_text(sums), sums) for log, (_, sums) in listed.items()]
    return Rows("partition", "offsets", rows)


def _segments(listed: Listed) -> Rows:
    rows = [
        (f"{log.topic}-{log.partition}/{each.start_offset}", offsets_text(each), each)
        for log, (segments, _) in listed.items()
        for each in segments
    ]
    return Rows("segment", "offsets", rows)
