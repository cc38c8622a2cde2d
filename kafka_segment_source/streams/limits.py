"""Shares a limit of a micro-batch out among partitions. `piece_ends.py` applies the limits.

As in Spark's kafka source (`KafkaMicroBatchStream.rateLimit`), each partition gets a share in proportion to what it has
waiting. Other than there, the shares never add up to more than the limit.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

K = TypeVar("K")


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
