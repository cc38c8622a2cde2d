"""`verify` compares the places of the batches of two compacted copies, which no read does."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given
from hypothesis import strategies as st

import kafka_segment_source as kafkaseg
from kafka_segment_source.kafka_format import CLEANER_CHECKPOINT
from tests.support.layouts import write_copies

Batch = tuple[int, int]  # its first and its last offset
LAST = 31

histories = st.sets(st.integers(1, LAST), min_size=2, max_size=9).map(
    lambda firsts: [(first, after - 1) for first, after in pairwise([0, *sorted(firsts), LAST + 1])]
)


@st.composite
def compacted_copies(draw: st.DrawFn) -> list[list[Batch]]:
    """Two copies of one history, each without some of its batches. Compaction keeps the last one."""
    history = draw(histories)
    keeps = [draw(st.lists(st.booleans(), min_size=len(history), max_size=len(history))) for _ in range(2)]
    return [[batch for batch, keep in zip(history, kept, strict=True) if keep or batch[1] == LAST] for kept in keeps]


def find_problems(copies: list[list[Batch]], stated: dict[int, int], marked: bool = True) -> list[str]:
    """The problems of two copies. stated: the wrong baseOffset of batches of the second copy, by their first offset."""
    with TemporaryDirectory() as root:
        texts = [
            " ".join(f"[{a}-{b} e0{f' @{stated[a]}' if at and a in stated else ''}]" for a, b in copy)
            for at, copy in enumerate(copies)
        ]
        paths = write_copies(Path(root), *({0: text} for text in texts))
        if marked:
            for path in paths:
                Path(path, CLEANER_CHECKPOINT).write_text("0\n1\nt 0 1\n")
        return [problem.what for problem in kafkaseg.verify(paths).problems]


@given(compacted_copies())
def test_copies_of_one_history(copies: list[list[Batch]]) -> None:
    assert find_problems(copies, {}) == []


@given(compacted_copies(), st.data())
def test_one_wrong_offset_in_a_gap(copies: list[list[Batch]], data: st.DataObject) -> None:
    """It is a problem if, and only if, the batch lies over a part of a batch of the other copy then."""
    own = copies[1]
    gaps = [(-1, -1), *own, (LAST + 1, LAST + 1)]
    moves = {
        first: [base for base in range(before[1] + 1, after[0] - (last - first)) if base != first]
        for before, (first, last), after in zip(gaps, own, gaps[2:], strict=False)
    }
    movable = {first: bases for first, bases in moves.items() if bases and first != own[-1][0]}
    if not movable:
        return
    first = data.draw(st.sampled_from(sorted(movable)))
    base = data.draw(st.sampled_from(movable[first]))
    last = base + dict(own)[first] - first
    over = [(a, b) for a, b in copies[0] if a <= last and b >= base and (a, b) != (base, last)]
    found = find_problems(copies, {first: base})
    if (base, last) not in copies[0]:  # else the two are compared as batches at one place
        assert bool(found) == bool(over)


def test_what_a_read_sees_is_no_business_of_this_rule() -> None:
    """Without a mark, a read asks the other copy about each gap."""
    copies = [[(0, 3), (4, 9), (10, 11)], [(0, 3), (6, 9), (10, 11)]]
    assert find_problems(copies, {}) != []
    assert find_problems(copies, {}, marked=False) == []
