"""`kafkaseg verify`: checks whether a log directory is whole."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from typing import Any

import click
from rich.console import Group, RenderableType
from rich.filesize import decimal
from rich.padding import Padding
from rich.text import Text

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
    threads_option,
    warn,
)
from kafka_segment_source.inspection.findings import Finding
from kafka_segment_source.inspection.verification import VerifyReport, verify
from kafka_segment_source.inspection.verify import Verified
from kafka_segment_source.keywords import DecodeOptions, option_names
from kafka_segment_source.storage.paths import join_path, name_of, parent_of

_SHOWN = 50  # at most this many problems and this many notes are printed; --json has all of them


@click.command("verify", short_help="Whether it is whole: every CRC, offset and index.")
@paths_argument
@click.option("--deep", is_flag=True, help="Decompress and decode every record as well.")
@json_flag
@threads_option("Threads that verify segments.")
@read_options(*option_names(DecodeOptions))
def verify_command(paths: tuple[str, ...], deep: bool, as_json: bool, threads: int | None, **options: Any) -> None:
    """Check every CRC, length, offset order and index entry, by the rules of every Kafka version.

    Says what is wrong where and what it means, and exits with 1 if anything is. Goes on after damage. Notes are about
    what is legal but worth knowing: a torn or preallocated end of the last segment, index files that are missing or
    empty, gaps that compaction leaves. Internal topics are verified too.

    If PATHs hold several copies of a partition, damage of one copy is a note where another copy holds the records: a
    query of all PATHs returns them. What no copy holds is a problem. So are batches of two compacted copies that
    contradict each other, which a query does not notice.

    Unlike kafka-dump-log it knows that index entries differ by Kafka version and by replica, and raises no alarm over
    "Mismatches" that are none.

    \b
    kafkaseg verify /var/kafka-logs
    kafkaseg verify /backup/orders-0 --deep
    kafkaseg verify /var/kafka-logs --json | jq '.problems[].path'
    """
    with follow("verifying") as on_progress:
        report = verify(paths_of(paths), deep=deep, threads=threads, on_progress=on_progress, **options)
    warn(*report.warnings)
    if as_json:
        print_json(report.to_dict())
    else:
        show(_render_report(report))
    if not report.is_ok:
        sys.exit(DAMAGED)


def _render_report(report: VerifyReport) -> RenderableType:
    problems, notes = report.problems, report.notes
    parts: list[RenderableType] = []
    names = Counter(name_of(partition.directory) for partition in report.partitions)
    for findings, style in ((notes, "yellow"), (problems, "bold red")):
        parts += [_render_finding(finding, style, names) for finding in findings[:_SHOWN]]
        if len(findings) > _SHOWN:
            parts.append(Text(f"… and {len(findings) - _SHOWN:,} more; --json lists them all\n", style="dim"))
    verdict = count(len(problems), "problem") if problems else "nothing wrong"
    said = f", {count(len(notes), 'note')}" if notes else ""
    parts.append(
        Text(f"{verdict}{said}: {_describe_size(report.partitions)}", style="bold red" if problems else "bold green")
    )
    return Group(*parts)


def _describe_size(done: Sequence[Verified]) -> str:
    segments, size = sum(partition.segments for partition in done), decimal(sum(partition.size for partition in done))
    batches = sum(partition.batches for partition in done)
    partitions = len({(partition.topic, partition.partition) for partition in done})
    directories = f" in {len(done):,} directories" if len(done) > partitions else ""
    return f"{count(partitions, 'partition')}{directories}, {count(segments, 'segment')}, {batches:,} {'batch' if batches == 1 else 'batches'}, {size}"


def _render_finding(finding: Finding, style: str, names: Counter[str]) -> RenderableType:
    where = Text(f"{'problem' if finding.problem else 'note'}  ", style=style)
    where.append(_shorten_path(finding.path, names), style="bold")
    if finding.position is not None:
        where.append(f"  byte {finding.position:,}")
    if finding.offset is not None:
        where.append(f"  offset {finding.offset}")
    return Group(
        where, Padding(Text(finding.what), (0, 0, 0, 4)), Padding(Text(finding.meaning, style="dim"), (0, 0, 1, 4))
    )


def _shorten_path(path: str, names: Counter[str]) -> str:
    """The name of a segment file with its directory, or the name of a directory.

    The whole path if several directories have that name. names: how many directories have a name.
    """
    directory, name = name_of(parent_of(path)), name_of(path)
    if names[name] > 1 or names[directory] > 1:
        return path
    return join_path(directory, name) if "." in name and name[:1].isdigit() else name
