"""What a tier's manifest proves to `since`, and what it does not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import kafka_segment_source as kafkaseg
from tests.support import tiered_encoder as encoder
from tests.support.batches import BatchSpec, data
from tests.support.far_files import distance
from tests.support.logs import simple_segment

__all__ = ["distance"]
pytestmark = pytest.mark.usefixtures("distance")


def write_tier(
    root: Path, specs: list[BatchSpec], index: list[tuple[int, int]], timeindex: list[tuple[int, int]], latest: int
) -> Path:
    """A tier of one segment, and one after it whose records are of no time that is asked for."""
    first = simple_segment(specs, index=index, timeindex=timeindex)
    end = first.batches[-1].last_offset
    second = simple_segment([data(end + 1, 1)], index=[], timeindex=[(1, end + 1)])
    segments = [
        encoder.LocalSegment(0, end, first.log, first.index or b"", first.timeindex or b"", max_timestamp=latest),
        encoder.LocalSegment(end + 1, end + 1, second.log, b"", second.timeindex or b"", max_timestamp=1),
    ]
    return encoder.write_objects(encoder.encode_aiven(segments, encoder.Names("orders")), root)


def rows(store: Path, **bounds: Any) -> list[int]:
    table = kafkaseg.scan(store, columns=["offset"], **bounds).read_all()
    return sorted(table["offset"].to_pylist())


def reasons(store: Path, **bounds: Any) -> list[str]:
    return [each.reason for each in kafkaseg.plan(store, **bounds).dropped]


ORDERED = [data(10 * n, *[100 * (n + 1)] * 10) for n in range(4)]
ENTRIES = [(100, 9), (200, 19), (300, 29)]


def test_a_manifest_stands_for_the_tail(tmp_path: Path) -> None:
    """The last entry of the time index need not reach the end of the segment."""
    store = write_tier(tmp_path, ORDERED, [(19, 1), (29, 2)], ENTRIES, latest=400)
    assert rows(store, since=401) == []
    assert "nothing after 1970-01-01T00:00:00.400Z (manifest)" in reasons(store, since=401)
    assert rows(store, since=400) == list(range(30, 40))
    assert not any("manifest" in each for each in reasons(store, since=400, trustIndexes=False))
    assert not any("manifest" in each for each in reasons(store, since=401, trustIndexes=False))


@pytest.mark.parametrize("since", [450, 650, 701, 800, 1000, 1001])
def test_a_manifest_does_not_stand_for_the_head(since: int, tmp_path: Path) -> None:
    """A broker that forgets the running maximum (Kafka 2.3 to 4.2) uploads one that is too low: 700, over 1000."""
    specs = [data(10 * n, *[timestamp] * 10) for n, timestamp in enumerate([1000, 500, 600, 700])]
    store = write_tier(tmp_path, specs, [(19, 1), (29, 2), (39, 3)], [(600, 29), (700, 39)], latest=700)
    wanted = [
        10 * n + at for n, timestamp in enumerate([1000, 500, 600, 700]) if timestamp >= since for at in range(10)
    ]
    assert rows(store, since=since) == wanted


@pytest.mark.parametrize("since", [150, 250, 401])
def test_without_a_time_index_a_manifest_proves_nothing(since: int, tmp_path: Path) -> None:
    """No entry, no head proof."""
    store = write_tier(tmp_path, ORDERED, [], [], latest=100)
    assert rows(store, since=since) == [offset for offset in range(40) if 100 * (offset // 10 + 1) >= since]
