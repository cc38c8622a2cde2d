"""`kafkaseg count`: counts records and bytes per minute, or another span of time, from batch headers."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import click
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.csv as pa_csv
from rich.filesize import decimal

from kafka_segment_source import times
from kafka_segment_source.cli.parquet import check_output, write_parquet
from kafka_segment_source.cli.shared import (
    DAMAGED,
    count,
    parse,
    paths_argument,
    read_options,
    skipped_data,
    view_options,
    warn,
    width,
)
from kafka_segment_source.cli.view_tables import print_json_lines, read_view, show_remark
from kafka_segment_source.errors import OptionError
from kafka_segment_source.option_values import BATCHES
from kafka_segment_source.schema import TIMESTAMP_TYPE

_COLUMNS = ("topic", "partition", "count", "size", "baseTimestamp", "maxTimestamp")
_FORMATS = ("text", "jsonl", "csv", "parquet")
_SCHEMA = pa.schema(
    [
        pa.field("topic", pa.string()),
        pa.field("partition", pa.int32()),
        pa.field("time", TIMESTAMP_TYPE),
        pa.field("records", pa.int64()),
        pa.field("bytes", pa.int64()),
        pa.field("batches", pa.int64()),
    ]
)
_SECOND, _MINUTE, _DAY = 1000, 60_000, 86_400_000  # ms
_NO_TIME = -(2**63)  # in place of a null
_NO_SINCE, _NO_UNTIL = _NO_TIME + 1, 2**63 - 1
_MOST_EMPTY = 2  # spans without records in a row that have a line each
_EIGHTHS = " ▏▎▍▌▋▊▉"
_FULL = "█"
_LONGEST_BAR = 60
_INDENT = "  "

Longs = npt.NDArray[np.int64]
Key = tuple[str, int, int | None]  # topic, partition, begin of the span in ms; None: batches without a timestamp


@dataclass(slots=True)
class Sums:
    """Records, bytes and batches that were added up."""

    records: int = 0
    size: int = 0
    batches: int = 0

    def add(self, other: Sums) -> None:
        """Adds other sums."""
        self.records += other.records
        self.size += other.size
        self.batches += other.batches


@dataclass(slots=True)
class Counts:
    """The sums of each span of time.

    spread: batches that reach over a border.
    uncounted: batches that state no count.
    """

    by: int
    found: dict[Key, Sums] = field(default_factory=dict)
    spread: int = 0
    uncounted: int = 0

    def add(self, batch: pa.RecordBatch, since: int, until: int | None) -> None:
        """Adds rows of view=batches of one partition, if their newest timestamp is in since ≤ t < until (ms)."""
        latest = _millis(batch["maxTimestamp"])
        known = latest != _NO_TIME
        wanted = (latest >= since) & (latest < (_NO_UNTIL if until is None else until))
        if since == _NO_SINCE and until is None:
            wanted |= ~known
        if not wanted.any():
            return
        first = np.where(_millis(batch["baseTimestamp"]) == _NO_TIME, latest, _millis(batch["baseTimestamp"]))
        spans = latest // self.by
        self.spread += int((wanted & known & (np.minimum(first, latest) // self.by != spans)).sum())
        self.uncounted += int((wanted & np.asarray(batch["count"].is_null())).sum())
        records = np.asarray(batch["count"].fill_null(0), np.int64)
        sizes = np.asarray(batch["size"], np.int64)
        spans = np.where(known, spans, _NO_TIME)
        values, at = np.unique(spans[wanted], return_inverse=True)
        sums = np.zeros((3, len(values)), np.int64)
        for row, column in zip(sums, (records[wanted], sizes[wanted], np.ones(len(at), np.int64)), strict=True):
            np.add.at(row, at, column)
        topic, partition = batch["topic"][0].as_py(), batch["partition"][0].as_py()
        for value, one in zip(values.tolist(), sums.T.tolist(), strict=True):
            key = (topic, partition, None if value == _NO_TIME else value * self.by)
            self.found.setdefault(key, Sums()).add(Sums(*one))

    def rows(self) -> list[tuple[Key, Sums]]:
        """All sums, by topic, partition and time. Those without a time come first."""
        return sorted(self.found.items(), key=lambda item: (*item[0][:2], item[0][2] is not None, item[0][2] or 0))

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """Yields the sums as Arrow rows."""
        rows = self.rows()
        columns = [
            [key[0] for key, _ in rows],
            [key[1] for key, _ in rows],
            [None if key[2] is None else key[2] * 1000 for key, _ in rows],
            [sums.records for _, sums in rows],
            [sums.size for _, sums in rows],
            [sums.batches for _, sums in rows],
        ]
        arrays = [pa.array(column, field.type) for column, field in zip(columns, _SCHEMA, strict=True)]
        if rows:
            yield pa.RecordBatch.from_arrays(arrays, schema=_SCHEMA)


def _millis(column: pa.Array) -> Longs:
    micros = np.asarray(column.cast(pa.int64()).fill_null(_NO_TIME), np.int64)
    return np.where(micros == _NO_TIME, _NO_TIME, micros // 1000)


@click.command("count", short_help="Records and bytes per minute, from batch headers.")
@paths_argument
@click.option(
    "--by", "by", default="1m", show_default=True, metavar="DURATION", help="The span of time: 10s, 1m, 1h, 1d."
)
@click.option("--each-partition", is_flag=True, help="A table for each partition, not one for each topic.")
@click.option(
    "--format", "kind", type=click.Choice(_FORMATS), default="text", show_default=True, help="How sums are printed."
)
@click.option("--json", "as_json", is_flag=True, help="The same as --format jsonl.")
@click.option("-o", "--output", type=click.Path(dir_okay=False), metavar="FILE", help="The Parquet file to write.")
@read_options(*view_options(BATCHES), view=BATCHES)
def count_command(
    paths: tuple[str, ...],
    by: str,
    each_partition: bool,
    kind: str,
    as_json: bool,
    output: str | None,
    **options: Any,
) -> None:
    """Count records and bytes per minute and partition, from batch headers: nothing is decompressed.

    A batch counts as a whole at its newest timestamp. Transaction markers are left out (--include-control true
    counts them). JSON lines, CSV and Parquet have a row for each partition and time that has records; a table has the
    sum over the partitions. Times are in UTC. Exits with 1 if damage was left out (--mode DROPMALFORMED), or offsets
    that a partition has lost; --fail-on-data-loss true ends at the first loss instead.

    \b
    kafkaseg count /var/kafka-logs --by 1m --subscribe orders
    kafkaseg count orders-0 --by 10s --since 2026-03-10T09:30
    kafkaseg count /var/kafka-logs --by 1h --format csv
    """
    kind = "jsonl" if as_json else kind
    check_output(kind, output)
    counts = Counts(_parse_span(by))
    parsed, warnings = parse(paths, {"includeControl": "false", **_given(options), "view": BATCHES})
    since = _NO_SINCE if parsed.bounds.since is None else parsed.bounds.since
    with skipped_data() as skipped:
        goes_on = options.get("failOnDataLoss") is None
        for batch in read_view(parsed, warnings, _COLUMNS, goes_on=goes_on):
            counts.add(batch, since, parsed.bounds.until)
    if output is not None:
        warn(f"{count(write_parquet(output, _SCHEMA, counts.to_batches()), 'row')} written to {output!r}")
    elif kind == "jsonl":
        print_json_lines(counts.to_batches())
    elif kind == "csv":
        pa_csv.write_csv(pa.Table.from_batches(counts.to_batches(), _SCHEMA), sys.stdout.buffer)
    elif not counts.found:
        warn("no record matches; `kafkaseg ls` shows what is there")
    else:
        _print_tables(counts, each_partition)
    if kind != "text" and counts.uncounted:
        warn(_describe_uncounted(counts))
    if skipped:
        sys.exit(DAMAGED)


def _given(options: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}


def _parse_span(text: str) -> int:
    """Parses --by. Returns ms, at least 1."""
    try:
        span = times.parse_duration(text)
    except ValueError as error:
        raise OptionError(f"--by is {text!r}: {error}") from error
    if span == 0:
        raise OptionError(f"--by is {text!r}: expected 1 ms or more")
    return span


# ---- for people ----


def _print_tables(counts: Counts, each_partition: bool) -> None:
    """Prints a table for each topic, or for each partition, and what cannot be known."""
    groups: dict[str, dict[Key, Sums]] = {}
    for key, sums in counts.rows():
        groups.setdefault(f"{key[0]}-{key[1]}" if each_partition else key[0], {})[key] = sums
    for name, by_key in groups.items():
        by_time = _add_up((key[2], sums) for key, sums in by_key.items())
        by_partition = _add_up((key[1], sums) for key, sums in by_key.items())
        total = Sums()
        for sums in by_key.values():
            total.add(sums)
        of = "" if each_partition else f"{count(len(by_partition), 'partition')}, "
        click.echo(click.style(f"{name}: {of}{count(total.records, 'record')}, {decimal(total.size)}", bold=True))
        lines = [*_make_time_lines(by_time, counts.by)]
        click.echo("\n".join(_draw("time (UTC)", lines)))
        if len(by_partition) > 1:
            click.echo("\n".join(_draw("partition", [(str(number), sums) for number, sums in by_partition.items()])))
    show_remark(_describe_limits(counts))


def _add_up(pairs: Iterable[tuple[Any, Sums]]) -> dict[Any, Sums]:
    added: dict[Any, Sums] = {}
    for key, sums in pairs:
        added.setdefault(key, Sums()).add(sums)
    return added


def _make_time_lines(by_time: Mapping[int | None, Sums], by: int) -> Iterator[tuple[str, Sums | None]]:
    """Yields a line for each span: its time and its sums. Few empty spans are lines too, more of them are one line."""
    if None in by_time:
        yield "no timestamp", by_time[None]
    before: int | None = None
    for start in sorted(start for start in by_time if start is not None):
        empty = 0 if before is None else (start - before) // by - 1
        if before is not None and 0 < empty <= _MOST_EMPTY:
            for number in range(empty):
                yield _format_span(before + by * (number + 1), by), Sums()
        elif empty:
            yield f"… {empty:,} spans without records", None
        yield _format_span(start, by), by_time[start]
        before = start


def _format_span(start: int, by: int) -> str:
    """Formats the begin of a span as `--since` takes it, with no more digits than needed."""
    text = times.format_millis(start)
    if "T" not in text:
        return text  # no calendar can express it
    digits = 10 if by % _DAY == 0 else 16 if by % _MINUTE == 0 else 19 if by % _SECOND == 0 else 23
    return text.removesuffix("Z")[:digits]


def _draw(heading: str, lines: list[tuple[str, Sums | None]]) -> Iterator[str]:
    """Yields the lines of a table with a bar for the records, or for the bytes where no record is counted."""
    sums = [total for _, total in lines if total is not None]
    names = max(len(heading), *(len(name) for name, total in lines if total is not None))
    records = max(len("records"), *(len(f"{total.records:,}") for total in sums))
    sizes = max(len("bytes"), *(len(decimal(total.size)) for total in sums))
    used = len(_INDENT) + names + 2 + records + 2 + sizes + 2
    room = max(min(width() - used - 1, _LONGEST_BAR), 1)
    most = max(total.records for total in sums)
    largest = max(total.size for total in sums)
    yield click.style(f"{_INDENT}{heading:<{names}}  {'records':>{records}}  {'bytes':>{sizes}}", dim=True)
    for name, total in lines:
        if total is None:
            yield click.style(f"{_INDENT}{name}", dim=True)
            continue
        share = total.records / most if most else total.size / largest if largest else 0.0
        cells = f"{_INDENT}{name:<{names}}  {total.records:>{records},}  {decimal(total.size):>{sizes}}"
        yield f"{cells}  {_make_bar(share, room)}".rstrip()


def _make_bar(share: float, room: int) -> str:
    """Makes a bar of `share` of the room. It has at least an eighth of a column if there is anything."""
    eighths = max(round(share * room * 8), 1 if share else 0)
    return _FULL * (eighths // 8) + _EIGHTHS[eighths % 8].strip()


def _describe_limits(counts: Counts) -> str:
    """Says in a sentence or two what the headers do not tell."""
    batches = sum(sums.batches for sums in counts.found.values())
    said = (
        f"A batch counts at its newest timestamp: {counts.spread:,} of {batches:,} reach back into an earlier span."
        " What retention or compaction removed is not counted; aborted transactions are"
        " (--isolation-level read_committed leaves them out)."
    )
    return f"{said} {_describe_uncounted(counts)}" if counts.uncounted else said


def _describe_uncounted(counts: Counts) -> str:
    return (
        f"{count(counts.uncounted, 'compressed message set')} of Kafka before 0.11 without a count in the header:"
        " only the bytes are counted."
    )
