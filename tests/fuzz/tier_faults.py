"""Tiers whose manifests or leader epochs fail together: a number → a store, its faults, and what reads may answer.

The store is that of several leaders (`tests/support/tier_histories.py`), with or without the last leader's disk, which
has the newest segments alone. Beside its topic there is another one that is sound. The faults are of all manifests of
the topic, of the first sixteen, or of some: cut, of version 2, an error of the storage for a time or for ever. Or
leader epochs are cut: objects of LocalTieredStorage, parts of Aiven's. Or objects of segments are empty, or those with
Aiven's index files are gone. The statements:

1. FAILFAST returns all rows, or ends with an error that names the fault: DataError and DataLossError for damage,
   StorageError for the storage. No error says that the topic is not there.
2. DROPMALFORMED with failOnDataLoss=false returns fewer rows only with a warning.
3. `ls` and `verify` have the topic, by its name or by its id. `verify` finds a problem wherever FAILFAST ends with an
   error of the data.
4. A selection that cannot mean the topic reads the other one whole.
5. Leader epochs that are cut cost no row, and neither do index files that are gone. `verify` finds them in objects
   that a read needs.
"""

from __future__ import annotations

import argparse
import errno
import json
import logging
import random
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal
from unittest import mock

import kafka_segment_source as kafkaseg
from kafka_segment_source.errors import DataError, DataLossError, KafkaSegmentError, StorageError
from kafka_segment_source.reporting import logger
from kafka_segment_source.storage.store import LocalStorage
from tests.support import naive, transactions
from tests.support import tiered_encoder as encoder
from tests.support.rows import OFFSET, TOPIC, Row, decoded, scanned
from tests.support.tier_histories import KINDS, Term, TierHistory, play

NAMES = encoder.Names("orders", 0, bytes([7] * 16))
OTHER = encoder.Names("ledger", 0, bytes([9] * 16))
FIRST = 16

Fault = Literal["cut", "newer", "error for a time", "error for ever", "cut epochs", "empty", "no indexes"]
FAULTS: tuple[Fault, ...] = ("cut", "newer", "error for a time", "error for ever", "cut epochs", "empty", "no indexes")
COSTS_NO_ROW = ("cut epochs", "no indexes")
SELECTIONS: tuple[dict[str, Any], ...] = (
    {},
    {"subscribe": "orders"},
    {"assign": {"orders": [0]}},
    {"subscribePattern": "or.*"},
)


@dataclass(frozen=True)
class Case:
    """A store and its faults.

    objects: of both topics. which: the keys of those that are hurt. times: how many reads of them fail. sound: the
    uploads of which none is hurt.
    """

    history: TierHistory
    objects: encoder.Objects
    fault: Fault
    which: tuple[str, ...]
    times: int
    has_disk: bool
    level: str
    selection: dict[str, Any]
    sound: tuple[encoder.LocalSegment, ...]

    @property
    def shows_last_leader(self) -> bool:
        """Whether a file without a fault is of the last leader: the disk, or the upload with the latest leader epoch
        that ends last."""
        newest = max(self.history.uploads, key=lambda upload: (max(upload.epochs), upload.end))
        return self.has_disk or newest in self.sound


def make_case(number: int) -> Case:
    chance = random.Random(number)
    history = make_history(chance)
    fault = chance.choice(FAULTS)
    has_manifests = fault not in ("cut epochs", "empty") or chance.random() < 0.4
    if has_manifests:
        config = encoder.AivenConfig(
            prefix=chance.choice(["", "tiered/", "a/b-"]), chunk_size=1000, compression=chance.random() < 0.3
        )
        objects = encoder.encode_aiven(history.uploads, NAMES, config)
        beside = encoder.encode_aiven(other_history().uploads, OTHER, config)
        suffix = "indexes" if fault == "no indexes" else chance.choice(["rsm-manifest", "log"])
        suffix = suffix if fault in ("empty", "no indexes") else "rsm-manifest"
    else:
        objects = encoder.encode_local_tier(history.uploads, NAMES)
        beside = encoder.encode_local_tier(other_history().uploads, OTHER)
        suffix = "log" if fault == "empty" else "leader_epoch_checkpoint"
    keys = sorted(key for key in objects if key.endswith(suffix))
    which = tuple(chance.choice((keys, keys[:FIRST], keys[-1:], [key for key in keys if chance.random() < 0.5])))
    uploads = zip((key for key in objects if key.endswith(suffix)), history.uploads, strict=True)
    sound = tuple(upload for key, upload in uploads if key not in which)
    for key in which:
        if fault == "no indexes":
            del objects[key]
        else:
            objects[key] = _hurt(fault, objects[key], chance)
    return Case(
        history,
        objects | beside,
        fault,
        which,
        {"error for a time": chance.choice([1, 2, 3, 5, 12, 40]), "error for ever": 10**9}.get(fault, 0),
        chance.random() < 0.5,
        chance.choice(["read_uncommitted", "read_committed"]),
        chance.choice(SELECTIONS),
        sound,
    )


def make_history(chance: random.Random) -> TierHistory:
    """What some leaders uploaded. There is always an upload."""

    def term(is_first: bool) -> Term:
        return Term(
            lost=0 if is_first else chance.choice([0, 0, 2, 5, 9]),
            skipped=chance.randrange(3),
            choices=tuple(
                (
                    chance.choice(KINDS),
                    chance.randint(1, transactions.PRODUCERS),
                    chance.randrange(256),
                    chance.randint(1000, 1050),
                )
                for _ in range(chance.randint(3 if is_first else 0, 12))
            ),
            every=chance.choice([1, 1, 2, 3, 5]),
            shift=chance.randrange(5),
            back=chance.choice([0, 0, 1, 2]),
            uploads=chance.choice([1, 3, 20, 20, 20]),
        )

    while True:
        history = play([term(True), *(term(False) for _ in range(chance.randrange(4)))])
        if history.uploads:
            return history


def _hurt(fault: Fault, data: bytes, chance: random.Random) -> bytes:
    if fault == "empty":
        return b""
    if fault == "cut":
        return data[: chance.randrange(1, len(data))]
    if fault == "newer":
        return data.replace(b'"version":"1"', b'"version":"2"')
    if fault == "cut epochs" and data.startswith(b"{"):  # the part ends earlier, by its manifest
        content = json.loads(data)
        part = content["segmentIndexes"]["leaderEpoch"]
        part["size"] = chance.randrange(part["size"])
        return json.dumps(content).encode()
    return data[: chance.randrange(len(data))] if fault == "cut epochs" else data


@contextmanager
def failing(which: tuple[str, ...], times: int) -> Iterator[None]:
    """The first reads of some objects fail, as a disk or a mount does."""
    left = [times]
    opens = LocalStorage.open

    def open_file(storage: LocalStorage, path: str, version: Any = None) -> Any:
        if left[0] and path.endswith(which):
            left[0] -= 1
            raise OSError(errno.EIO, "Input/output error", path)
        return opens(storage, path, version)

    with mock.patch.object(LocalStorage, "open", open_file):
        yield


@contextmanager
def listening() -> Iterator[list[str]]:
    """What the package warns of."""
    said: list[str] = []

    class Ears(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            said.append(record.getMessage())

    ears = Ears()
    logger.addHandler(ears)
    try:
        yield said
    finally:
        logger.removeHandler(ears)


@cache
def other_history() -> TierHistory:
    return play([Term(0, 0, tuple(("plain", 1, shape, 1000 + shape) for shape in range(6)), 2, 0, 0, 20)])


def rows_of(records: list[naive.Record], level: str, names: encoder.Names) -> list[Row]:
    """What a consumer sees of these records."""
    return decoded(naive.committed(records) if level == "read_committed" else records, names.topic, names.partition)


def check(number: int, root: Path) -> str:
    """Reads case `number`. Returns what became of it. Raises AssertionError if a statement is false."""
    case = make_case(number)
    at = f"case {number} ({case.fault}, {len(case.which)} of {len(case.history.uploads)})"
    folder = root / str(number)
    tier = encoder.write_objects(case.objects, folder / "tier")
    others = rows_of(other_history().tier_records, "read_uncommitted", OTHER)
    paths = [str(tier)] + ([str(case.history.write_local(folder / "disk", NAMES))] if case.has_disk else [])
    if case.has_disk:
        own = rows_of(case.history.records, case.level, NAMES)
    elif case.history.tier_is_of_the_last_leader:
        own = rows_of(case.history.tier_records, case.level, NAMES)
    else:
        return "a tier that ends in lost records"
    options = {"isolationLevel": case.level, "includeHeaders": True}
    with failing(case.which, case.times), listening() as said:
        assert scanned(paths, subscribe="ledger", **options) == others, f"{at}: rows of another topic are missing"
    expected = own + others if case.selection == {} else own
    with failing(case.which, case.times):
        found, error = _try_to_read(paths, **case.selection, **options)
    outcome = "all rows" if error is None else type(error).__name__
    if error is None:
        assert sorted(found, key=_place) == sorted(expected, key=_place), (
            f"{at}: FAILFAST returned {len(found)} of {len(expected)} rows"
        )
    else:
        assert isinstance(error, StorageError) if case.times else isinstance(error, (DataError, DataLossError)), (
            f"{at}: {error!r}"
        )
        assert case.which and case.fault not in COSTS_NO_ROW, f"{at}: {error!r}"
    with failing(case.which, case.times), listening() as said:
        found, error = _try_to_read(paths, mode="DROPMALFORMED", failOnDataLoss=False, **case.selection, **options)
    if error is None:
        mine = sum(row[TOPIC] == NAMES.topic for row in found)
        assert mine >= len(own) or said, f"{at}: DROPMALFORMED returned {mine} of {len(own)} rows in silence"
        lost = sorted(_find_held(case, own) - {row[OFFSET] for row in found if row[TOPIC] == NAMES.topic})
        is_certain = case.level == "read_uncommitted" and case.shows_last_leader
        assert not lost or not is_certain, f"{at}: DROPMALFORMED lost {lost}, which sound files hold"
        wrong = [row[:3] for row in found if row[TOPIC] == NAMES.topic and row not in own]
        assert not wrong or not case.shows_last_leader, (
            f"{at}: DROPMALFORMED returned {wrong}, which are not of the log"
        )
    else:
        assert outcome != "all rows" or case.times, f"{at}: DROPMALFORMED fails where FAILFAST does not: {error!r}"
    _check_shown(case, paths, outcome, at)
    return f"{case.fault}: {outcome}"


def _find_held(case: Case, rows: list[Row]) -> set[int]:
    """The offsets of some rows that uploads without a fault have, or the disk."""
    held = [*case.sound, *(case.history.local if case.has_disk else ())]
    records = {(each.offset, each.leader_epoch) for segment in held for each in naive.decode_log(segment.log)}
    kept = {record.offset for record in case.history.records if (record.offset, record.leader_epoch) in records}
    return kept & {row[OFFSET] for row in rows}


def _try_to_read(paths: list[str], **options: Any) -> tuple[list[Row], KafkaSegmentError | None]:
    try:
        return scanned(paths, **options), None
    except KafkaSegmentError as error:
        return [], error


def _place(row: Row) -> tuple[str, int, int]:
    return row[:3]


def _check_shown(case: Case, paths: list[str], outcome: str, at: str) -> None:
    """`ls` and `verify` have the topic, and `verify` the problem."""
    if case.times:
        return
    shown = {each.topic for each in kafkaseg.list_partitions(paths).partitions}
    assert shown & {NAMES.topic, f"{NAMES.topic}-{NAMES.id_text}", f"b-{NAMES.topic}-{NAMES.id_text}"}, f"{at}: {shown}"
    assert not case.has_disk or shown == {NAMES.topic, OTHER.topic}, (
        f"{at}: the disk has the topic's id and name, but found {shown}"
    )
    report = kafkaseg.verify(paths)
    problems = [finding for each in report.partitions for finding in each.problems]
    is_found = any(key.endswith("leader_epoch_checkpoint") for key in case.which)
    is_found |= case.fault == "no indexes" and bool(case.which)
    if outcome != "all rows" or is_found:
        assert problems, f"{at}: verify finds nothing wrong"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--first", type=int, default=0, help="the first case")
    parser.add_argument("--cases", type=int, default=100)
    parser.add_argument("--stop", action="store_true", help="end with the first case that is false")
    given = parser.parse_args()
    outcomes: Counter[str] = Counter()
    for number in range(given.first, given.first + given.cases):
        with tempfile.TemporaryDirectory() as root:
            try:
                outcomes[check(number, Path(root))] += 1
            except Exception as error:
                outcomes["FALSE"] += 1
                print(f"case {number}: {error!r}"[:600], flush=True)
                if given.stop:
                    break
    for outcome, count in sorted(outcomes.items()):
        print(f"{count:8,}  {outcome}")


if __name__ == "__main__":
    main()
