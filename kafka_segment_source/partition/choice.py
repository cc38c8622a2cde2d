"""Decides which of several copies is read for which offsets.

Comes in: ranges of offsets, and how well each is held. Goes out: disjoint ranges. How well a copy holds offsets, from
worst to best:

- UNKNOWN: no batch is left there, and nothing shows whether there ever was one. So it is with the end of a segment of
  magic 0 or 1 before a later segment (`decoding/gaps.py`).
- DAMAGED: damaged bytes are where the batches should be.
- VOID: no batch and no damage. Compaction removed the batches, or there never were any.
- SECOND: batches of a copy whose history lost, from below the difference. Compaction may have removed some of them in
  favour of records that do not count. So any other batches go before them.
- HIDDEN: damage, and nothing says up to which offset. It may hide batches.
- THINNER: batches from which compaction has removed more records than from those of another copy.
- THIN: batches from which compaction has removed records.
- WHOLE: every offset has its record.
"""

from __future__ import annotations

from collections.abc import Sequence

from kafka_segment_source.bounds import OffsetRange

UNKNOWN, DAMAGED, VOID, SECOND, HIDDEN, THINNER, THIN, WHOLE = range(8)


def choose(spans: Sequence[OffsetRange], holdings: Sequence[int] | None = None) -> list[tuple[int, OffsetRange]]:
    """Returns which span is read for which offsets, in order: (index into spans, range). The ranges are disjoint.

    Together the ranges cover what the spans cover. From the lowest offset on, each step takes the span that holds the
    offset best. Of equal spans it takes the one that reaches furthest, and of these the first. The range goes up to the
    end of that span, or up to where a better one begins.

    holdings: how well each span holds its offsets. By default all are equal.
    """
    held = holdings if holdings is not None else [WHOLE] * len(spans)
    coming = sorted((at for at, span in enumerate(spans) if not span.is_empty), key=lambda at: (spans[at].start, at))
    following = 0  # the first of `coming` that begins after the position
    here: list[int] = []
    chosen: list[tuple[int, OffsetRange]] = []
    position = spans[coming[0]].start if coming else 0
    while True:
        here = [at for at in here if spans[at].end > position]
        while following < len(coming) and spans[coming[following]].start <= position:
            if spans[coming[following]].end > position:
                here.append(coming[following])
            following += 1
        if not here and following == len(coming):
            return chosen
        if not here:
            position = spans[coming[following]].start
            continue
        best = max(here, key=lambda at: (held[at], spans[at].end, -at))
        end = spans[best].end
        ahead = following
        while ahead < len(coming) and spans[coming[ahead]].start < end:
            if held[coming[ahead]] > held[best]:
                end = spans[coming[ahead]].start
            ahead += 1
        chosen.append((best, OffsetRange(position, end)))
        position = end
