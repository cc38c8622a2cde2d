"""What a reader may believe of the files without proof, and what follows where they do not hold what they should. Both
values are made once from the options, for every open file."""

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


class Policy(NamedTuple):
    """What is believed, and what happens with damage and loss.

    trust: in the files.
    disorder: the timestampDisorder that the reader may rely on, ms. None: none.
    reads_control: whether control records are read, so that damage in them counts.
    drop_malformed: whether damaged batches are skipped, with a warning (mode). Otherwise they are errors.
    fail_on_data_loss: whether lost offsets are an error (failOnDataLoss). Otherwise they are a warning.
    """

    trust: Trust = Trust()
    disorder: int | None = None
    reads_control: bool = False
    drop_malformed: bool = False
    fail_on_data_loss: bool = True

    def with_control(self) -> Policy:
        """Returns the policy of a read of control records. timestampDisorder is about data records alone."""
        return self._replace(disorder=None, reads_control=True)

    def with_crcs(self) -> Policy:
        """Returns the policy that checks every CRC."""
        return self._replace(trust=self.trust._replace(check_crcs=True))
