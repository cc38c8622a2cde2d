"""What is believed of the files without proof: made once from the options, needed wherever a file is opened."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Trust:
    """What a reader believes.

    check_crcs: every batch's CRC is checked before its header is believed. trust_indexes: index files serve as hints.
    max_batch_bytes: a batch that is larger, stored or decompressed, is damage.
    """

    check_crcs: bool = True
    trust_indexes: bool = True
    max_batch_bytes: int = 2**30
