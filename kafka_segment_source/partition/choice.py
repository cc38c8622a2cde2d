"""Which of several copies is read for which offsets: ranges and how well each is held come in, disjoint ranges go out.

How well a copy holds offsets, the worst first: DAMAGED; VOID, no batch at all and no damage, so compaction took it, or
nothing ever was; THIN, batches that compaction has taken records from; WHOLE, every offset has its record.
"""

from __future__ import annotations

from collections.abc import Sequence

from kafka_segment_source.bounds import OffsetRange

DAMAGED, VOID, THIN, WHOLE = range(4)


def choose(spans: Sequence[OffsetRange], holdings: Sequence[int] | None = None) -> list[tuple[int, OffsetRange]]:
    """Which span is read for which offsets, in their order: (index into spans, range), ranges disjoint.

    holdings: how well each span holds its offsets, all alike if it is not given. Together the ranges cover what the
    spans cover. From the lowest offset on, each time the span that holds it best; of these the one that reaches
    furthest, the first of equals; up to its end, or to where a better one begins.
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
