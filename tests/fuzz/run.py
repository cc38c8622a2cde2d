"""Tries mutations: `python -m tests.fuzz.run --count 2000 [--first 0] [--seconds 600]`, in a process of its own.

In: the number of the first case and how many. Out: one line of JSON with what was found, and for each violation two
lines that name its case; exit status 1 if there was one. A case that takes too long ends the process with a traceback,
as a crash would; the last line of standard error then names the case. `--case N` runs one and says what it does.
"""

from __future__ import annotations

import argparse
import faulthandler
import json
import logging
import re
import resource
import shutil
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import kafka_segment_source as kafkaseg
from kafka_segment_source.decoding import header_walk
from kafka_segment_source.errors import DataError, KafkaSegmentError, UnsupportedFormatError
from kafka_segment_source.storage.store import LOCAL
from tests.fuzz import contract
from tests.fuzz.contract import Outcome, Reported, ViolationError
from tests.fuzz.corpus import seeds
from tests.fuzz.mutations import Case, case
from tests.support.reads import stream_in
from tests.support.rows import COLUMNS, OFFSET, TIMESTAMP, Row, in_scan_order

SECONDS_A_CASE = 20
_VIEWS_EVERY = 10  # the cases whose batches are read as rows too
_STREAMS_EVERY = 4  # the cases that a stream reads too


def run(number: int, directory: Path) -> str:
    """Tries one case; answers what came of it in a word. Raises ViolationError."""
    damage = case(number)
    folder = damage.damaged.write(directory)
    dropping = scan(folder, mode="DROPMALFORMED", failOnDataLoss=False)
    failing = scan(folder, mode="FAILFAST", failOnDataLoss=False)
    if failing.error is not None:
        _check_error(failing.error, folder)
    rows = contract.check(damage.damaged, dropping, failing)
    if not damage.crcs_are_right:
        contract.check_contents(damage.seed, rows, may_repeat=damage.may_repeat)
    if not damage.log_changed and (failing.error is not None or rows != contract.real_rows(damage.seed)):
        raise ViolationError("an index file changed the rows of a whole scan")
    if number % _VIEWS_EVERY == 0:
        _check_batches(damage, folder, rows)
        _check_index_views(folder)
        _check_whole_logs(folder)
    if number % _STREAMS_EVERY == 0:
        _check_stream(folder, dropping, failing)
    lost = _check_bounds(damage, folder, rows)
    word = "right rows" if failing.error is None else "our error"
    return f"{word}, {lost} lies of a time index" if lost else word


def scan(folder: Path, **options: Any) -> Outcome:
    """What a scan does, with whatever ends it."""
    rows: list[Row] = []
    segments = {path: at for at, path in enumerate(sorted(map(str, folder.glob("*.log"))))}
    with _reports() as records:
        error: Exception | None = None
        try:
            for batch in kafkaseg.scan(folder, columns=COLUMNS, **options):
                rows += in_scan_order(_table(batch))
        except Exception as caught:  # whatever it is: the contract says which are allowed
            error = caught
    outcome = Outcome(rows, error)
    for each, end in [*records, *([(error, None)] if isinstance(error, DataError) else [])]:
        outcome.reports.setdefault(segments[each.path], []).append(Reported(each.what, each.position, end))
    return outcome


def _table(batch: Any) -> Any:
    import pyarrow as pa  # noqa: PLC0415

    return pa.Table.from_batches([batch])


@contextmanager
def _reports() -> Iterator[list[tuple[DataError, int | None]]]:
    """What is logged as skipped meanwhile: the error, and the end of the range where one is named."""
    seen: list[tuple[DataError, int | None]] = []

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            args = record.args if isinstance(record.args, tuple) else ()
            errors = [arg for arg in args if isinstance(arg, DataError)]
            ends = [int(end) for arg in args if isinstance(arg, str) for end in re.findall(r"up to byte (\d+)", arg)]
            if errors:
                seen.append((errors[0], ends[0] if ends else None))

    logger = logging.getLogger("kafka_segment_source")
    handler = Handler()
    logger.addHandler(handler)
    logger.propagate = False
    try:
        yield seen
    finally:
        logger.removeHandler(handler)


def _check_error(error: Exception, folder: Path) -> None:
    if not isinstance(error, DataError):
        raise ViolationError(f"FAILFAST raised {error!r}") from error
    said = all(getattr(error, name) not in (None, "") for name in ("what", "path", "position", "found", "expected"))
    if not said or not error.path.startswith(str(folder)) or error.position < 0:
        raise ViolationError(f"an error that does not say enough: {error}")


def _check_bounds(damage: Case, folder: Path, rows: list[Row]) -> int:
    """Part of a damaged log, through its indexes: rows of readable batches in order, all of them where the log is
    whole.

    Answers whether rows were lost: a time index can lie about what it alone knows (docs/damage.md).
    """
    rng = Random(damage.number)
    offsets = [row[OFFSET] for row in contract.real_rows(damage.seed)]
    times = [row[TIMESTAMP] for row in contract.real_rows(damage.seed)]
    start, end = sorted((rng.choice(offsets) + rng.randrange(2), rng.choice(offsets) + rng.randrange(2)))
    bounds: dict[str, Any] = {"startingOffsets": {"orders": {"0": start}}, "endingOffsets": {"orders": {"0": end}}}
    since = None
    if min(times) >= 0 and rng.random() < 0.5:
        since = rng.choice(times) + rng.randrange(2)
        bounds = {"since": since}
        start, end = 0, 2**63
    found = scan(folder, mode=rng.choice(("FAILFAST", "DROPMALFORMED")), failOnDataLoss=False, **bounds)
    if found.error is not None and not (isinstance(found.error, KafkaSegmentError) and damage.log_changed):
        raise ViolationError(f"{bounds} raised {found.error!r}") from found.error
    inside = [row for row in rows if start <= row[OFFSET] < end and (since is None or row[TIMESTAMP] >= since)]
    if not damage.log_changed:
        if found.rows != inside and (since is None or not _is_subsequence(found.rows, inside)):
            raise ViolationError(f"{bounds}: {len(found.rows)} rows of a whole log, expected {len(inside)}")
        return int(found.rows != inside)
    seen = [row[OFFSET] for row in found.rows]
    if seen != sorted(set(seen)) or any(not start <= offset < end for offset in seen):
        raise ViolationError(f"{bounds}: offsets {seen}")
    if not damage.crcs_are_right:
        contract.check_contents(damage.seed, found.rows, may_repeat=damage.may_repeat)
    return 0


def _check_stream(folder: Path, dropping: Outcome, failing: Outcome) -> None:
    """A stream gives the rows of a scan. Where that ends with an error, the stream does too, and gives no other row."""
    for mode, scanned in (("DROPMALFORMED", dropping), ("FAILFAST", failing)):
        offsets: list[int] = []
        error: Exception | None = None
        try:
            for plan in stream_in(LOCAL, folder, mode=mode, failOnDataLoss=False):
                offsets += plan.to_reader(["offset"]).read_all()["offset"].to_pylist()
        except Exception as caught:  # whatever it is: the contract says which are allowed
            error = caught
        expected = [row[OFFSET] for row in scanned.rows]
        is_alike = type(error) is type(scanned.error) and (offsets == expected or error is not None)
        if not is_alike or offsets != expected[: len(offsets)]:
            raise ViolationError(
                f"a stream, mode={mode}: offsets {offsets} and {error!r}; a scan: {expected} and {scanned.error!r}"
            )


def _check_batches(damage: Case, folder: Path, rows: list[Row]) -> None:
    """view=batches of a damaged log: batches in order, with right CRCs where these are checked; all rows are in them.

    By headers alone and with whole bytes; the former believes what CRCs would deny, but never fails otherwise.
    """
    offsets = [row[OFFSET] for row in rows]
    for check_crcs, smallest in ((True, 4096), (False, 4096), (False, 0)):
        for mode in ("DROPMALFORMED", "FAILFAST"):
            header_walk.SMALL_BATCH = smallest
            spans, error = _batches(folder, check_crcs, mode)
            how = f"batches, checkCrcs={check_crcs}, mode={mode}"
            dropped_all = mode == "DROPMALFORMED" and not isinstance(error, UnsupportedFormatError)
            if error is not None and (dropped_all or not isinstance(error, DataError)):
                raise ViolationError(f"{how} raised {error!r}") from error
            if any(one[1] >= other[1] for one, other in pairwise(spans)):
                raise ViolationError(f"{how}: last offsets do not grow: {spans}")
            held = [any(first <= offset <= last for first, last in spans) for offset in offsets]
            if check_crcs and error is None and not all(held):
                raise ViolationError(
                    f"{how}: the rows {[at for at, is_held in zip(offsets, held, strict=True) if not is_held]} are in no batch"
                )
            if not damage.log_changed and (error is not None or not all(held)):
                raise ViolationError(f"{how}: a whole log has other batches")


def _check_whole_logs(folder: Path) -> None:
    """Views that walk whole logs: transactions, and what internal topics with these bytes would say.

    Damage is our error under FAILFAST, and none under DROPMALFORMED.
    """
    views = [("transactions", folder)]
    for view, topic in (
        ("consumerOffsets", "__consumer_offsets"),
        ("transactionalIds", "__transaction_state"),
        ("topics", "__cluster_metadata"),
        ("schemas", "_schemas"),
    ):
        other = folder.parent / topic / f"{topic}-0"
        shutil.copytree(folder, other)
        views.append((view, other))
    for view, path in views:
        for mode in ("DROPMALFORMED", "FAILFAST"):
            try:
                for _ in kafkaseg.scan(path, view=view, mode=mode, failOnDataLoss=False):
                    pass
            except UnsupportedFormatError:
                pass
            except DataError as error:
                if mode == "DROPMALFORMED":
                    raise ViolationError(f"{view}, mode={mode} raised {error!r}") from error


def _check_index_views(folder: Path) -> None:
    """Views of segments and index files of a damaged log: no damage is an error. A proven entry leads to a batch whose
    CRC holds."""
    logs = {str(log) for log in folder.rglob("*.log")}
    try:
        segments = kafkaseg.scan(folder, view="segments").read_all()
        entries = {
            view: kafkaseg.scan(folder, view=view, checkCrcs=True).read_all()
            for view in ("offsetIndex", "timeIndex", "abortedTransactions")
        }
    except Exception as error:
        raise ViolationError(f"a view of index files raised {error!r}") from error
    found = segments["file_path"].to_pylist()
    if set(found) != logs or len(found) != len(logs):
        raise ViolationError(f"view=segments has {found}, and there are {sorted(logs)}")
    for row in entries["offsetIndex"].to_pylist():
        if row["isProven"]:
            data = Path(row["file_path"]).with_suffix(".log").read_bytes()
            end = contract.claimed_end(data, row["position"])
            if end is None or not contract.crc_holds(data[row["position"] : end]):
                raise ViolationError(f"an entry is proven by what is no batch: {row}")


def _batches(folder: Path, check_crcs: bool, mode: str) -> tuple[list[tuple[int, int]], Exception | None]:
    """First and last offset of each batch that the view gives, and what ended it. A CRC that was checked is checked
    again."""
    spans: list[tuple[int, int]] = []
    try:
        # without timestamps: some are past the year 9999, which Python cannot hold
        columns = ["baseOffset", "lastOffset", "position", "size", "file_path"]
        how: dict[str, Any] = {"view": "batches", "checkCrcs": check_crcs, "mode": mode, "failOnDataLoss": False}
        for batch in kafkaseg.scan(folder, columns, **how):
            for row in batch.to_pylist():
                data = Path(row["file_path"]).read_bytes()[row["position"] :][: row["size"]]
                if check_crcs and not contract.crc_holds(data):
                    raise ViolationError(f"a batch with a wrong CRC at {row['position']}")
                before = spans[-1][1] + 1 if spans else 0
                spans.append((before if row["baseOffset"] is None else row["baseOffset"], row["lastOffset"]))
    except Exception as caught:  # whatever it is: the contract says which are allowed
        return spans, caught
    return spans, None


def _is_subsequence(part: list[Row], whole: list[Row]) -> bool:
    rest = iter(whole)
    return all(any(row == other for other in rest) for row in part)


def main() -> None:
    """Runs cases until the count, or the time, is used up."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument(
        "--seconds", type=float, default=float("inf"), help="stop after so long, even if cases are left"
    )
    parser.add_argument("--case", type=int, help="only this one, with all that is known of it")
    arguments = parser.parse_args()
    logging.getLogger("kafka_segment_source").addHandler(logging.NullHandler())
    if arguments.case is not None:
        arguments.first, arguments.count = arguments.case, 1
        print(case(arguments.case).what)
    sys.exit(_run_all(range(arguments.first, arguments.first + arguments.count), arguments.seconds))


def _run_all(numbers: range, seconds: float) -> int:
    with tempfile.TemporaryDirectory() as directory:
        scan(seeds()[0].write(Path(directory)))  # compiles the kernels: not the first case's time
    outcomes: Counter[str] = Counter()
    began = time.monotonic()
    slowest = (0.0, -1)
    for number in numbers:
        if time.monotonic() - began > seconds:
            break
        print(f"case {number}", end="\r", file=sys.stderr, flush=True)
        faulthandler.dump_traceback_later(SECONDS_A_CASE, exit=True)
        at = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="kafkaseg-fuzz-") as directory:
            try:
                outcomes[run(number, Path(directory))] += 1
            except Exception:  # a violation, or something that nobody thought of
                outcomes["VIOLATION"] += 1
                print(f"case {number}: {case(number).what}\n{traceback.format_exc(limit=-3)}", flush=True)
        slowest = max(slowest, (time.monotonic() - at, number))
    faulthandler.cancel_dump_traceback_later()
    print(
        json.dumps(
            {
                "cases": sum(outcomes.values()),
                "first": numbers.start,
                "outcomes": dict(outcomes.most_common()),
                "seconds": round(time.monotonic() - began, 1),
                "slowest": {"seconds": round(slowest[0], 2), "case": slowest[1]},
                "peakMiB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
            }
        )
    )
    return 1 if outcomes["VIOLATION"] else 0


if __name__ == "__main__":
    main()
