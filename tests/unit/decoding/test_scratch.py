"""Arrays that one file after another uses: two reads never share them, and large ones are given back."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kafka_segment_source as kafkaseg
from kafka_segment_source.decoding import records, scratch
from tests.support.rows import LOG_DIRECTORIES
from tests.support.writer import Codec, Rec, record_batch

NAMES = ("codecs", "orders", "compacted")


@cache
def read_alone(name: str) -> pa.Table:
    """All rows of a log directory, with no other read at the same time."""
    return kafkaseg.scan(str(LOG_DIRECTORIES[name])).read_all()


@settings(max_examples=10)
@given(st.lists(st.sampled_from(NAMES), min_size=2, max_size=4), st.randoms(use_true_random=False))
def test_reads_that_take_turns(names: list[str], random: Random) -> None:
    """Several reads that are open at the same time give the rows of each read alone, in any order of steps."""
    alone = [read_alone(name) for name in names]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(records, "MAX_ROWS", 50)  # so each read stops in the middle of its chunks
        assert read_in_turns(names, random) == alone


def read_in_turns(names: list[str], random: Random) -> list[pa.Table]:
    """All rows of log directories. The reads of all of them are open at the same time."""
    readers = [kafkaseg.scan(str(LOG_DIRECTORIES[name])) for name in names]
    found: list[list[pa.RecordBatch]] = [[] for _ in names]
    left = list(range(len(names)))
    while left:
        at = random.choice(left)
        try:
            found[at].append(readers[at].read_next_batch())
        except StopIteration:
            left.remove(at)
    return [pa.Table.from_batches(batches) for batches in found]


@pytest.mark.parametrize("codec", ["none", "gzip"])
def test_a_large_batch_leaves_no_large_arrays(codec: Codec, tmp_path: Path) -> None:
    """After a batch of 20 MB, a process keeps no more than after a small one."""
    folder = tmp_path / "t-0"
    folder.mkdir()
    large = [Rec(0, 1000, None, b"x" * 20_000_000)]
    (folder / "00000000000000000000.log").write_bytes(record_batch(large, codec=codec))
    [row] = kafkaseg.scan(str(folder)).read_all().to_pylist()
    assert len(row["value"]) == 20_000_000
    [kept] = scratch._kept
    assert len(kept.plain.data) == scratch._PLAIN_BYTES
    assert len(kept._chunk) == scratch.CHUNK_BYTES
