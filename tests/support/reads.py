"""A segment written from bytes, and what a read of its folder answers: offsets, or the one error of damaged data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

import kafka_segment_source as kafkaseg
from kafka_segment_source.errors import DataError
from kafka_segment_source.keywords import PathsLike, option_texts
from kafka_segment_source.options import ReadOptions, parse_options
from kafka_segment_source.planning.plan import ReadPlan
from kafka_segment_source.planning.planner import make_plan
from kafka_segment_source.reporting import Warnings
from kafka_segment_source.storage.store import Storage
from kafka_segment_source.streams.stream import LogStream
from kafka_segment_source.views.by_name import view_of
from kafka_segment_source.views.view import plan_view
from tests.support import writer


def write(folder: Path, *batches: bytes, base: int = 0) -> str:
    """One segment of these batches; its path."""
    path = folder / writer.segment_name(base)
    path.write_bytes(b"".join(batches))
    return str(path)


def options_in(storage: Storage, path: PathsLike, **options: Any) -> ReadOptions:
    """The options of a read from another storage than that of the paths."""
    return _parse_in(storage, path, options)[0]


def stream_in(storage: Storage, path: PathsLike, **options: Any) -> Iterator[ReadPlan]:
    """The plans of a stream's pieces, from the start of the logs to where it comes no further. All files are old."""
    parsed, _ = parse_options(
        option_texts(path, {"startingOffsets": "earliest", "endAt": "end", **options}), is_stream=True
    )
    parsed = parsed._replace(source=parsed.source._replace(storage=storage))
    stream = LogStream(parsed, clock=lambda: 0.0, now=lambda: 1e12)
    position = stream.find_initial()
    while (following := stream.find_next(position, limited=True)) != position:
        plan = stream.plan(position, following)
        if plan is not None:
            yield plan
        position = following


def _parse_in(storage: Storage, path: PathsLike, options: Mapping[str, Any]) -> tuple[ReadOptions, Warnings]:
    parsed, warnings = parse_options(option_texts(path, options))
    return parsed._replace(source=parsed.source._replace(storage=storage)), warnings


def plan_in(storage: Storage, path: PathsLike, **options: Any) -> ReadPlan:
    """As `kafkaseg.plan`, from another storage."""
    parsed, warnings = _parse_in(storage, path, options)
    return make_plan(parsed, warnings)


def view_in(storage: Storage, path: PathsLike, view: str, **options: Any) -> list[dict[str, Any]]:
    """The rows of a view that is not made of splits, from another storage."""
    parsed, warnings = _parse_in(storage, path, {"view": view, **options})
    found = view_of(view)
    assert found is not None
    return plan_view(found, parsed, warnings).to_reader().read_all().to_pylist()


def offsets(folder: Path, **options: Any) -> list[int]:
    """The offsets that a scan with these options gives, in its order."""
    return kafkaseg.scan(folder, columns=["offset"], **options).read_all()["offset"].to_pylist()


def error_of(folder: Path, **options: Any) -> DataError:
    """The error that ends a scan with these options."""
    with pytest.raises(DataError) as caught:
        offsets(folder, **options)
    return caught.value
