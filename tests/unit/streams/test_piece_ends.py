"""Where a piece ends under the limits. `test_limits.py` has the shares and the cuts themselves."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafka_segment_source.options import parse_options
from kafka_segment_source.partition.logs import available_logs
from kafka_segment_source.reporting import Warnings
from kafka_segment_source.request import Pace
from kafka_segment_source.streams.piece_ends import PieceEnds
from kafka_segment_source.trust import Trust
from tests.support.small_logs import pl, put
from tests.unit.streams.parts import Clock, waits


def test_how_long_few_offsets_wait(clock: Clock) -> None:
    """Until there are enough, or it has lasted too long since the last piece. The first piece does not wait."""
    ends, limits = PieceEnds(Trust(), clock), Pace(least_offsets=10, longest_wait=30_000)
    assert not ends.must_wait(waits(t=4, u=5), limits)
    ends.note_piece()
    clock.now += 29
    assert ends.must_wait(waits(t=4, u=5), limits)
    assert not ends.must_wait(waits(t=5, u=5), limits)
    assert not ends.must_wait(waits(t=4, u=5), Pace())
    clock.now += 1
    assert not ends.must_wait(waits(t=4, u=5), limits)


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        (Pace(), (100, 50, 0)),
        (Pace(most_offsets=150), (100, 50, 0)),
        (Pace(most_offsets=30), (20, 10, 0)),
        (Pace(most_offsets=45), (30, 10, 0)),  # back to where a batch begins
        (Pace(most_bytes=10**6), (100, 50, 0)),
        (Pace(most_bytes=1), (10, 0, 0)),  # one batch at least
        (Pace(most_offsets=30, most_bytes=1), (10, 0, 0)),
        (Pace(most_offsets=30, most_bytes=10**6), (20, 10, 0)),
    ],
)
def test_where_a_piece_ends(tmp_path: Path, clock: Clock, limits: Pace, expected: tuple[int, ...]) -> None:
    """At the end of what waits, or where the tighter limit cuts."""
    put(tmp_path, 0, *[pl(base, 10) for base in range(0, 100, 10)])
    options, _ = parse_options({"path": str(tmp_path)})
    (log,) = available_logs(options.source, options.policy, Warnings())
    waiting = waits(t=100, u=50, v=0)
    found = PieceEnds(Trust(), clock).cut(dict.fromkeys(waiting, log), waiting, limits)
    assert found == dict(zip(waiting, expected, strict=True))
