"""The rows of view=transactions: walks the batches of one partition in order.

It needs the headers of data batches and the whole control batches. So with checkCrcs=false, only headers are read
where batches are large (`decoding/header_walk.py`). A control batch is always proven by its CRC, since it decides the
state.

`transaction_replay.py` follows the producers. The walk tells it where offsets are missing: after skipped damage (mode),
after a loss that failOnDataLoss allows, and wherever another copy leaves offsets out.

A file that was replaced during the walk may lack the marker of what was open before, as a cleaner removes transactions
together with their markers. So the log is listed again, and walked again from where the oldest open one begins.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterator

from kafka_segment_source.bounds import OffsetRange
from kafka_segment_source.data_loss import report_lost_rows
from kafka_segment_source.decoding.damage import Suspicion, UnloggedDamage
from kafka_segment_source.decoding.split import SegmentSplit
from kafka_segment_source.errors import DataLossError
from kafka_segment_source.reading.following import Follower, find_again
from kafka_segment_source.reporting import log_skipped
from kafka_segment_source.source import Source
from kafka_segment_source.storage.paths import parent_of
from kafka_segment_source.storage.retrying import Attempts, try_again
from kafka_segment_source.transactions.stretches import Stretch, cut_stretch, first_void, has_hidden_end
from kafka_segment_source.transactions.walk import walk_file
from kafka_segment_source.trust import Policy
from kafka_segment_source.views.abort_indexes import AbortIndexes
from kafka_segment_source.views.transaction_replay import Replay, Row
from kafka_segment_source.views.transaction_table import TransactionTask

_HOLE = Stretch(loss=DataLossError("offsets are missing"))  # where the follower has said so
_CHANGED = Stretch()  # before the batches of a file that replaced another one


def find_transactions(task: TransactionTask, source: Source, policy: Policy) -> Iterator[Row]:
    """Yields a row for each transaction of a partition: first those that ended, by their markers, then the open ones.

    Raises the errors of a read: for damage under FAILFAST, and for missing offsets under failOnDataLoss.
    """
    replay = Replay(task)
    indexes = AbortIndexes(task)
    pending = deque(task.splits)
    furthest = 0  # the last offset that was reached
    attempts = Attempts()
    while pending:
        split = pending.popleft()
        for stretch in _walk(split, source, policy, replay):
            if replay.reached > furthest:
                furthest = replay.reached
                attempts.note_progress()
            oldest = replay.find_oldest() if stretch is _CHANGED else None
            if oldest is None:
                yield from replay.add(stretch)
                continue
            walked = OffsetRange(oldest, replay.reached)
            again = _list_again(split, walked, source, policy) if attempts.may_go_on() else None
            if again is None:
                yield from replay.add(Stretch(gaps=(replay.reached,)))
                continue
            replay.go_back()
            pending = deque(again)
            break
        else:
            indexes.compare(split, replay)
    yield from replay.finish()


def _list_again(split: SegmentSplit, walked: OffsetRange, source: Source, policy: Policy) -> list[SegmentSplit] | None:
    """Returns the splits of the log as it is now, from the start of `walked` on. None if some of the offsets that were
    walked are lost."""

    def plan() -> tuple[list[SegmentSplit], bool]:
        again = find_again(split, OffsetRange(walked.start), source, policy)
        return [*again.splits], any(not lost.offsets.intersect(walked).is_empty for lost in again.lost)

    splits, has_lost = try_again(plan)
    return None if has_lost else splits


def _walk(split: SegmentSplit, source: Source, policy: Policy, replay: Replay) -> Iterator[Stretch]:
    """Yields the batches of one segment, wherever they are now. replay: knows how far the walk has come."""
    # other copies are searched by CRC, since only this shows which of them holds a marker whole
    follower = Follower(split, source, policy.with_crcs())

    def read(part: SegmentSplit) -> Iterator[Stretch]:
        directory = parent_of(part.path)
        if split.copies and (part is not split or replay.directory not in ("", directory)):
            replay.seam = replay.reached
        replay.directory = directory
        if part is not split and follower.has_moved:
            yield _CHANGED
        for stretch in _read_part(part, policy, follower):
            for error in stretch.errors:
                log_skipped(error)
            void = first_void(stretch, replay.reached) if replay.seam else None
            if void is None:
                yield stretch
                continue
            before, after = cut_stretch(stretch, void)
            yield before
            yield after._replace(gaps=(replay.seam, *after.gaps))
            replay.seam = 0

    losses = 0
    try:
        for stretch in follower.run(read):
            if follower.losses > losses:
                losses = follower.losses
                yield _HOLE
            yield stretch
    except DataLossError as error:
        report_lost_rows(error, policy)
        follower.losses += 1
    if follower.losses > losses:
        yield _HOLE
    if follower.was_mended and has_hidden_end(split, replay.reached):
        yield Stretch(gaps=(replay.reached,))


def _read_part(part: SegmentSplit, policy: Policy, follower: Follower) -> Iterator[Stretch]:
    def walk(rest: SegmentSplit, headers_only: bool) -> Generator[Stretch, None, SegmentSplit | None]:
        damage = Suspicion() if part.copies else UnloggedDamage(policy.drop_malformed)
        trust = policy.with_crcs().trust
        return walk_file(rest, trust, damage, rest.start_offset, headers_only=headers_only, follower=follower)

    rest = yield from walk(part, not policy.trust.check_crcs)
    if rest is not None:
        yield from walk(rest, headers_only=False)
