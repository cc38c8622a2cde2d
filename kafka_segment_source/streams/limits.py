"""How much of what is there a micro-batch takes: the options of pace, and their spread over partitions.

As in Spark's kafka source (`KafkaMicroBatchStream.rateLimit`), each partition gets a share in proportion to what it has
waiting. Other than there, the shares never add up to more than the limit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

from kafka_segment_source.errors import OptionError
from kafka_segment_source.options import ReadOptions

K = TypeVar("K")


@dataclass(frozen=True, slots=True)
class Limits:
    """most_offsets, most_bytes: of a micro-batch, over all partitions. None: no limit.

    least_offsets: a micro-batch waits for this many. None: it does not wait.
    longest_wait: s; after it, a micro-batch takes what is there.
    """

    most_offsets: int | None = None
    most_bytes: int | None = None
    least_offsets: int | None = None
    longest_wait: float = 0.0

    @classmethod
    def of(cls, options: ReadOptions) -> Limits:
        """Takes the limits from the options. Raises OptionError if they contradict each other."""
        least, most = options.min_offsets_per_trigger, options.max_offsets_per_trigger
        if least is not None and most is not None and least > most:
            raise OptionError(
                f"option 'minOffsetsPerTrigger' ({least}) is above option 'maxOffsetsPerTrigger' ({most})",
                options=("minOffsetsPerTrigger", "maxOffsetsPerTrigger"),
            )
        return cls(most, options.max_bytes_per_trigger, least, options.max_trigger_delay / 1000)

    @property
    def names(self) -> list[str]:
        """The options that set them."""
        values = {
            "maxOffsetsPerTrigger": self.most_offsets,
            "maxBytesPerTrigger": self.most_bytes,
            "minOffsetsPerTrigger": self.least_offsets,
        }
        return [name for name, value in values.items() if value is not None]


NO_LIMITS = Limits()


def spread(limit: int, waiting: Mapping[K, int]) -> dict[K, int]:
    """Divides `limit` among the keys in proportion to what each has waiting.

    No share is larger than what waits. The shares add up to `limit`, or to all that waits if that is less. What
    rounding down leaves goes to those that it took most from; of equals, to the first.
    """
    total = sum(waiting.values())
    if total <= limit:
        return dict(waiting)
    shares = {key: limit * size // total for key, size in waiting.items()}
    rest = limit - sum(shares.values())
    for key in sorted(waiting, key=lambda key: -(limit * waiting[key] % total))[:rest]:
        shares[key] += 1
    return shares
