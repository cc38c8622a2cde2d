"""Makes the reader of batches read in small portions."""

from __future__ import annotations

import pytest

from kafka_segment_source.decoding import batch_search, log_tail
from kafka_segment_source.decoding.split_file import SplitFile


def read_in_chunks(patch: pytest.MonkeyPatch, size: int) -> None:
    """Sets the bytes of one read of a range, and the most bytes of one read of a search, until `patch` is undone."""
    patch.setitem(SplitFile.__init__.__kwdefaults__, "chunk_bytes", size)
    for module in (batch_search, log_tail):
        patch.setattr(module, "LARGEST_WINDOW", size)
