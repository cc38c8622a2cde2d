"""`kafkaseg ls`: lists the content of a log directory."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

import click
from rich.filesize import decimal

from kafka_segment_source import kafka_format
from kafka_segment_source.cli.shared import (
    DAMAGED,
    count,
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
from kafka_segment_source.cli.summaries import Rows, is_well, listing, offsets_text
from kafka_segment_source.inspection.contents import ListedPartition, Listing, list_partitions
from kafka_segment_source.inspection.summary import Summary, total
from kafka_segment_source.keywords import TopicOptions, option_names
from kafka_segment_source.partition.missing import sum_up
from kafka_segment_source.storage.paths import join_name, name_apart, name_of, parent_of

_MOST_NAMED = 3  # partitions with several directories that have a note each
_MANY_ROWS = 200  # of more rows, only _MOST_ROWS are printed
_MOST_ROWS = 40
_MOST_NOTES = 40


@click.command("ls", short_help="What is there: offsets, records, bytes, time span.")
@paths_argument
@click.option("-l", "--segments", "by_segment", is_flag=True, help="One row a segment.")
@click.option("-t", "--topics", "by_topic", is_flag=True, help="One row a topic.")
@click.option("--deep", is_flag=True, help="Read each header, to count records exactly.")
@click.option("-a", "--all", "has_all", is_flag=True, help=f"Every row and note, even of more than {_MANY_ROWS}.")
@json_flag
@read_options(*option_names(TopicOptions))
def ls_command(
    paths: tuple[str, ...],
    by_segment: bool,
    by_topic: bool,
    deep: bool,
    has_all: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """List topics, partitions and segments: offsets, records, bytes, time span, codecs, health of the indexes.

    Index files and batch headers tell everything: nothing is decompressed, and no CRC is checked (`kafkaseg verify`
    does that). Of segments of 16 MiB or more, only the headers at both ends are read: "≤" then counts their offsets,
    and the codecs are those at the ends. --deep reads all headers.
    "newest" is the newest timestamp of a record; "oldest ≤" is a bound, since no header tells a batch's oldest record.
    Internal topics are listed too. Of more than 200 rows it shows 40: those with something wrong, and then the largest.
    Index files that are missing or empty only make reads slower. Below the table: log
    starts inside the files, compactions under way, directories that a broker has given up (-delete, -stray) or is
    moving (-future).

    \b
    kafkaseg ls /var/kafka-logs
    kafkaseg ls /var/kafka-logs/orders-0 --segments
    kafkaseg ls /var/kafka-logs --json | jq '.partitions[].newestTimestamp'
    """
    with follow("reading headers") as on_progress:
        listed = list_partitions(paths_of(paths), deep=deep, on_progress=on_progress, **options)
    warn(*listed.warnings)
    if as_json:
        print_json(listed.to_dict())
    else:
        sums = total([partition.summary for partition in listed.partitions])
        names = _name_partitions(listed.partitions)
        shown = [partition for partition in listed.partitions if by_topic or not _is_unused(partition)]
        empty = [] if by_topic else [partition for partition in listed.partitions if _is_unused(partition)]
        rows = _list_topics(shown) if by_topic else (_list_segments if by_segment else _list_partitions)(shown, names)
        notes = _count_empty(empty) + _make_notes(listed, names, has_all)
        show(listing(*((rows, sums, notes) if has_all else _shorten(rows, sums, notes)), width()))
    faults = [fault for partition in listed.partitions for fault in partition.faults]
    if faults:
        more = f" (and {len(faults) - 1:,} more)" if len(faults) > 1 else ""
        is_damage = len(faults) > sum(partition.summary.unreadable for partition in listed.partitions)
        what = "damaged data" if is_damage else "unreadable"
        warn(f"{what}: {faults[0]}{more}; `kafkaseg verify` says what it means")
    if faults or any(missing.is_hard for partition in listed.partitions for missing in partition.missing):
        sys.exit(DAMAGED)


def _shorten(rows: Rows, sums: Summary, notes: list[str]) -> tuple[Rows, Summary, list[str]]:
    """Leaves out rows and notes beyond what can be read: all but those with something wrong, and the largest."""
    left: list[tuple[str, str, Summary]] = []
    if len(rows.rows) > _MANY_ROWS:
        ordered = sorted(rows.rows, key=lambda row: (is_well(row[2]), -row[2].size))
        rows, left = Rows(rows.what, rows.second, ordered[:_MOST_ROWS]), ordered[_MOST_ROWS:]
    more = []
    if left:
        wrong = sum(not is_well(summary) for _, _, summary in left)
        said = f", {wrong:,} of them with something wrong" if wrong else ""
        size = decimal(sum(summary.size for _, _, summary in left))
        more.append(f"… and {count(len(left), rows.what)} more, {size}{said}; --all shows them")
    if len(notes) > _MANY_ROWS:
        notes = [*notes[:_MOST_NOTES], f"… and {len(notes) - _MOST_NOTES:,} more notes; --all shows them"]
    return rows, sums, more + notes


def _is_unused(partition: ListedPartition) -> bool:
    """Whether it is a partition of an internal topic that has no batch and nothing wrong.

    A broker makes fifty of `__consumer_offsets`, and a small cluster uses few of them.
    """
    is_internal = partition.topic.startswith(kafka_format.INTERNAL_TOPIC_PREFIX)
    has_something = partition.summary.size or partition.summary.faults or partition.swaps or partition.missing
    return is_internal and not has_something


def _count_empty(empty: Sequence[ListedPartition]) -> list[str]:
    notes = []
    for topic, group in groupby(empty, key=lambda part: part.topic):
        numbers = sorted({part.partition for part in group})
        are = "partition is" if len(numbers) == 1 else "partitions are"
        notes.append(f"{topic}: {len(numbers):,} {are} empty ({_join_ranges(numbers)})")
    return notes


def _join_ranges(numbers: Sequence[int]) -> str:
    """Writes ascending numbers as ranges: `0 – 11, 13`."""
    ranges: list[list[int]] = []
    for number in numbers:
        if ranges and number == ranges[-1][-1] + 1:
            ranges[-1] = [ranges[-1][0], number]
        else:
            ranges.append([number])
    return ", ".join(" – ".join(map(str, ends)) for ends in ranges)


def _make_notes(listing: Listing, names: Mapping[str, str], has_all: bool) -> list[str]:
    """Makes notes about data on the disk that a read does not return, and about data that is missing on it.

    has_all: whether each harmless trace of missing data has its own note.
    """
    notes = [
        partition.faults[0]
        for partition in listing.partitions
        if partition.summary.unreadable and not partition.segments
    ]
    missing = [
        (missing, missing.text(names[part.directory])) for part in listing.partitions for missing in part.missing
    ]
    notes += [said for _, said in missing] if has_all else sum_up(missing)
    copies = {
        name: count for name, count in Counter(partition.name for partition in listing.partitions).items() if count > 1
    }
    if len(copies) > _MOST_NAMED:
        notes.append(f"{len(copies):,} partitions are in several directories; the sums count each of these")
    else:
        notes += [f"{name}: {count} directories hold it; the sums count each of them" for name, count in copies.items()]
    for partition in listing.partitions:
        name, start = names[partition.directory], partition.log_start_offset
        if start > partition.summary.start_offset:
            notes.append(f"{name}: records below offset {start} are deleted, though still in its files")
        if partition.swaps:
            swaps = ", ".join(name_of(swap) for swap in partition.swaps)
            notes.append(f"{name}: {swaps}, left by a compaction, is read instead of the segments that it replaces")
    if any(partition.summary.is_sampled for partition in listing.partitions):
        notes.append("≤: the records of large segments are counted by their offsets; --deep reads each header")
    notes += [f"not read: {name_of(directory)}, {decimal(size)}" for directory, size in listing.not_read]
    return notes


def _list_topics(parts: Sequence[ListedPartition]) -> Rows:
    rows = []
    for topic, group in groupby(parts, key=lambda part: part.topic):
        partitions = list(group)
        rows.append(
            (
                topic,
                f"{len({partition.partition for partition in partitions}):,}",
                total([partition.summary for partition in partitions]),
            )
        )
    return Rows("topic", "partitions", rows)


def _list_partitions(parts: Sequence[ListedPartition], names: Mapping[str, str]) -> Rows:
    rows = [(names[part.directory], offsets_text(part.summary), part.summary) for part in parts]
    return Rows("partition", "offsets", rows)


def _list_segments(parts: Sequence[ListedPartition], names: Mapping[str, str]) -> Rows:
    rows = [
        (f"{names[part.directory]}/{segment.summary.start_offset}", offsets_text(segment.summary), segment.summary)
        for part in parts
        for segment in part.segments
    ]
    return Rows("segment", "offsets", rows)


def _name_partitions(parts: Sequence[ListedPartition]) -> dict[str, str]:
    """Names each partition, by its directory. Where there are several log directories, the name says which."""
    parents = name_apart(parent_of(part.directory) for part in parts)
    names = {part.directory: join_name(parents[parent_of(part.directory)], part.name) for part in parts}
    counts = Counter(names.values())  # directories whose own names do not say what they hold
    return {directory: directory if counts[name] > 1 else name for directory, name in names.items()}
