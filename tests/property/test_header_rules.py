"""The rules over batch headers: each kernel against the same rule, written as columns of numpy."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kafka_segment_source import kafka_format
from kafka_segment_source.kernels import batch_headers, batch_rules
from kafka_segment_source.kernels.batch_headers import HeaderTable

near = st.integers(0, 6) | st.integers(0, 12) | st.integers(2**62, 2**62 + 3)


@st.composite
def tables(draw: st.DrawFn, least: int = 0) -> HeaderTable:
    """Header tables of any batches: most follow each other, some jump, repeat or step back."""
    n = draw(st.integers(least, 6))
    table = np.zeros((batch_headers.FIELDS, n), np.int64)
    offset, position = draw(near), draw(st.integers(0, 3))
    for b in range(n):
        offset += draw(st.sampled_from([0, 0, 1, 3, -2, -3]))
        span = draw(st.integers(1, 4))
        table[batch_headers.BASE_OFFSET, b] = offset
        table[batch_headers.LAST_OFFSET, b] = offset + span - 1
        table[batch_headers.COUNT, b] = draw(st.sampled_from([span, span, span - 1, 0, -1]))
        table[batch_headers.CRC, b] = draw(st.integers(0, 1))
        table[batch_headers.MAGIC, b] = draw(st.sampled_from([2, 2, 2, 1, 0]))
        table[batch_headers.ATTRIBUTES, b] = draw(st.integers(0, 255))
        table[batch_headers.MAX_TIMESTAMP, b] = draw(st.integers(-1, 5) | st.sampled_from([-(2**63), 2**63 - 1]))
        table[batch_headers.POSITION, b] = position + draw(st.sampled_from([0, 0, 0, 7]))
        table[batch_headers.SIZE, b] = draw(st.integers(1, 3))
        position = table[batch_headers.POSITION, b] + table[batch_headers.SIZE, b]
        offset += span
    wider = np.zeros((batch_headers.FIELDS, n + 2), np.int64)  # rows of a wider table lie apart
    wider[:, 1 : n + 1] = table
    return wider[:, 1 : n + 1] if draw(st.booleans()) else table


@given(
    table=tables(),
    before=st.integers(-1, 3),
    limit=st.just(2**63 - 1) | st.integers(0, 30),
    following=st.integers(0, 30),
)
def test_find_disorder(table: HeaderTable, before: int, limit: int, following: int) -> None:
    """The first batch that steps back, ends past the limit, or jumps over the batch after it."""
    base, last = table[batch_headers.BASE_OFFSET].copy(), table[batch_headers.LAST_OFFSET].copy()
    earlier, later = np.array([before, *last[:-1]][: len(base)]), np.array([*base[1:], following][: len(base)])
    jumped = (base > earlier + 1) & (later <= last) & (later > earlier)
    following_crcs = np.array([*table[batch_headers.CRC][1:], 0][: len(base)])
    following_sizes = np.array([*table[batch_headers.SIZE][1:], 0][: len(base)])
    is_last = np.arange(len(base)) == len(base) - 1
    is_same = is_last | ((following_crcs == table[batch_headers.CRC]) & (following_sizes == table[batch_headers.SIZE]))
    third = np.array([*base[2:], following, following][: len(base)])
    next_last = np.array([*last[1:], 0][: len(base)])
    jumped &= (later != base) | (later - earlier == last - base + 2) | (~is_same & (third == next_last + 1))
    wrong = np.flatnonzero((base <= earlier) | (last >= limit) | jumped)

    allowed = np.zeros(2, np.int64)
    at = batch_rules.find_disorder(table, before, limit, following, False, allowed)

    assert at == (wrong[0] if len(wrong) else len(base))
    assert table[batch_headers.AFTER].tolist() == earlier.tolist()
    if len(wrong):
        most = later[at] if jumped[at] else limit
        assert allowed.tolist() == [earlier[at] + 1, most - 1]


@given(table=tables(least=1), position=st.integers(0, 4), next_offset=near)
def test_look_for_gaps(table: HeaderTable, position: int, next_offset: int) -> None:
    """Offsets that are missing inside a batch, or before a batch directly behind the one before it."""
    at, size = table[batch_headers.POSITION], table[batch_headers.SIZE]
    base, last, count = (
        table[row] for row in (batch_headers.BASE_OFFSET, batch_headers.LAST_OFFSET, batch_headers.COUNT)
    )
    follows = at == [position, *(at + size)[:-1]]
    before = (base > [next_offset, *(last + 1)[:-1]]) & follows
    inside = (count >= 0) & (count < last - base + 1)

    found = batch_rules.look_for_gaps(table, position, next_offset)

    assert bool(found & batch_rules.HAS_GAPS) == bool(inside.any() or before[:-1].any())
    assert bool(found & batch_rules.ENDS_BEHIND_GAP) == bool(before[-1] and not inside[-1])
    assert bool(found & batch_rules.HAS_OLD_FORMATS) == bool((table[batch_headers.MAGIC] < 2).any())


@given(
    table=tables(),
    offsets=st.tuples(near, near),
    times=st.tuples(st.integers(-1, 5) | st.just(-(2**63)), st.integers(-1, 5) | st.just(2**63 - 1)),
    include_control=st.booleans(),
)
def test_select_batches(
    table: HeaderTable, offsets: tuple[int, int], times: tuple[int, int], include_control: bool
) -> None:
    """Only a batch whose header proves that it holds no wanted record is left out."""
    magic, attributes, latest = (
        table[row] for row in (batch_headers.MAGIC, batch_headers.ATTRIBUTES, batch_headers.MAX_TIMESTAMP)
    )
    append_time = (attributes & kafka_format.TIMESTAMP_TYPE_MASK != 0) & (magic > 0)
    wrapper = (magic < 2) & (attributes & kafka_format.CODEC_MASK != 0)
    wanted = table[batch_headers.COUNT] != 0
    wanted &= include_control | (magic < 2) | (attributes & kafka_format.CONTROL_MASK == 0)
    wanted &= table[batch_headers.LAST_OFFSET] >= offsets[0]
    wanted &= (table[batch_headers.BASE_OFFSET] <= offsets[1]) | wrapper
    wanted &= (latest >= times[0]) | (wrapper & ~append_time)
    wanted &= (latest <= times[1]) | ~append_time

    chosen = np.full(table.shape[1] + 1, -5, np.int64)
    count = batch_rules.select_batches(table, np.array([*offsets, *times], np.int64), include_control, chosen)

    assert chosen[:count].tolist() == np.flatnonzero(wanted).tolist()
    assert (chosen[count:] == -5).all()


@given(table=tables(least=1))
def test_find_end_of_run(table: HeaderTable) -> None:
    """Runs of message sets and of batches of magic 2 take turns, and none is empty."""
    is_v2 = (table[batch_headers.MAGIC] == 2).tolist()
    ends = [0]
    while ends[-1] < len(is_v2):
        ends.append(batch_rules.find_end_of_run(table, ends[-1]))
    assert ends == [0, *(b for b in range(1, len(is_v2)) if is_v2[b] != is_v2[b - 1]), len(is_v2)]
