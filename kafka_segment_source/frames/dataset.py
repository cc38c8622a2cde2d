"""`dataset`: a log as a dataset of pyarrow, which DuckDB takes as well.

DuckDB and pyarrow call `scanner(columns=…, filter=…)` of a dataset. The columns and the filter reach the plan of the
read. The filter is applied to the rows again, so the answer is that of a full read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from itertools import chain
from typing import Any, NoReturn, Unpack

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pads

from kafka_segment_source.bounds import EVERY_ROW
from kafka_segment_source.decoding.tables import split_table
from kafka_segment_source.errors import SchemaError, UnsupportedError
from kafka_segment_source.frames.predicates import find_columns, find_possible_rows
from kafka_segment_source.keywords import PathsLike, ScanOptions, check_threads, option_texts
from kafka_segment_source.option_values import FORMATS_OF_TEXT
from kafka_segment_source.options import ReadOptions, parse_options
from kafka_segment_source.planning.plan import ReadPlan
from kafka_segment_source.planning.planner import plan_selected
from kafka_segment_source.planning.selection import Selection, Sources, select
from kafka_segment_source.reporting import Warnings
from kafka_segment_source.schema import Table
from kafka_segment_source.schema_registry.typing import type_columns
from kafka_segment_source.views.by_name import view_of
from kafka_segment_source.views.view import plan_view

Columns = Sequence[str] | Mapping[str, pc.Expression] | None
"""Names of columns, or new columns by name, as pyarrow's datasets take them. None: all."""


def dataset(path: PathsLike, threads: int | None = None, **options: Unpack[ScanOptions]) -> LogDataset:
    """Makes a lazy dataset of a log. No record is read before a query asks for rows; schemas of typed values are.

    DuckDB queries a variable that holds it. pyarrow's own methods work too: `to_table`, `to_batches`, `head`, `filter`,
    `count_rows`. Each query makes a plan of its own, so it sees what the log holds at that moment.

    Args:
        path: A partition directory, a log directory, a `.log` file or a glob; or a list of these.
        threads: How many threads read and decode. By default, as many as `scan` takes.
        options: The options of docs/options.md under their own names, with Python values. Times ago count from this
            call.

    Returns:
        The dataset. Its columns are those that the options ask for.

    Raises:
        UsageError: An invalid request. Paths and topics are looked at when a query asks for rows.

    Example:
        >>> import kafka_segment_source
        >>> import pyarrow.compute as pc
        >>> orders = kafka_segment_source.dataset("examples/data/orders/data", subscribe="orders")
        >>> orders.to_table(["offset"], filter=(pc.field("partition") == 2) & (pc.field("offset") < 5)).num_rows
        5
    """
    parsed, warnings = parse_options(option_texts(path, options), parameters=("threads",))
    parsed = type_columns(parsed, warnings)
    return LogDataset(_Source(parsed, tuple(warnings), check_threads(threads)))


@dataclass(frozen=True)
class _Source:
    """A read that has not begun.

    predicate: what every row must pass, or None.
    """

    options: ReadOptions
    warnings: tuple[str, ...]
    threads: int | None
    predicate: pc.Expression | None = None

    @property
    def table(self) -> Table:
        view = view_of(self.options.content.view)
        return split_table(self.options.content) if view is None else view.table

    @property
    def schema(self) -> pa.Schema:
        return self.table.arrow_schema(self.table.default_names(self.options.content))

    def narrow(self, predicate: pc.Expression | None) -> _Source:
        """Returns the read of the rows that pass another predicate too."""
        if predicate is None:
            return self
        return replace(self, predicate=predicate if self.predicate is None else self.predicate & predicate)

    def make_plan(self) -> ReadPlan:
        """Makes the plan of a read of records or batches, without what the predicate excludes."""

        view = view_of(self.options.content.view)
        if view is not None:
            return plan_view(view, self.options, self.warnings)

        def select_all(sources: Sources, warnings: Warnings) -> Selection:
            if self.predicate is None:
                return select(sources, [EVERY_ROW], warnings)[0]
            partitions = [log.topic_partition for log in sources.logs]
            keeps_bytes = self.options.formats.key in FORMATS_OF_TEXT
            possible = find_possible_rows(
                self.predicate, self.schema, partitions, self.options.content.view, keeps_bytes
            )
            return select(sources, [possible], warnings)[0]

        return plan_selected(self.options, self.warnings, select_all)

    def read(self, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yields the rows that may pass the predicate, with the columns of these names."""
        return iter(self.make_plan().to_reader(names, self.threads))


def _check_names(names: list[str], schema: pa.Schema) -> list[str]:
    for name in names:
        if name not in schema.names:
            near = get_close_matches(name.lower(), schema.names, n=1, cutoff=0.5)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise SchemaError(f"the dataset has no column {name!r}{hint} (it has {', '.join(schema.names)})")
    return names


class LogScanner:
    """One query of a dataset: its columns and its predicate. It has the methods of pyarrow.dataset.Scanner.

    dataset_schema: of the dataset. projected_schema: of the rows of this query.
    """

    def __init__(self, source: _Source, columns: Columns) -> None:
        self._source = source
        self.dataset_schema = source.schema
        named = set() if source.predicate is None else find_columns(source.predicate, source.schema)
        if isinstance(columns, Mapping):
            self._projection: Mapping[str, pc.Expression] | None = columns
            for made in columns.values():
                named |= find_columns(made.is_null(), source.schema)
            self.projected_schema = self._project(source.schema.empty_table()).schema
        else:
            names = source.schema.names if columns is None else _check_names(list(columns), source.schema)
            self._projection = None
            self.projected_schema = pa.schema([source.schema.field(name) for name in names])
            named |= set(names)
        # rows are counted by a column, so one is read where none is named
        self._names = [name for name in source.schema.names if name in named] or source.schema.names[-1:]

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """Yields the rows, decoded as they are asked for. No batch is empty."""
        predicate = self._source.predicate
        for batch in self._source.read(self._names):
            kept = batch if predicate is None else _filter_rows(batch, predicate)
            if kept.num_rows and self._projection is None:
                yield kept.select(self.projected_schema.names)
            elif kept.num_rows:
                yield from self._project(pa.Table.from_batches([kept])).to_batches()

    def to_reader(self) -> pa.RecordBatchReader:
        """Returns the rows as a stream. The plan is made now."""
        batches = self.to_batches()
        first = next(batches, None)  # so that errors of the plan come here
        return pa.RecordBatchReader.from_batches(
            self.projected_schema, batches if first is None else chain([first], batches)
        )

    def to_table(self) -> pa.Table:
        """Returns all rows."""
        return pa.Table.from_batches(self.to_batches(), self.projected_schema)

    def head(self, num_rows: int) -> pa.Table:
        """Returns the first rows. No segment after them is read."""
        batches: list[pa.RecordBatch] = []
        wanted = num_rows
        for batch in self.to_batches() if wanted > 0 else ():
            batches.append(batch[:wanted])
            wanted -= batches[-1].num_rows
            if not wanted:
                break
        return pa.Table.from_batches(batches, self.projected_schema)

    def count_rows(self) -> int:
        """Returns the number of rows."""
        return sum(batch.num_rows for batch in self.to_batches())

    def _project(self, rows: pa.Table) -> pa.Table:
        assert self._projection is not None
        return pads.dataset(rows).to_table(columns=dict(self._projection))


class LogDataset(pads.Dataset):  # type: ignore[misc]  # pyarrow has no types
    """A log as a pyarrow.dataset.Dataset: lazy, and with the columns and predicates of each query in its plan.

    Arrow's own C++ parts of a dataset do not exist here. What needs them raises UnsupportedError, and says what to call
    instead.
    """

    def __init__(self, source: _Source) -> None:
        self._source = source

    @property
    def schema(self) -> pa.Schema:
        """The columns that the options ask for."""
        return self._source.schema

    @property
    def partition_expression(self) -> pc.Expression:
        """True for every row."""
        return pc.scalar(True)

    def scanner(self, columns: Columns = None, filter: pc.Expression | None = None, **_: Any) -> LogScanner:
        """Begins a query. Nothing is read yet. Arrow's hints for its own threads mean nothing here.

        Args:
            columns: Names, or a dict of names and expressions. By default, all columns.
            filter: What every row must pass.

        Returns:
            The query, with the methods of pyarrow.dataset.Scanner.

        Raises:
            SchemaError: A column does not exist.
            pyarrow.ArrowInvalid: The filter does not fit the columns.
        """
        return LogScanner(self._source.narrow(filter), columns)

    def plan(self, filter: pc.Expression | None = None) -> ReadPlan:
        """Returns what a query would read, and why the rest is left out.

        A view whose rows lie in no byte ranges of `.log` files gives a `ViewPlan`. It reads every row, and the filter
        is applied after that.
        """
        return self._source.narrow(filter).make_plan()

    def filter(self, expression: pc.Expression) -> LogDataset:
        """Returns a dataset of the rows that pass."""
        return LogDataset(self._source.narrow(expression))

    def to_batches(
        self, columns: Columns = None, filter: pc.Expression | None = None, **_: Any
    ) -> Iterator[pa.RecordBatch]:
        """Yields the rows of a query, decoded as they are asked for."""
        return self.scanner(columns, filter).to_batches()

    def to_table(self, columns: Columns = None, filter: pc.Expression | None = None, **_: Any) -> pa.Table:
        """Returns all rows of a query."""
        return self.scanner(columns, filter).to_table()

    def head(self, num_rows: int, columns: Columns = None, filter: pc.Expression | None = None, **_: Any) -> pa.Table:
        """Returns the first rows of a query. No segment after them is read."""
        return self.scanner(columns, filter).head(num_rows)

    def count_rows(self, filter: pc.Expression | None = None, **_: Any) -> int:
        """Returns the number of rows of a query."""
        return self.scanner([], filter).count_rows()

    def take(self, indices: Any, columns: Columns = None, filter: pc.Expression | None = None, **_: Any) -> pa.Table:
        """Returns the rows at some positions of a query. It reads all rows before it."""
        return self.to_table(columns, filter).take(indices)

    def sort_by(self, sorting: Any, **options: Any) -> pads.InMemoryDataset:
        """Returns all rows in another order, in memory."""
        return pads.InMemoryDataset(self.to_table().sort_by(sorting, **options))

    def get_fragments(self, filter: pc.Expression | None = None) -> NoReturn:
        """There are none."""
        _refuse("get_fragments", "`plan(filter)` shows the byte ranges that a query reads")

    _get_fragments = get_fragments

    def replace_schema(self, schema: pa.Schema) -> NoReturn:
        """Not possible."""
        _refuse("replace_schema", "`scanner(columns={name: expression})` gives columns of other names and types")

    def join(self, *_: Any, **__: Any) -> NoReturn:
        """Not possible."""
        _refuse("join", "`to_table()` has it")

    def join_asof(self, *_: Any, **__: Any) -> NoReturn:
        """Not possible."""
        _refuse("join_asof", "`to_table()` has it")

    def __reduce__(self) -> tuple[type[LogDataset], tuple[_Source]]:
        return LogDataset, (self._source,)

    def __repr__(self) -> str:
        return f"<LogDataset of {', '.join(self._source.options.source.paths)}>\n{self.schema}"


def _refuse(method: str, instead: str) -> NoReturn:
    raise UnsupportedError(f"a dataset of a log has no {method}: {instead}")


def _filter_rows(batch: pa.RecordBatch, predicate: pc.Expression) -> pa.RecordBatch:
    """Returns the rows of a batch that pass. `RecordBatch.filter` of pyarrow 18 fails where none does."""
    kept = pa.Table.from_batches([batch]).filter(predicate).combine_chunks().to_batches()
    return kept[0] if kept else batch.slice(0, 0)
