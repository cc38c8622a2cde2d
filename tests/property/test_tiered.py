"""Tier and local log are one log: the rows of generated tiers, and of those that real brokers filled.

The expected rows are those of a consumer (`tests/fixtures/tiered`), or of the last leader's log
(`tests/support/tier_histories.py`). Layouts, chunk sizes, compression, encryption, orphaned objects and the order of
the paths change nothing about them.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kafka_segment_source.keywords import option_texts
from tests.support import naive
from tests.support import tiered_encoder as encoder
from tests.support.buckets import Bucket
from tests.support.growing_log import Engine
from tests.support.rows import OFFSET, TIMESTAMP, Row, decoded, read_answer, scanned
from tests.support.tier_histories import Term, TierHistory, add_orphans, play, tier_histories
from tests.support.tiers import (
    AIVEN_STORES,
    KEY_FILE,
    KEYS,
    LOCAL_TIER,
    MOVED_TIER,
    read_rows,
    unpack_local,
)

FEW = settings(max_examples=max(settings().max_examples // 4, 5))  # each writes some dozens of files
LEVELS = ["read_uncommitted", "read_committed"]
TIERED_KEYS = json.dumps({name: str(path) for name, path in KEYS.items()})
NAMES = encoder.Names("orders-eu", 3, bytes([251] * 16))  # its id as text has nothing but `-` and `_`

_PLAIN = tuple(("plain", 1, shape, 1000 + shape) for shape in range(12))
GAPS = play(  # the second leader's larger segments fill the gaps between those of the first and the third
    [Term(0, 2, _PLAIN, 2, 0, 0, 20), *[Term(0, 2, _PLAIN, 5, 4, 1, 20)] * 2, Term(5, 1, _PLAIN[:6], 4, 2, 0, 20)]
)
_FIRST = (("idempotent", 2, 3, 1024), ("plain", 2, 0, 1024), ("data", 1, 2, 1002), ("commit", 1, 2, 1024))
_MARKERS = (("abort", 4, 3, 1034), ("abort", 3, 3, 1020))
SHORT = play(  # the tier has a segment of the first leader that begins after the end of the last leader's log
    [Term(0, 0, (*_FIRST, ("plain", 1, 2, 1028)), 1, 2, 0, 20), *[Term(5, 0, _MARKERS, 1, 1, 0, 1)] * 3]
)
NOTHING = play(  # the last leader has noted its epoch and written nothing; the tier has what it lacks
    [Term(0, 0, _PLAIN, 2, 0, 0, 20), Term(5, 0, (), 2, 0, 0, 0)]
)


@dataclass(frozen=True)
class Shape:
    """How a store is written. config: of Aiven's plugin; None: LocalTieredStorage."""

    config: encoder.AivenConfig | None
    has_orphans: bool
    is_tier_first: bool

    def store(self, history: TierHistory) -> encoder.Objects:
        orphans = history.uploads[-2:]
        if self.config is None:
            objects = encoder.encode_local_tier(history.uploads, NAMES)
            others, parts = encoder.encode_local_tier(orphans, NAMES, seed=1), [".log", ".timeindex"]
        else:
            objects = encoder.encode_aiven(history.uploads, NAMES, self.config)
            others, parts = (
                encoder.encode_aiven(orphans, NAMES, encoder.AivenConfig(self.config.prefix, seed=9)),
                [".log"],
            )
        return add_orphans(objects, others, parts) if self.has_orphans else objects


shapes = st.builds(
    Shape,
    st.none()
    | st.builds(
        encoder.AivenConfig,
        prefix=st.sampled_from(["", "tiered/", "a/b-"]),
        chunk_size=st.sampled_from([61, 200, 1000, 100_000]),
        compression=st.booleans(),
        key=st.sampled_from([None, ("key1", KEY_FILE.read_bytes())]),
        index=st.just(None),
    ),
    st.booleans(),
    st.booleans(),
)


def rows_of(records: list[naive.Record], level: str) -> list[Row]:
    """What a consumer sees of these records."""
    return decoded(naive.committed(records) if level == "read_committed" else records, NAMES.topic, NAMES.partition)


def write(history: TierHistory, shape: Shape, root: Path, has_local: bool = True) -> list[str]:
    """Write tier and local log. Returns their paths."""
    paths = [str(encoder.write_objects(shape.store(history), root / "tier"))]
    if not history.uploads:
        paths = []
    if has_local:
        local = str(history.write_local(root / "local", NAMES))
        paths = [*paths, local] if shape.is_tier_first else [local, *paths]
    return paths


@FEW
@example(history=GAPS, shape=Shape(None, False, True), level="read_uncommitted", at=(0.2, 0.8))
@example(history=SHORT, shape=Shape(None, False, True), level="read_committed", at=(0.2, 0.8))
@example(history=NOTHING, shape=Shape(None, False, True), level="read_uncommitted", at=(0.2, 0.8))
@given(
    history=tier_histories, shape=shapes, level=st.sampled_from(LEVELS), at=st.tuples(st.floats(0, 1), st.floats(0, 1))
)
def test_rows_are_those_of_the_last_leader(
    history: TierHistory, shape: Shape, level: str, at: tuple[float, float]
) -> None:
    """Whole reads, and random bounds of offsets and of time; each offset once, in order."""
    every = rows_of(history.records, level)
    end = history.records[-1].offset + 1
    first, last = sorted(int(share * (end + 1)) for share in at)
    key = {NAMES.topic: {str(NAMES.partition): 0}}
    with TemporaryDirectory() as root:
        paths = write(history, shape, Path(root))
        options: dict[str, Any] = {"isolationLevel": level, "tieredKeys": TIERED_KEYS, "includeHeaders": True}
        assert scanned(paths, **options) == every
        bounds = {"startingOffsets": json.dumps(key).replace("0}", f"{min(first, end)}}}")}
        bounds |= {"endingOffsets": json.dumps(key).replace("0}", f"{min(last, end)}}}")}
        assert scanned(paths, **options, **bounds) == [row for row in every if first <= row[OFFSET] < last]
        times = sorted(record.timestamp for record in history.records)
        since, until = times[min(first, len(times) - 1)], times[min(last, len(times) - 1)]
        found = scanned(paths, **options, since=since, until=until)
        assert found == [row for row in every if since <= row[TIMESTAMP] < until]


@FEW
@given(history=tier_histories.filter(lambda each: bool(each.uploads)), shape=shapes, level=st.sampled_from(LEVELS))
def test_a_tier_alone_is_read_as_far_as_it_goes(history: TierHistory, shape: Shape, level: str) -> None:
    """Its history is that of the segment of the latest epoch that ends last."""
    with TemporaryDirectory() as root:
        paths = write(history, shape, Path(root), has_local=False)
        found = scanned(paths, isolationLevel=level, tieredKeys=TIERED_KEYS, includeHeaders=True)
        if history.tier_is_of_the_last_leader:
            assert found == rows_of(history.tier_records, level)


@FEW
@given(history=tier_histories, shape=shapes, level=st.sampled_from(LEVELS), most=st.integers(5, 40))
def test_a_stream_reads_the_same(history: TierHistory, shape: Shape, level: str, most: int) -> None:
    """From the earliest offset, in micro-batches, to the end of the log that availableNow found."""
    with TemporaryDirectory() as root:
        paths = write(history, shape, Path(root))
        options = {"startingOffsets": "earliest", "isolationLevel": level, "maxOffsetsPerTrigger": str(most)}
        engine = Engine(option_texts(paths, {**options, "tieredKeys": TIERED_KEYS}))
        engine.start(available_now=True)
        while engine.trigger():
            engine.clock += 5
        found = engine.rows().get((NAMES.topic, NAMES.partition), [])
        assert found == [(row[OFFSET], row[6]) for row in rows_of(history.records, level)]


# --- what real brokers stored -----------------------------------------------------------------------------------------


@pytest.fixture(params=["disk", "bucket"])
def place(request: pytest.FixtureRequest) -> Any:
    """Where a tier lies: a function from its directory to a path and options."""
    if request.param == "disk":
        return lambda root: (str(root), {})
    bucket: Bucket = request.getfixturevalue("bucket")
    return lambda root: (bucket.put_tree(root, root.name), {"storage_options": bucket.options})


@pytest.mark.parametrize("level", LEVELS)
def test_local_tiered_storage_is_what_a_consumer_saw(level: str, place: Any) -> None:
    """Transactions, leader epochs, a topic that was deleted and made again."""
    tier, options = place(LOCAL_TIER / "tier")
    found = scanned([tier, str(LOCAL_TIER / "data")], isolationLevel=level, includeHeaders=True, **options)
    assert sorted(found, key=lambda row: row[:3]) == read_answer(LOCAL_TIER / f"expected.{level}.parquet")


@pytest.mark.parametrize("broker", ["broker-2", "broker-3"])
def test_a_tier_of_several_leaders_is_what_each_offset_gave_a_consumer(broker: str, place: Any) -> None:
    """An unclean election: what the tier has past it is not read."""
    tier, options = place(MOVED_TIER / "tier")
    found = scanned([tier, str(MOVED_TIER / broker)], includeHeaders=True, **options)
    assert found == read_answer(MOVED_TIER / "expected.each_offset.parquet")


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("name", sorted(AIVEN_STORES))
def test_a_store_of_aivens_plugin_is_what_a_consumer_would_see(
    name: str, level: str, place: Any, tmp_path: Path
) -> None:
    """Of the local log, only the newest segment: all else comes from the store."""
    store, options = place(AIVEN_STORES[name])
    local = unpack_local(name, tmp_path) / "ledger-0"
    for path in sorted(local.glob("*.log"))[:-1]:
        for suffix in (".log", ".index", ".timeindex", ".txnindex"):
            path.with_suffix(suffix).unlink(missing_ok=True)
    keys = {"tieredKeys": TIERED_KEYS} if name == "aiven-encrypted" else {}
    found = scanned(
        [store, str(local)], subscribe="ledger", isolationLevel=level, includeHeaders=True, **keys, **options
    )
    assert found == read_rows(name, "ledger", level)
