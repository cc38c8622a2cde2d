"""What the batches of two copies show does not depend on which of the two comes first."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_segment_source.options import parse_options
from kafka_segment_source.partition.batch_pairs import compare_batches
from kafka_segment_source.partition.copy_view import CopyView
from kafka_segment_source.partition.logs import examined_logs
from kafka_segment_source.reporting import Warnings
from tests.support.layouts import write_copies

FIRSTS = [(10, 12), (13, 14), (15, 17), (18, 20)]

copies = st.lists(st.sampled_from([None, 0, 1, 2]), min_size=4, max_size=4).map(
    lambda epochs: [(*offsets, epoch) for offsets, epoch in zip(FIRSTS, epochs, strict=True) if epoch is not None]
)


@settings(max_examples=400)
@given(copies, copies)
def test_the_order_of_the_two_copies(one: list[tuple[int, int, int]], other: list[tuple[int, int, int]]) -> None:
    with TemporaryDirectory() as root:
        texts = [" ".join(f"[{a}-{b} e{epoch}]" for a, b, epoch in copy) for copy in (one, other)]
        paths = write_copies(Path(root), *({10: text} for text in texts))
        views = [_view(path) for path in paths]
        there = compare_batches(views[0], views[0].end, views[1], views[1].end)
        back = compare_batches(views[1], views[1].end, views[0], views[0].end)
    assert (there.agreed, there.conflict) == (back.agreed, back.conflict)
    assert there.differs == (None if back.differs is None else back.differs[::-1])


def _view(path: str) -> CopyView:
    parsed, _ = parse_options({"path": path})
    [log] = examined_logs(parsed.source, parsed.policy, Warnings())
    return CopyView(log, parsed.policy)
