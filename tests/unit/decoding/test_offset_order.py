"""Which of two batches that contradict each other is wrong."""

from __future__ import annotations

import numpy as np
import pytest

from kafka_segment_source.decoding.offset_order import Disorder, find_disorder
from kafka_segment_source.kernels import batch_headers


@pytest.mark.parametrize(("third", "wrong"), [(18, Disorder(1, 15, 99)), (19, Disorder(0, 5, 6))])
def test_a_batch_behind_damage_that_the_next_one_steps_back_before(third: int, wrong: Disorder) -> None:
    """The second one has fallen if it exactly fills the place between the first one and the third."""
    spans = [(10, 14), (7, 9), (third, third + 2)]
    headers = np.zeros((batch_headers.FIELDS, len(spans)), np.int64)
    headers[[batch_headers.BASE_OFFSET, batch_headers.LAST_OFFSET]] = np.array(spans).T
    assert find_disorder(headers, 4, 100, 100, is_behind_damage=True) == wrong
    assert find_disorder(headers, 4, 100, 100) == Disorder(0, 5, 6)
