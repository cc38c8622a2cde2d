"""Whether the batch that ends the wanted offsets is believed, by the batches behind it."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from kafka_segment_source.bounds import OffsetRange
from kafka_segment_source.decoding.belief import Belief
from kafka_segment_source.decoding.offset_order import Disorder
from kafka_segment_source.kernels import batch_headers


@pytest.mark.parametrize(
    ("end", "spans", "is_in_doubt"),
    [
        (11, [(0, 4), (10, 12), (13, 13), (5, 9)], True),  # the batch spans the end, and begins before it
        (10, [(0, 4), (10, 12), (13, 13), (5, 9)], True),  # it begins at the end
        (8, [(0, 4), (10, 12), (13, 13), (5, 9)], True),
        (8, [(0, 4), (10, 12), (13, 13), (8, 9)], False),  # what follows is not wanted
        (11, [(0, 4), (5, 12), (13, 13), (3, 4)], False),  # there is no gap before it
    ],
)
def test_a_batch_behind_the_end_of_the_wanted_offsets(
    end: int, spans: list[tuple[int, int]], is_in_doubt: bool
) -> None:
    """The last batch is out of order: it states offsets below those of the batch that ends the wanted ones."""
    headers = np.zeros((batch_headers.FIELDS, len(spans)), np.int64)
    headers[batch_headers.BASE_OFFSET] = [first for first, _ in spans]
    headers[batch_headers.LAST_OFFSET] = [last for _, last in spans]
    headers[batch_headers.AFTER] = [-1, *(last for _, last in spans[:-1])]
    split = SimpleNamespace(bounds=SimpleNamespace(offsets=OffsetRange(0, end)))
    belief = SimpleNamespace(_split=split)
    assert Belief.is_end_in_doubt(belief, headers, len(spans) - 1) == is_in_doubt  # type: ignore[arg-type]


@pytest.mark.parametrize(("third", "wrong"), [(18, None), (23, Disorder(0, 5, 19))])
def test_a_batch_behind_damage_that_the_next_one_does_not_follow(third: int, wrong: Disorder | None) -> None:
    """The third one may show that the second one is wrong: its length is that of the place between the two others."""
    spans = [(10, 14), (20, 22)]
    headers = np.zeros((batch_headers.FIELDS, len(spans)), np.int64)
    headers[batch_headers.BASE_OFFSET] = [first for first, _ in spans]
    headers[batch_headers.LAST_OFFSET] = [last for _, last in spans]
    headers[batch_headers.COUNT] = [last - first + 1 for first, last in spans]
    headers[batch_headers.POSITION] = [200, 300]
    headers[batch_headers.MAGIC] = 2
    belief = SimpleNamespace(
        _split=SimpleNamespace(copies=("one", "other"), start=0),
        last=None,
        _believed_end=100,
        _is_stated_by_damage=lambda _: False,
        _read_following=lambda *_: third,
    )
    assert Belief._doubt_first(belief, headers, len(spans), 4) == wrong  # type: ignore[arg-type]
