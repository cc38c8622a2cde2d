"""The logs of a piece, and what is lost between its end and its plan."""

from __future__ import annotations

import pytest

from kafka_segment_source.bounds import OffsetRange
from kafka_segment_source.errors import DataLossError
from kafka_segment_source.streams.piece_logs import choose_logs
from tests.unit.streams.parts import T0, T1, log_of, said

WANTED = {T1: OffsetRange(0, 6), T0: OffsetRange(4, 9)}
START = {T0: 4}  # t-1 is new


@pytest.mark.parametrize(
    ("files", "offsets", "lost"),
    [
        ({T0: (0, 9), T1: (0, 6)}, {T0: (4, 9), T1: (0, 6)}, None),
        ({T0: (4, 20), T1: (0, 20)}, {T0: (4, 9), T1: (0, 6)}, None),
        ({T0: (0, 9)}, {T0: (4, 9)}, "the directory of partition t-1 is gone, and offsets up to 6 with it"),
        (
            {T0: (6, 9), T1: (0, 6)},
            {T0: (6, 9), T1: (0, 6)},
            "t-0 was read up to offset 4, but its files begin at 6: the offsets 4 to 5 are gone",
        ),
        (
            {T0: (0, 9), T1: (2, 6)},
            {T0: (4, 9), T1: (2, 6)},
            "t-1 is new, but its files begin at 2: the offsets 0 to 1 are gone",
        ),
        (
            {T0: (0, 7), T1: (0, 6)},
            {T0: (4, 7), T1: (0, 6)},
            "files of partition t-0 end at offset 7, but a micro-batch up to 9 was begun",
        ),
        ({T0: (0, 3), T1: (0, 6)}, {T1: (0, 6)}, "files of partition t-0 end at offset 3"),
    ],
)
def test_what_is_there(
    files: dict[tuple[str, int], tuple[int, int]],
    offsets: dict[tuple[str, int], tuple[int, int]],
    lost: str | None,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Each log is cut to the piece. What lacks is a loss: an error, or said once."""
    logs = [log_of(key) for key in files]

    def choose(fail_on_data_loss: bool) -> dict[tuple[str, int], tuple[int, int]]:
        chosen = choose_logs(WANTED, START, logs, lambda log: files[log.topic_partition], said(fail_on_data_loss))
        return {log.topic_partition: (log.offsets.start, log.offsets.end) for log in chosen}

    if lost is None:
        assert choose(fail_on_data_loss=True) == offsets
    else:
        with pytest.raises(DataLossError, match=lost):
            choose(fail_on_data_loss=True)
    found = choose(fail_on_data_loss=False)
    assert found == offsets and list(found) == sorted(found)
    assert [lost in each for each in caplog.messages if lost] == ([] if lost is None else [True])
