"""Pruning where a read takes a round trip: small segments by their headers, the ends of index files, and what is read
at once. It gives the naive rows too, for any index files.
"""

from __future__ import annotations

from hypothesis import assume, event, given, settings
from hypothesis import strategies as st

import kafka_segment_source as kafkaseg
from tests.property.test_pruning import anything, in_order, scanned, wanted, written
from tests.support.far_files import far_files
from tests.support.logs import GeneratedLog, disorder
from tests.support.strategies import Bounds, logs_and_bounds, options_of, partition_logs

EXAMPLES = settings(max_examples=settings().max_examples * 4)


@EXAMPLES
@given(logs_and_bounds(anything), st.sampled_from([0, 200, 100_000]), st.booleans())
def test_rows_are_the_naive_ones(pair: tuple[GeneratedLog, Bounds], block: int, crcs: bool) -> None:
    """By time and by offset, with index files of any kind."""
    log, asked = pair
    assume(in_order(asked))
    with written(log) as directory, far_files(block):
        assert scanned(directory, asked, checkCrcs=crcs) == wanted(log, asked)


@EXAMPLES
@given(logs_and_bounds(partition_logs(index_damage=True)), st.sampled_from([0, 200]))
def test_declared_disorder(pair: tuple[GeneratedLog, Bounds], block: int) -> None:
    """With a witness of `until`, and without a time index."""
    log, asked = pair
    assume(in_order(asked))
    with written(log) as directory, far_files(block):
        assert scanned(directory, asked, timestampDisorder=disorder(log.records)) == wanted(log, asked)


@given(logs_and_bounds(partition_logs(crashes=False)))
def test_a_sound_log_is_pruned_as_on_a_disk(pair: tuple[GeneratedLog, Bounds]) -> None:
    """The ends of sound index files leave out the same segments, and give the same ranges."""
    log, asked = pair
    assume(in_order(asked))
    with written(log) as directory:
        here = kafkaseg.plan(directory, **options_of(asked))
        with far_files():
            far = kafkaseg.plan(directory, **options_of(asked))
        event(f"dropped: {min(len(far.dropped), 2)}")
        ranges = [[(each.base_offset, each.start, each.end) for each in plan.splits] for plan in (far, here)]
        assert ranges[0] == ranges[1]
