"""Reads of copies in simulated files, and the rows that must come out of them."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import pyarrow as pa

from kafka_segment_source.planning.plan import ReadPlan
from tests.support.hurt_copies import Case, Row
from tests.support.reads import plan_in, stream_in
from tests.support.simulated_files import SimulatedFiles

LENIENT: dict[str, Any] = {"mode": "DROPMALFORMED", "failOnDataLoss": False}


def scanned(files: SimulatedFiles, paths: list[str], **options: Any) -> list[Row]:
    """The rows of a read, in its order."""
    return _read_rows(plan_in(files, paths, **options))


def streamed(files: SimulatedFiles, paths: list[str], **options: Any) -> list[Row]:
    """The rows of a stream, in its order."""
    return [row for plan in stream_in(files, paths, **options) for row in _read_rows(plan)]


def _read_rows(plan: ReadPlan) -> list[Row]:
    found = plan.to_reader(["offset", "timestamp", "value"]).read_all()
    moments = (found["timestamp"].cast(pa.int64()).to_numpy() // 1000).tolist()
    return list(zip(found["offset"].to_pylist(), moments, found["value"].to_pylist(), strict=True))


def same(found: list[Row], wanted: dict[int, Row], what: str, may_lack: Collection[int] = ()) -> None:
    """Asserts that rows are just those wanted, once, in order. may_lack: offsets that may be there or not."""
    offsets = [row[0] for row in found]
    assert offsets == sorted(set(offsets)), f"{what}: rows twice or out of order: {offsets}"
    gone = set(may_lack) - set(offsets)
    expected = [wanted[offset] for offset in sorted(wanted) if offset not in gone]
    if found != expected:
        lost = sorted(set(wanted) - set(offsets))
        extra = sorted(set(offsets) - set(wanted))
        other = [row for row in found if row[0] in wanted and wanted[row[0]] != row]
        raise AssertionError(f"{what}: lost {lost}, not expected {extra}, others {other}")


def show(made: Case) -> None:
    """Prints a case."""
    print("history", [(b.base, b.last, f"e{b.epoch}m{b.magic}", b.kind, b.producer) for b in made.history])
    for at, copy in enumerate(made.copies):
        print("copy", at, {k: v for k, v in vars(copy).items() if k not in ("files", "unhurt", "orphans")})
        print("    index files alone:", [(file.base, file.index) for file in copy.orphans])
        for file in copy.files:
            held = [
                (h.batch.base, h.batch.last, h.batch.kind[0], len(h.batch.rows), "" if h.whole else "X")
                for h in file.batches
            ]
            print("   ", file.base, len(file.log), held)
    print(made.notes)
