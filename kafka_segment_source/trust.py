"""What a reader may believe of the files without proof. The value is made once from the options, for every open
file."""

from __future__ import annotations

from typing import NamedTuple


class Trust(NamedTuple):
    """The settings for trust in the files.

    check_crcs: whether every batch's CRC is checked before its header is used.
    trust_indexes: whether index files serve as hints.
    max_batch_bytes: a larger batch, stored or decompressed, is damage.
    """

    check_crcs: bool = True
    trust_indexes: bool = True
    max_batch_bytes: int = 2**30
