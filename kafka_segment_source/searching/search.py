"""The public function `search`: a path, a pattern and keyword options → the records that match."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Unpack

import pyarrow as pa

from kafka_segment_source.decoding.tables import MakeRows, SplitTable
from kafka_segment_source.errors import OptionError, SchemaError
from kafka_segment_source.in_order import count_processors
from kafka_segment_source.keywords import PathsLike, ScanOptions, count_threads, option_texts
from kafka_segment_source.option_values import BINARY, RECORDS
from kafka_segment_source.options import ReadOptions, parse_options
from kafka_segment_source.planning.plan import ReadPlan
from kafka_segment_source.planning.planner import make_plan
from kafka_segment_source.reporting import Warnings
from kafka_segment_source.schema import RECORD_COLUMNS
from kafka_segment_source.schema_registry.typing import split_names, type_columns
from kafka_segment_source.searching.hits import HIT_COLUMNS, Field, Wanted
from kafka_segment_source.searching.pattern import Pattern

if TYPE_CHECKING:
    from kafka_segment_source.values.typed import TypedColumns

COLUMNS = ("topic", "partition", "offset", "timestamp", "place", "name", "start", "length", "key", "value")
_JSON = "json"


def search(  # noqa: PLR0913  # each is a question of its own
    path: PathsLike,
    pattern: str | bytes,
    *,
    fixed: bool = False,
    ignore_case: bool = False,
    invert: bool = False,
    keys: bool = False,
    values: bool = False,
    headers: Sequence[str] = (),
    field: str | None = None,
    columns: Sequence[str] | None = None,
    threads: int | None = None,
    **options: Unpack[ScanOptions],
) -> pa.RecordBatchReader:
    """Finds the records that have a text in their key, their value, or a header's value.

    The bytes of many records are searched at once, before rows are made of them. The checks of a read of the same range
    are made: damage and lost offsets are an error, or a warning, as the options say. Only with `fixed`, no
    record is checked of a batch that has the text nowhere in its bytes, if its CRC proves these.

    Args:
        path: A partition directory, a log directory, a `.log` file or a glob; or a list of these.
        pattern: A regular expression of RE2, or with `fixed` a text or bytes. It may match anywhere, but not across
            the end of a key or a value. `^` and `$` are the beginning and the end of the key or value.
        fixed: Whether the pattern is a text, not a regular expression.
        ignore_case: Whether case counts for nothing, by Unicode's simple folding. Keys and values are UTF-8 then.
        invert: Whether the records without a match are wanted.
        keys: Search keys. Without `keys`, `values`, `headers` and `field`, all keys, values and headers are searched.
        values: Search values.
        headers: Search the values of the headers with these names.
        field: Search one field of typed keys or values: `value.customer.id`, with `valueFormat`. In JSON without a
            schema, a number stands for an item of a list.
        columns: Names of the wanted columns, in order: those of records, and `place`, `name`, `start`, `length`,
            `text`. By default, topic, partition, offset, timestamp, place, name, start, length, key, value.
        threads: How many threads read and decode. By default, one for each processor.
        options: The options of docs/options.md under their own names, with Python values.

    Returns:
        A reader of the matching records, by topic, partition and offset. `place` is key, value, header or field: the
        first of these that matches. `name` is that of the header, or the path of the field. `start` and `length` (in
        bytes) say where the first match is in its bytes, and `text` has these bytes. An inverted search has no places.

    Raises:
        UsageError: An invalid pattern, option, field, path or topic.
        DataLossError: The query asks for offsets that the files do not hold. The reader may raise it.
        DataError: The data is damaged. The reader raises it.
        StorageError: A file or directory cannot be read. The reader may raise it too. A retry may help.

    Example:
        >>> import kafka_segment_source
        >>> found = kafka_segment_source.search(
        ...     "examples/data/orders/data", "hand gr[a-z]+", subscribe="orders", until="2026-03-10T09:01"
        ... )
        >>> found.read_all().num_rows > 0
        True
    """
    parsed, warnings = parse_options(option_texts(path, options), parameters=("columns", "threads"))
    parts = (keys, values, headers)
    plan = plan_search(
        parsed,
        warnings,
        Pattern(pattern, fixed=fixed, ignore_case=ignore_case),
        *(parts if any(parts) else (True, True, None)),
        field=field,
        inverted=invert,
    )
    return plan.to_reader(COLUMNS if columns is None else columns, threads_or_all(threads))


def plan_search(
    options: ReadOptions,
    warnings: Warnings,
    pattern: Pattern,
    key: bool = True,
    value: bool = True,
    headers: Sequence[str] | None = None,
    *,
    field: str | None = None,
    inverted: bool = False,
) -> ReadPlan:
    """Returns the plan of a search. It reads as other plans do, and its rows are the matching records.

    headers: names; None: all. The other parameters are those of `search`.
    """
    if options.content.view != RECORDS:
        raise OptionError(f"option 'view' is {options.content.view!r}: a search reads {RECORDS}", options=("view",))
    of_field = None
    if field is not None:
        options, of_field = _type_field(options, warnings, field)
    elif not options.formats.are_binary:
        raise OptionError(
            "options 'keyFormat' and 'valueFormat' are for a search of one field: name it by field",
            options=("keyFormat", "valueFormat"),
        )
    names = None if headers is None else tuple(headers)
    wanted = Wanted(pattern, key, value, names, of_field, inverted)
    return make_plan(options, warnings, table=table_of(wanted, options.content.typed))


def threads_or_all(threads: int | None) -> int:
    """Returns the number of threads that a caller asks for. None is one for each processor of this process."""
    return count_processors() if threads is None else count_threads(threads)


def _type_field(options: ReadOptions, warnings: Warnings, name: str) -> tuple[ReadOptions, Field]:
    """Returns the options with typed columns of which only one field is decoded, and the field."""
    column, *path = name.split(".")
    if column not in ("key", "value"):
        raise OptionError(f"field {name!r} is neither in the key nor in the value: expected value.NAME or key.NAME")
    form, _ = options.formats.of(column)
    if form == BINARY:
        raise OptionError(
            f"field {name!r} needs to know what a {column} is: give option '{column}Format'",
            options=(f"{column}Format",),
        )
    if form == _JSON:
        typed = type_columns(options, Warnings())
        assert typed.content.typed is not None
        if pa.types.is_string(typed.content.typed.meanings[column].arrow):
            return type_columns(options, warnings), Field(column, tuple(path), is_json=True)
    wanted = None
    if options.content.typed_keys is None:  # else keys may be compared by any of their fields
        _, wanted = split_names(options.formats, [name])
    typed = type_columns(options, warnings, wanted)
    assert typed.content.typed is not None
    field = Field(column, tuple(path))
    _check_path(typed.content.typed.meanings[column].arrow, field)
    return typed, field


def _check_path(kind: Any, field: Field) -> None:
    for name in field.path:
        if not pa.types.is_struct(kind) or kind.get_field_index(name) < 0:
            raise SchemaError(f"there is no field {field.name!r}: {name!r} is not in {kind}")
        kind = kind.field(name).type


def table_of(wanted: Wanted, typed: TypedColumns | None) -> SplitTable:
    """The table of the records that match: the columns of records, typed if they are, and those of a match."""
    records = RECORD_COLUMNS if typed is None else typed.table.columns
    return SplitTable((*records, *HIT_COLUMNS), lambda: _load_maker(wanted))


def _load_maker(wanted: Wanted) -> MakeRows:
    from kafka_segment_source.searching.match_rows import make_rows  # noqa: PLC0415  # planning does without the kernels

    return make_rows(wanted)
