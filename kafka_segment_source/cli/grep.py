"""`kafkaseg grep`: prints the records that have a text in their key, value, headers or a field."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import groupby
from typing import Any

import click
import pyarrow as pa
from rich.filesize import decimal

from kafka_segment_source.cli.excerpts import cut_excerpt
from kafka_segment_source.cli.record_lines import Encoder, Encoding, escape, json_lines, write_lines
from kafka_segment_source.cli.shared import (
    Fault,
    count,
    follow,
    name_flags,
    parse,
    paths_argument,
    paths_of,
    progress,
    read_options,
    skipped_data,
    threads_option,
    to_json_line,
    view_options,
    warn,
    warn_of_plan,
    width,
)
from kafka_segment_source.errors import KafkaSegmentError, OptionError
from kafka_segment_source.option_values import RECORDS
from kafka_segment_source.planning.plan import ReadPlan, read_rows
from kafka_segment_source.searching.every_copy import KeyPlace, check_key_options
from kafka_segment_source.searching.every_copy import every_copy as find_every_copy
from kafka_segment_source.searching.pattern import Pattern
from kafka_segment_source.searching.search import plan_search, threads_or_all
from kafka_segment_source.times import format_millis

FOUND, NOT_FOUND, ERROR = 0, 1, 2
_WHOLE_KEY = (
    "--every-copy looks for a whole key, byte by byte: it takes --key, --hex, --json, --threads, and the options that"
    " select topics"
)
_LONGEST = 200  # columns of an excerpt
_SHORTEST = 20
_OF_OTHERS = ("includeHeaders", "includeMetadata", "key")  # columns that are not printed, and a flag of this command
_SHOWN = ("topic", "partition", "offset", "timestamp", "place", "name", "start", "length")
_JSON_FIELDS = (*_SHOWN, "key", "value")


class Grep(click.Command):
    """A command whose errors all exit with 2, as those of grep do: 1 says that nothing was found."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except KafkaSegmentError as error:
            raise Fault(name_flags(str(error)), ERROR) from error
        except BrokenPipeError:
            raise
        except OSError as error:
            raise Fault(str(error), ERROR) from error


@click.command("grep", cls=Grep, short_help="The records that have a text in them.")
@click.argument("pattern")
@paths_argument
@click.option("-F", "--fixed-strings", "fixed", is_flag=True, help="PATTERN is a text, not a regular expression.")
@click.option("--hex", "is_hex", is_flag=True, help="PATTERN is bytes in hexadecimal: 0000002a.")
@click.option("-i", "--ignore-case", is_flag=True, help="Ignore case (of UTF-8).")
@click.option("-v", "--invert-match", "invert", is_flag=True, help="The records that do not match.")
@click.option("-c", "--count", "counts", is_flag=True, help="Print the number of records of each partition.")
@click.option("-l", "--partitions-with-matches", "lists", is_flag=True, help="Print the partitions alone.")
@click.option("-q", "--quiet", is_flag=True, help="Print nothing, and stop at the first record.")
@click.option("-m", "--max-count", "most", type=click.IntRange(min=0), metavar="N", help="Stop after N records in all.")
@click.option("--key", "key", is_flag=True, help="Search keys.")
@click.option("--value", "value", is_flag=True, help="Search values.")
@click.option("--header", "headers", metavar="NAME", multiple=True, help="Search the values of the headers NAME.")
@click.option(
    "--field",
    "--json-path",
    "field",
    metavar="PATH",
    help="Search a field of typed keys or values: value.customer.id, with --value-format.",
)
@click.option(
    "--every-copy",
    is_flag=True,
    help="PATTERN is a whole key: list each place where its bytes still lie, and what keeps them.",
)
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object for each line.")
@threads_option("Threads that search.", "one a processor")
@read_options(*view_options(RECORDS, but=_OF_OTHERS), view=RECORDS)
def grep_command(  # noqa: PLR0913, PLR0917  # click passes each option by its name
    pattern: str,
    paths: tuple[str, ...],
    fixed: bool,
    is_hex: bool,
    ignore_case: bool,
    invert: bool,
    counts: bool,
    lists: bool,
    quiet: bool,
    most: int | None,
    key: bool,
    value: bool,
    headers: tuple[str, ...],
    field: str | None,
    every_copy: bool,
    as_json: bool,
    threads: int | None,
    **options: Any,
) -> None:
    """Print the records that match PATTERN: partition, offset, time, the place of the match, and an excerpt around it.

    Searches keys, values and the values of headers, unless --key, --value, --header or --field name the places. PATTERN
    is a regular expression of RE2 (no lookaround). ^ and $ are the ends of a key or value, and (?m) makes them those of
    a line. Takes every option that selects records, as `cat` does. Damage is an error, as in a read.

    Exit codes are those of grep: 0 found, 1 not found, 2 an error, also where damaged records were left out
    (--mode DROPMALFORMED).

    \b
    kafkaseg grep -F 4711 /var/kafka-logs --since -2h
    kafkaseg grep --key '^customer-00[0-9]$' /var/kafka-logs --subscribe orders -c
    kafkaseg grep -i timeout /var/kafka-logs -l
    kafkaseg grep ^17$ LOGS --value-format avro --field value.customer.id --json
    kafkaseg grep --key customer-0170 --every-copy /var/kafka-logs /backup
    """
    if every_copy:
        others = (fixed, ignore_case, invert, counts, lists, quiet, most, value, headers, field)
        if any(other not in (None, False, ()) for other in others):
            raise OptionError(_WHOLE_KEY)
        raw = _parse_hex(pattern) if is_hex else pattern
        sys.exit(_print_every_copy(paths, raw, threads, as_json, options))
    parsed, warnings = parse(paths, options)
    wanted = _parse_pattern(pattern, fixed, is_hex, ignore_case)
    places = (key, value, headers) if key or value or headers else (True, True, None)
    if field is not None and (key or value or headers):
        raise OptionError("--field says where to search: leave out --key, --value and --header")
    plan = plan_search(parsed, warnings, wanted, *places, field=field, inverted=invert)
    run = _Run(plan, threads_or_all(threads), as_json)
    with skipped_data() as skipped:
        warn_of_plan(plan.warnings)
        if quiet:
            hit = run.find_any()
        elif lists:
            hit = run.list_partitions(most)
        elif counts:
            hit = run.count(most)
        else:
            hit = run.print_hits(most)
    if skipped and not (quiet and hit):
        sys.exit(ERROR)
    if not hit:
        sys.exit(NOT_FOUND)


def _parse_pattern(text: str, fixed: bool, is_hex: bool, ignore_case: bool) -> Pattern:
    if not is_hex:
        return Pattern(text, fixed=fixed, ignore_case=ignore_case)
    if ignore_case:
        raise OptionError("--hex is bytes, which have no case: leave out --ignore-case")
    return Pattern(_parse_hex(text), fixed=True)


def _parse_hex(text: str) -> bytes:
    try:
        return bytes.fromhex(text)
    except ValueError as error:
        raise OptionError(f"pattern {text!r} is not bytes in hexadecimal: {error}") from error


def _print_every_copy(
    paths: tuple[str, ...], key: str | bytes, threads: int | None, as_json: bool, options: dict[str, Any]
) -> int:
    """Prints each place where a key lies. Returns the exit code."""
    hits = 0
    with follow("searching") as on_progress:
        given = check_key_options(options)
        places = find_every_copy(paths_of(paths), key, threads=threads, on_progress=on_progress, **given)
        for place in places:
            hits += 1
            sys.stdout.write((to_json_line(place.to_dict()) if as_json else _make_place_line(place)) + "\n")
    for sentence in places.unsearched:
        warn(sentence)
    missed = f", {count(len(places.unsearched), 'thing')} not searched" if places.unsearched else ""
    warn(f"{count(hits, 'place')} in {count(places.files, 'file')} of {decimal(places.size)}{missed}")
    return ERROR if places.unsearched else FOUND if hits else NOT_FOUND


def _make_place_line(place: KeyPlace) -> str:
    what = f"{place.kind}, {place.state}"
    time = format_millis(place.timestamp)
    where = escape(f"{place.file}@{place.position}")
    return f"{escape(place.topic)}-{place.partition}\t{place.offset}\t{time}\t{what}\t{where}\t{place.keeps}"


class _Run:
    """One search, and what is printed of it. Each function returns whether a record was found."""

    def __init__(self, plan: ReadPlan, threads: int, as_json: bool) -> None:
        self._plan = plan
        self._threads = threads
        self._as_json = as_json

    def find_any(self) -> bool:
        with self._reading(self._plan) as batches:
            return next(batches, None) is not None

    def list_partitions(self, most: int | None) -> bool:
        """Prints the partitions that have a matching record, and reads no more of each than it needs."""
        hits = 0
        with progress("searching", self._plan.bytes_to_read) as advance:
            for (topic, partition), splits in groupby(self._plan.splits, lambda split: (split.topic, split.partition)):
                plan = replace(self._plan, splits=tuple(splits))
                if hits == most:
                    break
                batches = read_rows(plan, self._schema(()), threads=self._threads)
                if next(batches, None) is not None:
                    hits += 1
                    self._print({"topic": topic, "partition": partition}, f"{topic}-{partition}")
                batches.close()  # type: ignore[attr-defined]  # it is a generator
                advance(plan.bytes_to_read)
        return hits > 0

    def count(self, most: int | None) -> bool:
        """Prints how many records of each partition match, those with none too."""
        counts = Counter({(split.topic, split.partition): 0 for split in self._plan.splits})
        with self._reading(self._plan, ("topic", "partition")) as batches:
            for batch in _take(batches, most):
                counts[batch["topic"][0].as_py(), batch["partition"][0].as_py()] += batch.num_rows
        for (topic, partition), number in counts.items():
            self._print({"topic": topic, "partition": partition, "count": number}, f"{topic}-{partition}:{number}")
        return counts.total() > 0

    def print_hits(self, most: int | None) -> bool:
        names = _JSON_FIELDS if self._as_json else (*_SHOWN, "text")
        encoder = Encoder(Encoding.TEXT)
        has_hits = False
        with self._reading(self._plan, names) as batches:
            for batch in _take(batches, most):
                has_hits = True
                if self._as_json:
                    write_lines(json_lines(batch, encoder, names))
                else:
                    sys.stdout.writelines(_make_lines(batch))
        return has_hits

    @contextmanager
    def _reading(self, plan: ReadPlan, names: tuple[str, ...] = ()) -> Iterator[Iterator[pa.RecordBatch]]:
        with progress("searching", plan.bytes_to_read) as advance:
            batches = read_rows(plan, self._schema(names), advance, self._threads)
            try:
                yield batches
            finally:
                batches.close()  # type: ignore[attr-defined]  # it is a generator

    def _schema(self, names: tuple[str, ...]) -> pa.Schema:
        """The columns to read. With timestamps, all checks are those of a read."""
        return self._plan.schema([*dict.fromkeys((*names, "timestamp"))])

    def _print(self, fields: dict[str, Any], text: str) -> None:
        click.echo(to_json_line(fields) if self._as_json else text)


def _take(batches: Iterator[pa.RecordBatch], most: int | None) -> Iterator[pa.RecordBatch]:
    """Yields the first `most` rows (None: all), and asks for no batch after them."""
    left = sys.maxsize if most is None else most
    while left > 0 and (batch := next(batches, None)) is not None:
        yield batch.slice(0, left)
        left -= batch.num_rows


def _make_lines(batch: pa.RecordBatch) -> Iterator[str]:
    columns = [batch[name].to_pylist() for name in ("topic", "partition", "offset", "place", "name", "start", "length")]
    times = batch["timestamp"].cast(pa.int64()).to_pylist()
    is_terminal = sys.stdout.isatty()
    columns_wide = width()
    texts = batch["text"].to_pylist()
    for topic, partition, offset, place, name, start, length, micros, text in zip(*columns, times, texts, strict=True):
        where = "-" if place is None else place if name is None else f"{place} {name}" if place == "header" else name
        head = f"{topic}-{partition}\t{offset}\t{format_millis(micros // 1000)}\t{escape(where)}\t"
        room = min(max(columns_wide - len(head.expandtabs()), _SHORTEST), _LONGEST)
        if text is None:
            yield head + "null\n"
            continue
        before, match, after = cut_excerpt(text, start or 0, length or 0, room)
        yield (
            head + before + (click.style(match, fg="red", bold=True) if is_terminal and match else match) + after + "\n"
        )
