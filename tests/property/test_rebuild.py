"""rebuild: whatever was done to the copies of a log, the rebuilt one has exactly the rows that a read of them gives.

The rebuilt files are read by the naive decoder, which shares no code with the package. Each batch must have the bytes
of a source's batch, and `verify` must find nothing wrong.

A case is a number: `python -m tests.property.test_rebuild 17` runs one, `… 0 3000` many.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from kafka_segment_source.errors import DataError, DataLossError, PathError
from kafka_segment_source.inspection.verification import verify
from kafka_segment_source.rebuilding.rebuild import rebuild_parsed
from kafka_segment_source.rebuilding.rebuild_report import RebuildReport
from kafka_segment_source.reporting import Warnings
from tests.property.test_hurt_copies import Expected
from tests.support import naive
from tests.support.cases import count_cases
from tests.support.hurt_copies import Case, Row, case
from tests.support.numbered import check_part, run_numbered
from tests.support.reads import options_in
from tests.support.simulated_copies import LENIENT, scanned, show
from tests.support.simulated_files import SimulatedFiles
from tests.support.waiting import without_pauses

CASES = count_cases(45, 1_000)
PARTS = 3


def rebuilt(files: SimulatedFiles, paths: list[str], to: str, size: int | None = None, **options: Any) -> RebuildReport:
    return rebuild_parsed(options_in(files, paths, **options), Warnings(), to, {}, segment_bytes=size)


def read_batches(folder: Path) -> list[tuple[naive.Batch, bytes]]:
    """The batches of a partition directory and their bytes, in the order of its files."""
    found = []
    for path in sorted(folder.glob("*.log")):
        data = path.read_bytes()
        found += [(each, data[each.position : each.position + each.size]) for each in naive.decode_batches(data)]
    return found


def rows_of(records: Iterable[naive.Record]) -> list[Row]:
    return [(each.offset, each.timestamp, each.value or b"") for each in records if not each.is_control]


def read_or_fail(action: Callable[[], Any]) -> tuple[Any, Exception | None]:
    """The result of an action, or the error that ends it: of lost or damaged data, or of copies that nothing decides
    between."""
    try:
        return action(), None
    except (DataError, DataLossError, PathError) as error:
        return None, error


def mask_epoch(data: bytes) -> bytes:
    """The bytes of a batch but for its leader epoch, which no CRC covers and which a case may have changed."""
    return data[:12] + data[16:]


def find_sources(made: Case) -> set[bytes]:
    """The bytes of all batches that were written into the copies, but for the leader epoch."""
    return {mask_epoch(held.batch.data) for copy in made.copies for file in copy.unhurt for held in file.batches}


def check(number: int) -> str:
    """Tries one case; answers what it was in a word."""
    files = SimulatedFiles()
    folder = tempfile.mkdtemp()
    try:
        with without_pauses():
            return _check(number, files, Path(folder, "new"))
    finally:
        shutil.rmtree(folder)


def _check(number: int, files: SimulatedFiles, to: Path) -> str:
    made = case(number)
    paths = made.write(files)
    before = made.after()
    options = {} if number % 3 == 0 else LENIENT
    size = Random(number).choice([None, None, 150, 400])
    wanted, failed = read_or_fail(lambda: scanned(files, paths, **options))
    if failed is not None:
        _, other = read_or_fail(lambda: rebuilt(files, paths, str(to), size, **options))
        assert (type(failed), str(failed)) == (type(other), str(other))
        return "error"
    report = rebuilt(files, paths, str(to), size, **options)
    [part] = report.partitions
    batches = read_batches(Path(part.directory))
    records = [record for batch, _ in batches for record in batch.records]
    rows = rows_of(records)
    left_out = [row for row in wanted if row not in set(rows)]
    assert rows == [row for row in wanted if row not in set(left_out)]
    unended = [each for each in part.left_out if each.kind == "unended transaction"]
    assert bool(left_out) <= bool(unended), f"left out without a word: {left_out}"
    committed, _ = read_or_fail(lambda: scanned(files, paths, isolationLevel="read_committed", **options))
    if committed is not None:
        # where compaction took batches from one copy, the walk over all transactions knows less than a read
        assert Expected(made).is_compacted or not {*left_out} & {*committed}
        _check_committed(rows_of(naive.committed(records)), committed, Expected(made))
    assert {mask_epoch(data) for _, data in batches} <= find_sources(made), "bytes that no source holds"
    assert part.batches == len(batches)
    # a batch keeps its bytes, so a leader epoch with a flipped bit is still there
    problems = [each for each in verify(str(to)).problems if "leader epoch" not in each.what]
    assert not problems, problems
    assert made.after() == before, "a source was changed"
    return "whole" if not part.left_out else "left out"


def _check_committed(found: list[Row], wanted: list[Row], expected: Expected) -> None:
    """Asserts that consumers of read_committed get no row that was not committed, and all that a read gives.

    A read withholds more where damage hides the end of a transaction: all that follows it.
    """
    if not expected.unheld and not expected.is_compacted and not expected.is_cut:
        assert found == wanted
    assert not {row[0] for row in found} & expected.never()
    assert expected.is_compacted or not {*wanted} - {*found}


@pytest.mark.parametrize("part", range(PARTS))
def test_a_rebuilt_log_has_the_rows_of_a_read(part: int) -> None:
    check_part(check, part, PARTS, CASES)


if __name__ == "__main__":
    sys.exit(run_numbered(sys.argv[1:], check, lambda number: show(case(number))))
