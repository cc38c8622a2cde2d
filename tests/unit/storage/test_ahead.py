"""`map_ahead`: what an error of an item becomes, one by one and in threads."""

from __future__ import annotations

import pytest

from kafka_segment_source.storage.ahead import map_ahead


@pytest.mark.parametrize("at_once", [1, 4])
def test_an_iterator_that_ends_inside_an_item_is_an_error(at_once: int) -> None:
    """`map` would end there, as if no item was left: fewer partitions, and no word."""
    empty: list[int] = []
    with pytest.raises(RuntimeError, match="StopIteration"):
        list(map_ahead(lambda _: next(iter(empty)), range(3), at_once))


@pytest.mark.parametrize("at_once", [1, 4])
def test_results_come_in_order_up_to_the_first_error(at_once: int) -> None:
    results = map_ahead(lambda item: 6 // item, [1, 2, 0, 3], at_once)
    assert [next(results), next(results)] == [6, 3]
    with pytest.raises(ZeroDivisionError):
        next(results)
