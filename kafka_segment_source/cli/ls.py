"""`kafkaseg ls`: lists the content of a log directory."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from itertools import groupby
from typing import Any

import click
from rich.filesize import decimal

from kafka_segment_source.cli.shared import (
    DAMAGED,
    follow,
    json_flag,
    paths_argument,
    paths_of,
    print_json,
    read_options,
    show,
    warn,
    width,
)
from kafka_segment_source.cli.summaries import Rows, listing, offsets_text
from kafka_segment_source.inspection.contents import ListedPartition, Listing, list_partitions
from kafka_segment_source.inspection.summary import total
from kafka_segment_source.keywords import TopicOptions, option_names
from kafka_segment_source.storage.paths import name_of


@click.command("ls", short_help="What is there: offsets, records, bytes, time span.")
@paths_argument
@click.option("-l", "--segments", "by_segment", is_flag=True, help="One row a segment.")
@click.option("-t", "--topics", "by_topic", is_flag=True, help="One row a topic.")
@json_flag
@read_options(*option_names(TopicOptions))
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
    with follow("reading headers") as on_progress:
        found = list_partitions(paths_of(paths), on_progress=on_progress, **options)
    for warning in found.warnings:
        warn(warning)
    if as_json:
        print_json(found.to_dict())
    else:
        make_rows = _list_topics if by_topic else _list_segments if by_segment else _list_partitions
        sums = total([each.summary for each in found.partitions])
        show(listing(make_rows(found.partitions), sums, _make_notes(found), width()))
    faults = [
        f"{segment.path}: {fault}"
        for each in found.partitions
        for segment in each.segments
        for fault in segment.summary.faults
    ]
    if faults:
        more = f" (and {len(faults) - 1:,} more)" if len(faults) > 1 else ""
        is_damage = len(faults) > sum(each.summary.unreadable for each in found.partitions)
        what = "damaged data" if is_damage else "unreadable files"
        warn(f"{what}: {faults[0]}{more}; `kafkaseg verify` says what it means")
    if faults or any(missing.is_hard for each in found.partitions for missing in each.missing):
        sys.exit(DAMAGED)


def _make_notes(found: Listing) -> list[str]:
    """Makes notes about data on the disk that a read does not return, and about data that is missing on it."""
    notes = [missing.text(each.name) for each in found.partitions for missing in each.missing]
    for name, count in Counter(each.name for each in found.partitions).items():
        if count > 1:
            notes.append(f"{name}: {count} directories hold it; the sums count each of them")
    for each in found.partitions:
        start = each.log_start_offset
        if start > each.summary.start_offset:
            notes.append(f"{each.name}: records below offset {start:,} are deleted, though still in its files")
        if each.swaps:
            swaps = ", ".join(name_of(swap) for swap in each.swaps)
            notes.append(
                f"{each.name}: {swaps}, left by a compaction, is read instead of the segments that it replaces"
            )
    notes += [f"not read: {name_of(directory)}, {decimal(size)}" for directory, size in found.not_read]
    return notes


def _list_topics(found: Sequence[ListedPartition]) -> Rows:
    rows = []
    for topic, group in groupby(found, key=lambda each: each.topic):
        partitions = list(group)
        rows.append(
            (topic, f"{len({each.partition for each in partitions}):,}", total([each.summary for each in partitions]))
        )
    return Rows("topic", "partitions", rows)


def _list_partitions(found: Sequence[ListedPartition]) -> Rows:
    names = _name_copies(found)
    rows = [(name, offsets_text(each.summary), each.summary) for name, each in zip(names, found, strict=True)]
    return Rows("partition", "offsets", rows)


def _list_segments(found: Sequence[ListedPartition]) -> Rows:
    rows = [
        (f"{name}/{segment.summary.start_offset}", offsets_text(segment.summary), segment.summary)
        for name, each in zip(_name_copies(found), found, strict=True)
        for segment in each.segments
    ]
    return Rows("segment", "offsets", rows)


def _name_copies(found: Sequence[ListedPartition]) -> list[str]:
    """Names each partition. If several directories hold it, the name is the directory."""
    counts = Counter(each.name for each in found)
    return [each.directory if counts[each.name] > 1 else each.name for each in found]
