"""`kafkaseg cat`: prints records as text or JSON lines, or writes them into a Parquet file."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import click
import pyarrow as pa

from kafka_segment_source.cli.parquet import check_output, write_parquet
from kafka_segment_source.cli.record_lines import (
    CONTROL_TYPE,
    Encoder,
    Encoding,
    json_lines,
    text_fields,
    text_lines,
    write_lines,
)
from kafka_segment_source.cli.shared import (
    AS_A_SCAN,
    DAMAGED,
    count,
    output_options,
    parse,
    paths_argument,
    progress,
    read_options,
    skipped_data,
    threads_option,
    warn,
    warn_of_plan,
)
from kafka_segment_source.decoding.tables import split_table
from kafka_segment_source.option_table import CUTTING, OPTIONS
from kafka_segment_source.option_values import NEWEST
from kafka_segment_source.planning.plan import ReadPlan, read_rows
from kafka_segment_source.planning.planner import make_plan
from kafka_segment_source.reporting import Advance
from kafka_segment_source.schema_registry.typing import split_names, type_columns

_BINARY = (
    "some keys or values are not UTF-8: text has such bytes as \\xff, and JSON has the whole as"
    ' {"base64": "…"}; --as base64 prints all of them alike, and --format parquet keeps the bytes'
)
_SPARK_ONLY = tuple(option.name for option in OPTIONS if option.group == CUTTING)


@click.command("cat", short_help="Records as text, JSON lines or Parquet.")
@paths_argument
@output_options("records")
@click.option("--columns", metavar="NAMES", help="Columns to print, separated by commas: offset,key,value.")
@click.option(
    "--as",
    "encoding",
    type=click.Choice([encoding.value for encoding in Encoding]),
    default=Encoding.TEXT.value,
    show_default=True,
    help="How bytes of keys, values and header values are printed; text is UTF-8, and other bytes are escaped.",
)
@click.option("--latest", is_flag=True, help="Only the newest record of each key: the same as view=latest.")
@click.option("--values", metavar="FORMAT", help="What values are: the same as --value-format.")
@threads_option("Threads that read and decode. With --limit it is 1.", AS_A_SCAN)
@read_options(but=(*_SPARK_ONLY, "view"))
def cat_command(
    paths: tuple[str, ...],
    kind: str,
    as_json: bool,
    output: str | None,
    limit: int | None,
    columns: str | None,
    encoding: str,
    threads: int | None,
    **options: Any,
) -> None:
    """Print records, one a line: partition, offset, timestamp, key and value, separated by tabs.

    Null is printed as null; a tab, a line end or a backslash inside a text as \\t, \\n and \\\\, and a byte that is
    not UTF-8 as \\xff. JSON lines hold the columns of a read under their names, and typed values (--values) as
    JSON; a key or value that is not UTF-8 is {"base64": "…"} there. Takes every option of a read; reads no more
    than --limit needs. Only --format parquet and --latest use several threads.
    Exits with 1 if damaged records were left out (--mode DROPMALFORMED). With --include-control true, transaction
    markers show as controlType COMMIT or ABORT.

    \b
    kafkaseg cat /var/kafka-logs --subscribe orders --since -10m | head
    kafkaseg cat /var/kafka-logs --subscribe orders --columns value -n 1
    kafkaseg cat orders-0 --starting-offsets '{"orders":{"0":1200}}' -n 5
    kafkaseg cat orders-0 --format jsonl --include-headers true | jq .value
    kafkaseg cat /var/kafka-logs --subscribe orders --values avro --json
    kafkaseg cat /var/kafka-logs --subscribe orders --latest
    kafkaseg cat orders-0 --since -1h --format parquet --output hour.parquet
    """
    kind = "jsonl" if as_json else kind
    check_output(kind, output)
    values = options.pop("values")
    options["valueFormat"] = values or options["valueFormat"]
    if options.pop("latest"):
        options["view"] = NEWEST
    parsed, warnings = parse(paths, options)
    asked, wanted = split_names(parsed.formats, None if columns is None else columns.replace(" ", "").split(","))
    plan = make_plan(type_columns(parsed, warnings, wanted), warnings)
    table = split_table(plan.options.content)
    chosen = None if asked is None else table.check_names(asked)
    names = chosen or table.default_names(parsed.content)
    if plan.options.content.view != NEWEST and (output is None or (limit is not None and threads is None)):
        threads = 1  # it reads a split only when a record of it is wanted
    with skipped_data() as skipped:
        warn_of_plan(plan.warnings)
        if output is not None:
            schema = table.arrow_schema(names)
            with progress("writing", plan.bytes_to_read) as advance:
                batches = _read_batches(plan, schema, limit, threads, advance)
                records = write_parquet(output, schema, batches)
            warn(f"{count(records, 'record')} written to {output!r}")
        elif kind == "jsonl":
            lines = partial(json_lines, fields=names)
            records = _print_records(plan, limit, threads, names, lines, Encoder(Encoding(encoding)))
        else:
            fields = chosen or text_fields(names)
            lines = partial(text_lines, fields=fields)
            records = _print_records(plan, limit, threads, names, lines, Encoder(Encoding(encoding)))
    if skipped:
        sys.exit(DAMAGED)
    if not records and limit != 0:
        warn("no record matches; `kafkaseg ls` shows what is there, `kafkaseg plan` what was read and why")


def _print_records(
    plan: ReadPlan,
    limit: int | None,
    threads: int | None,
    names: Sequence[str],
    lines: Callable[..., pa.Array],
    encoder: Encoder,
) -> int:
    """Prints the records of a plan and returns their number.

    lines: makes lines of a batch with these columns. It says once if bytes are not the text that was asked for.
    """
    schema = split_table(plan.options.content).arrow_schema(
        dict.fromkeys((*names, CONTROL_TYPE) if plan.options.content.include_control else names)
    )
    records, has_said = 0, False
    for batch in _read_batches(plan, schema, limit, threads):
        write_lines(lines(batch, encoder))
        records += batch.num_rows
        if encoder.has_binary and not has_said:
            warn(_BINARY)
            has_said = True
    return records


def _read_batches(
    plan: ReadPlan, schema: pa.Schema, limit: int | None, threads: int | None, advance: Advance = lambda _: None
) -> Iterator[pa.RecordBatch]:
    """Reads the first `limit` records of the plan (None: all).

    With one thread, it reads a split only when a record of it is wanted. None: the plan chooses their number.
    """
    left = sys.maxsize if limit is None else limit
    if left == 0:
        return
    for batch in read_rows(plan, schema, advance, threads):
        yield batch.slice(0, left)
        left -= batch.num_rows
        if left <= 0:
            return
