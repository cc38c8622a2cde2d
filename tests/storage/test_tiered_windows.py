"""What a window of a compressed, encrypted tier asks of a bucket: bytes of `.log` objects, and requests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import kafka_segment_source as kafkaseg
from benchmarks.logs import FIRST_TIMESTAMP, Log, LogShape, log
from benchmarks.object_server import ObjectServer
from kafka_segment_source.storage.tiered.chunks import KEPT
from tests.support import tiered_encoder as encoder
from tests.support.tiers import KEY_FILE, KEYS

CHUNK = 32 * 1024
SEGMENTS = 8
TIERED_KEYS = {name: str(path) for name, path in KEYS.items()}


@pytest.fixture(scope="module")
def events(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Log]:
    """Eight segments of 0.9 MB, with the index files of a broker."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KAFKASEG_BENCH_DIR", str(tmp_path_factory.mktemp("bench")))
        yield log(LogShape(50_000, segments=SEGMENTS))


@pytest.fixture(scope="module", params=[False, True], ids=["encrypted", "compressed and encrypted"])
def server(request: pytest.FixtureRequest, events: Log, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    config = encoder.AivenConfig(
        prefix="tier/", chunk_size=CHUNK, compression=request.param, key=("key1", KEY_FILE.read_bytes())
    )
    segments = encoder.read_segments(events.path, active=True)
    objects = encoder.encode_aiven(segments, encoder.Names("events"), config)
    made = ObjectServer(encoder.write_objects(objects, tmp_path_factory.mktemp("store")))
    yield made
    made.shutdown()
    made.server_close()


def measure(server: ObjectServer, **bounds: Any) -> tuple[kafkaseg.ReadPlan, int, int]:
    """The plan, its rows, and the bytes of `.log` objects that planning and reading took together."""
    KEPT.clear()
    server.requests.clear()
    options = {"tieredKeys": TIERED_KEYS, "storage_options": server.options}
    plan = kafkaseg.plan("s3://logs/tier", **options, **bounds)
    assert plan.requests == len(server.requests)
    rows = plan.to_reader(columns=["offset", "timestamp"]).read_all().num_rows
    return plan, rows, sum(each.size for each in server.requests if each.key.endswith(".log"))


def test_a_window_of_offsets(events: Log, server: ObjectServer) -> None:
    """Half a percent of the log, inside one segment and over the border of two."""
    count = events.records // 200
    for start in (events.records // 3, events.records // 2 - count // 2):
        bounds = {"startingOffsets": start, "endingOffsets": start + count}
        given = {name: {"events": {"0": offset}} for name, offset in bounds.items()}
        plan, rows, size = measure(server, **given)
        assert rows == count
        assert 0 < size <= plan.bytes_to_read + 2 * CHUNK * plan.segments_kept
        assert plan.requests <= 6 + (SEGMENTS + 1) + 3 * plan.segments_kept + 2  # listings, manifests, .index, headers


def test_a_window_of_times(events: Log, server: ObjectServer) -> None:
    """A `since` drops the segments before it by a manifest, the first entry of the time index and the head."""
    first = events.batches[:, FIRST_TIMESTAMP]
    at = len(first) * 2 // 3
    since, until = int(first[at]), int(first[at + len(first) // 200])
    plan, rows, size = measure(server, since=since, until=until, timestampDisorder="10s")
    assert rows > 0
    assert sum("(manifest)" in each.reason for each in plan.dropped) >= SEGMENTS // 2
    assert size <= plan.bytes_to_read + 2 * CHUNK * plan.segments_total


def test_a_whole_read_takes_every_chunk_once(events: Log, server: ObjectServer) -> None:
    """Neighbouring chunks come in one request, of some megabytes at most."""
    _, rows, size = measure(server)
    stored = sum(path.stat().st_size for path in Path(server.directory).rglob("*.log"))
    assert rows == events.records
    assert stored <= size <= stored + 3 * CHUNK
    assert sum(each.key.endswith(".log") for each in server.requests) <= 3 * SEGMENTS


def test_a_plan_without_bounds_needs_manifests_alone(server: ObjectServer) -> None:
    """No `.log` and no `.indexes` is opened."""
    server.requests.clear()
    plan = kafkaseg.plan("s3://logs/tier", tieredKeys=TIERED_KEYS, storage_options=server.options)
    assert plan.segments_kept == SEGMENTS
    asked = [each.key.rpartition(".")[2] for each in server.requests if each.kind == "GET"]
    assert asked == ["rsm-manifest"] * (SEGMENTS + 1)  # one says the topic's name


def test_trust_indexes_false_believes_no_manifest(events: Log, server: ObjectServer) -> None:
    """Then `since` drops no segment, whatever the manifests say of the times."""
    since = int(events.batches[-1, FIRST_TIMESTAMP])
    plan, rows, _ = measure(server, since=since, trustIndexes=False)
    assert rows > 0 and not any("manifest" in each.reason for each in plan.dropped)
    assert plan.segments_kept >= SEGMENTS - 1
