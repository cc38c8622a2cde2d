"""Arrow's expressions → `RowFilter`: the partitions, offsets, timestamps and keys that may pass a predicate.

Arrow keeps expressions closed: no function takes one apart. But Arrow itself leaves out the fragments of a dataset
whose guarantee contradicts a predicate (`partition_expression`, as for the row groups of Parquet files). So this module
asks about fragments that do not exist: may a row pass whose offset is at most 4711? The answers are exact for
comparisons, IN and BETWEEN, joined by AND, OR and NOT. For everything else Arrow answers "perhaps", and nothing is left
out. No file is opened.

The caller applies the predicate to every row that is read. So a range may be too wide here, but never too narrow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from itertools import pairwise

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pads
from pyarrow.fs import LocalFileSystem

from kafka_segment_source.bounds import OffsetRange, RowFilter, TimeRange
from kafka_segment_source.kafka_format import MAX_OFFSET
from kafka_segment_source.option_values import BATCHES, NEWEST, RECORDS, TopicPartition
from kafka_segment_source.schema import MAX_MILLIS, TIMESTAMP_TYPE

_ASKED_AT_ONCE = 15  # values in one question; a search over 63 bits takes 16 questions
_MOST_KEYS = 1024  # literals; the time for the answers grows with their square. Of an IN, Arrow looks at 50
# Of view=latest none: a bound would change which record is the newest
_OFFSET_COLUMNS = {RECORDS: "offset", BATCHES: "lastOffset"}
_TIME_COLUMNS = {RECORDS: "timestamp"}

Search = Callable[[Sequence[int]], list[bool]]


def find_possible_rows(
    predicate: pc.Expression,
    schema: pa.Schema,
    partitions: Iterable[TopicPartition],
    view: str,
    keeps_bytes: bool = True,
) -> RowFilter:
    """Finds which rows of a view may pass a predicate.

    schema: every column that the predicate may name. partitions: those of the read. view: `records` or `batches`;
    offsets of batches are their last offsets. keeps_bytes: whether the same value of the column key is always the same
    stored bytes. Raises pyarrow.ArrowInvalid for a column that is not in the schema, and for a comparison of types that
    Arrow cannot compare.
    """
    _check(predicate, schema)
    known = sorted(set(partitions))
    may_pass = _ask(predicate, schema, [_is_partition(topic, partition) for topic, partition in known])
    possible = [pair for pair, passes in zip(known, may_pass, strict=True) if passes]
    row_filter = RowFilter(
        topics=frozenset(topic for topic, _ in possible), partitions=frozenset(partition for _, partition in possible)
    )
    if view in _OFFSET_COLUMNS:
        start, after = _find_range(predicate, schema, pc.field(_OFFSET_COLUMNS[view]), 0, MAX_OFFSET - 1, pa.scalar)
        row_filter = row_filter._replace(offsets=OffsetRange(start, after))
    if view in _TIME_COLUMNS:
        since, until = _find_range(
            predicate, schema, pc.field(_TIME_COLUMNS[view]), -MAX_MILLIS, MAX_MILLIS, _make_timestamp
        )
        # A range that reaches the end of what microseconds can hold is no bound. Kafka's milliseconds go further.
        everything = TimeRange()
        row_filter = row_filter._replace(
            times=TimeRange(
                everything.since if since == -MAX_MILLIS else since, everything.until if until > MAX_MILLIS else until
            )
        )
    if keeps_bytes and view in (RECORDS, NEWEST):
        row_filter = row_filter._replace(keys=_find_keys(predicate, schema))
    return row_filter


def find_columns(predicate: pc.Expression, schema: pa.Schema) -> set[str]:
    """Returns the columns of `schema` that a predicate names: without such a column, Arrow refuses the predicate."""
    _check(predicate, schema)
    return {name for at, name in enumerate(schema.names) if not _is_bound(predicate, schema.remove(at))}


def _is_bound(predicate: pc.Expression, schema: pa.Schema) -> bool:
    try:
        _check(predicate, schema)
    except pa.ArrowInvalid:
        return False
    return True


def _check(predicate: pc.Expression, schema: pa.Schema) -> None:
    """Raises what Arrow raises for a predicate that does not fit the columns."""
    schema.empty_table().filter(predicate)


def _is_partition(topic: str, partition: int) -> pc.Expression:
    return (pc.field("topic") == pa.scalar(topic)) & (pc.field("partition") == pa.scalar(partition, pa.int32()))


def _make_timestamp(millis: int) -> pa.Scalar:
    return pa.scalar(millis * 1000, TIMESTAMP_TYPE)


def _find_keys(predicate: pc.Expression, schema: pa.Schema) -> frozenset[bytes] | None:
    """Returns the only keys that may pass, as they are stored. None: others may pass too, or rows without a key.

    The literals of the predicate are tried, and then the ranges between them: if no key of any range may pass, no other
    key does.
    """
    column, kind = pc.field("key"), schema.field("key").type
    tried = sorted(_find_literals(predicate, is_text=pa.types.is_string(kind)))
    if not 0 < len(tried) <= _MOST_KEYS:
        return None
    scalars = [pa.scalar(key, pa.binary()).cast(kind) for key in tried]
    others = [column.is_null(), column < scalars[0], column > scalars[-1]]
    others += [(column > low) & (column < high) for low, high in pairwise(scalars)]
    if any(_ask(predicate, schema, others)):
        return None
    may_pass = _ask(predicate, schema, [column == scalar for scalar in scalars])
    return frozenset(key for key, passes in zip(tried, may_pass, strict=True) if passes)


def _find_literals(predicate: pc.Expression, is_text: bool) -> set[bytes]:
    """Returns the bytes and the texts in a predicate, as bytes. They may be fewer or more than it compares with keys.

    Arrow pickles an expression as a batch of one row, with a column for each literal and each set of values.
    is_text: whether only texts in UTF-8 count.
    """
    _, (pickled, *_) = predicate.__reduce__()
    literals: set[bytes] = set()
    todo: list[object] = []
    with suppress(pa.ArrowException, TypeError, ValueError):
        batch = pa.ipc.open_file(pickled).get_batch(0)
        todo = [value for column in batch.columns for value in column.to_pylist()]
    while todo:
        value = todo.pop()
        if isinstance(value, dict):
            todo += value.values()
        elif isinstance(value, list):
            todo += value
        elif isinstance(value, (bytes, str)):
            with suppress(UnicodeError):  # it is no key of this type
                text = value.decode() if isinstance(value, bytes) and is_text else value
                literals.add(text.encode() if isinstance(text, str) else text)
    return literals


def _find_range(
    predicate: pc.Expression,
    schema: pa.Schema,
    column: pc.Expression,
    least: int,
    most: int,
    make_scalar: Callable[[int], pa.Scalar],
) -> tuple[int, int]:
    """Returns the half-open range of a column's values that may pass, within `least` and `most` (both inclusive)."""

    def is_possible(values: Sequence[int], *, below: bool) -> list[bool]:
        scalars = [make_scalar(value) for value in values]
        return _ask(predicate, schema, [column <= scalar if below else column >= scalar for scalar in scalars])

    start = _find_least(partial(is_possible, below=True), least, most)
    if start > most:
        return least, least
    # the largest value is the least one of the mirrored axis
    last = -_find_least(lambda values: is_possible([-value for value in values], below=False), -most, -start)
    return start, last + 1


def _find_least(is_possible: Search, least: int, most: int) -> int:
    """Returns the least value for which an answer is yes. From there on every answer is yes. `most` + 1: all are no."""
    if is_possible([least])[0]:
        return least
    below, above = least, most + 1  # the answer for `below` is no, and the one for `above` yes, or it is the end
    while above - below > 1:
        step = max(1, (above - below) // (_ASKED_AT_ONCE + 1))
        values = range(below + step, above, step)[:_ASKED_AT_ONCE]
        answers = is_possible(values)
        first = answers.index(True) if True in answers else len(values)
        above = values[first] if first < len(values) else above
        below = values[first - 1] if first else below
    return above


def _ask(predicate: pc.Expression, schema: pa.Schema, guarantees: Sequence[pc.Expression]) -> list[bool]:
    """Returns for each guarantee whether a row that keeps it may pass the predicate.

    Arrow may fail where it puts a guarantee into a predicate: a cast of the guarantee's value overflows. Then any row
    may pass.
    """
    form, files = pads.IpcFileFormat(), LocalFileSystem()
    fragments = [
        form.make_fragment(str(number), files, partition_expression=guarantee)
        for number, guarantee in enumerate(guarantees)
    ]
    asked = pads.FileSystemDataset(fragments, schema, form, files)
    try:
        possible = {int(fragment.path) for fragment in asked.get_fragments(filter=predicate)}
    except pa.ArrowException:
        return [True] * len(guarantees)
    return [number in possible for number in range(len(guarantees))]
