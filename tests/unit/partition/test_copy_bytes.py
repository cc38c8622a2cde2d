"""How many bytes the batches of some offsets have in one copy."""

from __future__ import annotations

import json
from pathlib import Path

from kafka_segment_source.bounds import OffsetRange
from kafka_segment_source.options import parse_options
from kafka_segment_source.partition.copy_bytes import bytes_between
from kafka_segment_source.partition.logs import available_copies
from tests.support.layouts import encode_batches, write_copies


def test_whole_batches_of_other_offsets_are_no_bytes_of_these(tmp_path: Path) -> None:
    """They lie in the file of these offsets, and it was read from its first byte to its last."""
    moved = {0: "[0-4 e0] [20-29 e0] [5-9 e0]", 10: "[10-12 e0]"}
    paths = write_copies(tmp_path, moved, {0: "[0-4 e0] [5-9 e0]", 10: "[10-12 e0]"})
    options, _ = parse_options({"path": json.dumps(paths)})
    sizes = []
    for copy in available_copies(options.source, options.policy):
        copy.survey(copy.log.segments[0])
        sizes.append(bytes_between(copy, OffsetRange(0, 10))[0])
    assert sizes == [len(encode_batches("[0-4 e0] [5-9 e0]"))] * 2


def test_a_batch_beyond_its_segment_is_at_no_place(tmp_path: Path) -> None:
    """Nobody knows whether the wanted offsets end before it or behind it."""
    paths = write_copies(tmp_path, {0: "[0-4 e0] [5-9 e0 @99]", 10: "[10-12 e0]"}, {0: "[0-9 e0]"})
    options, _ = parse_options({"path": json.dumps(paths)})
    copy = available_copies(options.source, options.policy)[0]
    sound, all_of_it = len(encode_batches("[0-4 e0]")), len(encode_batches("[0-4 e0] [5-9 e0]"))
    assert bytes_between(copy, OffsetRange(0, 8)) == (sound, all_of_it)


def test_a_batch_of_other_offsets_before_the_first_one_counts_nowhere(tmp_path: Path) -> None:
    """It lies before the bytes of these offsets, not between them."""
    paths = write_copies(tmp_path, {0: "[0-4 e0] [20-29 e0] [5-9 e0] [10-12 e0]"}, {0: "[0-4 e0]", 5: "[5-12 e0]"})
    options, _ = parse_options({"path": json.dumps(paths)})
    copy = available_copies(options.source, options.policy)[0]
    copy.survey(copy.log.segments[0])
    assert bytes_between(copy, OffsetRange(5, 10))[0] == len(encode_batches("[5-9 e0]"))
