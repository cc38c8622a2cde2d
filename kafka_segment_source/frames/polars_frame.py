"""`scan_polars`: a log as a lazy frame of Polars.

Polars gives a source the columns, the predicate and the number of rows that a query needs. Polars itself converts the
predicate to one of Arrow, which narrows the plan (`predicates.py`). It leaves out conditions on bytes, so those on keys
are read from the predicate here. The predicate of Polars is applied to every row, so the answer is that of a full read.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Unpack

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pads

from kafka_segment_source.bounds import intersect_sets, unite_sets
from kafka_segment_source.errors import UnsupportedError
from kafka_segment_source.frames.dataset import LogDataset, dataset
from kafka_segment_source.keywords import PathsLike, ScanOptions

if TYPE_CHECKING:
    import polars


def scan_polars(path: PathsLike, threads: int | None = None, **options: Unpack[ScanOptions]) -> polars.LazyFrame:
    """Makes a lazy frame of a log. Nothing is read before `collect` or a sink.

    Columns, predicates on topic, partition, offset, timestamp and key, and `head` reach the plan of the read.

    Args:
        path: A partition directory, a log directory, a `.log` file or a glob; or a list of these.
        threads: How many threads read and decode. By default, one.
        options: The options of docs/options.md under their own names, with Python values. Times ago count from this
            call.

    Returns:
        The frame. Each `collect` reads what the log holds at that moment.

    Raises:
        UsageError: An invalid request. Paths and topics are looked at when rows are asked for.
        UnsupportedError: Polars is not installed.

    Example:
        >>> import kafka_segment_source, polars
        >>> orders = kafka_segment_source.scan_polars("examples/data/orders/data", subscribe="orders")
        >>> orders.filter(polars.col("partition") == 2).select("offset").head(3).collect().height
        3
    """
    try:
        import polars  # noqa: PLC0415  # an extra
        from polars.io.plugins import register_io_source  # noqa: PLC0415  # with it
    except ImportError as error:
        raise UnsupportedError(
            f"scan_polars needs Polars 1.20 or later: pip install 'polars>=1.20' ({error})"
        ) from error
    rows = dataset(path, threads, **options)
    empty = polars.from_arrow(rows.schema.empty_table())
    assert isinstance(empty, polars.DataFrame)

    def read(
        columns: list[str] | None, predicate: polars.Expr | None, count: int | None, _: int | None
    ) -> Iterator[polars.DataFrame]:
        narrow = None if predicate is None else convert_predicate(predicate, rows)
        yield from _read_frames(rows, columns, predicate, narrow, count)

    return register_io_source(read, schema=empty.schema)


def _read_frames(
    rows: LogDataset,
    columns: list[str] | None,
    predicate: polars.Expr | None,
    narrow: pc.Expression | None,
    count: int | None,
) -> Iterator[polars.DataFrame]:
    import polars  # noqa: PLC0415  # an extra

    wanted = count
    for batch in rows.scanner(columns, narrow).to_batches():
        frame = polars.from_arrow(batch)
        assert isinstance(frame, polars.DataFrame)
        if predicate is not None:
            frame = frame.filter(predicate)
        if wanted is not None:
            frame = frame.head(wanted)
            wanted -= frame.height
        yield frame
        if wanted == 0:
            return


class _Noted(pads.Dataset):  # type: ignore[misc]  # pyarrow has no types
    """A dataset without rows that notes the predicate of a query."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self.predicate: pc.Expression | None = None

    @property
    def schema(self) -> pa.Schema:
        return self._schema

    def to_batches(self, filter: pc.Expression | None = None, **_: Any) -> Iterator[pa.RecordBatch]:
        self.predicate = filter
        return iter(())

    def to_table(self, filter: pc.Expression | None = None, **_: Any) -> pa.Table:
        self.predicate = filter
        return self._schema.empty_table()


def convert_predicate(predicate: polars.Expr, rows: LogDataset) -> pc.Expression | None:
    """Returns what Polars makes of a predicate for a dataset of Arrow, or None where it makes nothing of it."""
    import polars  # noqa: PLC0415  # an extra

    noted = _Noted(rows.schema)
    try:
        polars.scan_pyarrow_dataset(noted).filter(predicate).collect()
    except Exception:  # what Polars or Arrow cannot convert narrows nothing
        noted.predicate = None
    keys = _find_keys(predicate) if pa.types.is_binary(rows.schema.field("key").type) else None
    if keys is None:
        return noted.predicate
    has_key = pc.field("key").isin(pa.array(sorted(keys), pa.binary()))
    return has_key if noted.predicate is None else noted.predicate & has_key


def _find_keys(predicate: polars.Expr) -> frozenset[bytes] | None:
    """Returns the only keys that may pass a predicate. None: others may pass too, or nothing is known."""
    try:
        return _keys_of(json.loads(predicate.meta.serialize(format="json")))
    except Exception:  # another version of Polars may write expressions in another way
        return None


def _keys_of(node: Any) -> frozenset[bytes] | None:
    """Returns the keys that an expression leaves, as Polars writes it in JSON."""
    match node:
        case {"BinaryExpr": {"op": "And" | "LogicalAnd", "left": left, "right": right}}:
            return intersect_sets(_keys_of(left), _keys_of(right))
        case {"BinaryExpr": {"op": "Or" | "LogicalOr", "left": left, "right": right}}:
            return unite_sets(_keys_of(left), _keys_of(right))
        case {"BinaryExpr": {"op": "Eq" | "EqValidity", "left": {"Column": "key"}, "right": literal}} | {
            "BinaryExpr": {"op": "Eq" | "EqValidity", "left": literal, "right": {"Column": "key"}}
        }:
            return frozenset([bytes(literal["Literal"]["Scalar"]["Binary"])])
        case {
            "Function": {
                "input": [{"Column": "key"}, {"Literal": {"Scalar": {"List": stream}}}],
                "function": {"Boolean": {"IsIn": _}},
            }
        }:
            values = pa.ipc.open_stream(bytes(stream)).read_all().column(0).to_pylist()
            if any(type(value) is not bytes for value in values):
                return None
            return frozenset(values)
    return None
