"""What a scan of damaged bytes may answer, said by the naive decoder: `check` raises `ViolationError` for anything
else.

The statements, for a `.log` of any bytes:

1. What is not reported is returned. Under DROPMALFORMED the bytes outside the reported ranges are whole batches, one
after
   the other, that the naive decoder reads and whose offsets grow; the rows are exactly theirs. What may follow them
   unreported, in the last segment alone, is a torn batch or zeros.
2. Nothing is reported without need. Where a reported range begins stands something that the naive decoder refuses, or
   that breaks the order of offsets; and no readable batch that fits between its neighbours lies in the range.
3. FAILFAST ends at damage that DROPMALFORMED reports, with rows before it that are right; without damage, neither does.
   DROPMALFORMED ends only at a batch of a newer magic or codec, under a right CRC; 1 and 2 hold up to there.
4. A CRC is not made right by accident: without such help every row has the key, value and headers of a real one.

Offsets, sizes and leader epochs are outside the CRC. Where damage to them happens to leave offsets that grow, nothing
can tell it from what a broker wrote, and 1 is all that can be said: the rows are those that the bytes spell.
"""

from __future__ import annotations

import struct
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache

import crc32c

from kafka_segment_source.errors import UnsupportedFormatError
from tests.fuzz.corpus import PARTITION, TOPIC, RealSegment, Seed
from tests.support import naive
from tests.support.rows import OFFSET, TIMESTAMP, Row, decoded

_LEAST = {0: 14, 1: 22, 2: 49}
_MAX_MILLIS = (2**63 - 1) // 1000
_MAX_OFFSET = 2**63 - 1
STRICTER = frozenset({"record with an unreadable varint"})
"""Where kafkaseg refuses what Kafka would read: varints with bits beyond their type, which Kafka drops."""


CUT = "segment cut short"
"""What is said of a segment whose index leads behind its end: its damage is at its end, and has no bytes."""


class ViolationError(AssertionError):
    """The answer is not one that the bytes allow."""


@dataclass(frozen=True)
class Reported:
    """A range that was reported as skipped; `end` is None where one batch was, by its position."""

    what: str
    position: int
    end: int | None


@dataclass
class Outcome:
    """What a scan did: its rows, the error that ended it if one did, what it reported by segment number."""

    rows: list[Row]
    error: Exception | None = None
    reports: dict[int, list[Reported]] = field(default_factory=dict)


@dataclass(frozen=True)
class Sound:
    """A batch that can be read and continues its log."""

    position: int
    end: int
    base_offset: int
    last_offset: int
    rows: list[Row]


def claimed_end(data: bytes, position: int) -> int | None:
    """Where the batch that seems to begin at `position` ends, if it is whole by its length."""
    if len(data) - position < 17:
        return None
    (length,) = struct.unpack_from(">i", data, position + 8)
    magic = data[position + 16]
    if length < _LEAST.get(magic, 2**31) or length > len(data) - position - 12:
        return None
    return position + 12 + length


def sound(data: bytes, position: int, after: int, limit: int) -> Sound | None:
    """The batch at `position`, if it is whole, held by its CRC, readable, and its offsets lie between
    `after` and `limit`."""
    end = claimed_end(data, position)
    if end is None or not crc_holds(data[position:end]):
        return None
    batch = data[position:end]
    base, last, count, is_control = _claims(batch)
    if base <= after or last < base or last >= limit or count < 0:
        return None
    if count == 0 or is_control:  # nobody looks inside
        return Sound(position, end, base, last, [])
    found = _decoded_batch(batch)
    if found is None:
        return None
    first, last, rows = found
    least = base if batch[16] == 2 else after + 1
    offsets = [row[OFFSET] for row in rows]
    grows = all(a < b for a, b in zip([least - 1, *offsets], [*offsets, last + 1], strict=True))
    if not grows or any(abs(row[TIMESTAMP]) > _MAX_MILLIS for row in rows):
        return None
    return Sound(position, end, first, last, rows)


@lru_cache(maxsize=10_000)  # most batches of a damaged log are those of its seed
def _decoded_batch(batch: bytes) -> tuple[int, int, list[Row]] | None:
    """First and last offset and the rows of a batch that is not a control batch; None if the naive decoder
    refuses it."""
    try:
        found = naive.decode_batch(batch)
    except naive.NaiveError:
        return None
    return found.base_offset, found.last_offset, decoded(found.records, TOPIC, PARTITION)


def _claims(batch: bytes) -> tuple[int, int, int, bool]:
    """Base offset, last offset, number of records (1 where the format does not say) and whether it is a
    control batch."""
    base: int = struct.unpack_from(">q", batch)[0]
    if batch[16] != 2:
        return base, base, 1, False
    attributes, delta = struct.unpack_from(">hi", batch, 21)
    return base, base + delta, struct.unpack_from(">i", batch, 57)[0], bool(attributes & 0x20)


def crc_holds(batch: bytes) -> bool:
    """Whether a whole batch has the CRC that it states."""
    if batch[16] == 2:
        return bool(crc32c.crc32c(batch[21:]) == struct.unpack_from(">I", batch, 17)[0])
    return zlib.crc32(batch[16:]) == struct.unpack_from(">I", batch, 12)[0]


def sound_anywhere(data: bytes, start: int, end: int, after: int, limit: int) -> Iterator[Sound]:
    """Every readable batch that begins at or after `start` and ends by `end`, at whatever position."""
    for position in range(start, end - 26 + 1):
        if data[position + 16] <= 2 and (claimed_end(data, position) or end + 1) <= end:
            found = sound(data, position, after, limit)
            if found is not None:
                yield found


# --- 1 and 2 ---------------------------------------------------------------------------------------------------------


def check_dropped(
    segment: RealSegment, limit: int | None, reports: Sequence[Reported], *, is_refused: bool = False
) -> list[Row]:
    """Statements 1 and 2 of one segment; answers the rows that it must give. limit: the next segment's base offset.

    is_refused: the read ended behind the segment's last byte here, and may not have looked into the last batches.
    """
    data = segment.log
    for report in (each for each in reports if each.what == CUT):  # no bytes are left out: some are not there
        if limit is None or (report.position, report.end) != (len(data), len(data)):
            raise ViolationError(f"a cut at {report.position} of {len(data)} bytes, of a segment before {limit}")
    reports = [report for report in reports if report.what != CUT]
    walk = _Walk(data, segment.base_offset - 1, limit)
    ranges = [_whole_range(data, each) for each in sorted(reports, key=lambda each: each.position)]
    starts = [start for _, start, _ in ranges]
    for (what, start, end), following in zip(ranges, [*starts, len(data)][1:], strict=False):
        walk.to(start)
        if not start < end <= following:
            raise ViolationError(f"reported range {start} to {end} ({what}), the next thing at {following}")
        after = walk.last_offset
        ends = [after, *_claimed_before(data, starts, start)]
        suspect = sound(data, start, after, walk.limit)
        walk.position = end
        if (start, None) in {(each.position, each.end) for each in reports}:  # its CRC held: its offsets are taken
            walk.last_offset = max(after, _claims(data[start:end])[1])
        upcoming = sound(data, end, walk.last_offset, walk.limit)
        is_sound = suspect is not None and what not in STRICTER
        if is_sound and not any(_is_in_doubt(data, suspect, position, ends) for position in (suspect.end, end)):
            raise ViolationError(f"a sound batch at {start} was reported: {what}")
        _check_nothing_lost(data, (start, end), upcoming, walk)
    if is_refused:
        while walk.position < len(data) and walk.step():
            pass
    else:
        walk.to_end()
    return walk.rows


def _claimed_before(data: bytes, skipped: Sequence[int], position: int) -> list[int]:
    """The last offset that the batch right before a position states, if the lengths from where something was skipped
    lead there."""
    claimed = []
    for start in skipped:
        at = start
        while at < position and (end := claimed_end(data, at)) is not None:
            if end == position:
                claimed.append(_claims(data[at:end])[1])
            at = end
    return claimed


def _whole_range(data: bytes, report: Reported) -> tuple[str, int, int]:
    end = report.end if report.end is not None else claimed_end(data, report.position)
    if end is None:
        raise ViolationError(f"reported a batch at {report.position}, where none is whole: {report.what}")
    return report.what, report.position, end


def _is_in_doubt(data: bytes, suspect: Sound, position: int, ends: Sequence[int]) -> bool:
    """Whether the batch at `position` shows that `suspect`, which lies before it, may have a wrong offset.

    A sound batch that begins at or behind its last offset does. Any batch does that leaves exactly the length of
    `suspect` at another place: two numbers that fit are no accident. ends: the last offsets that what lies before may
    have.
    """
    end = claimed_end(data, position)
    if end is None:
        return False
    following = _claims(data[position:end])[0]
    if crc_holds(data[position:end]) and following <= suspect.last_offset:
        return True
    room = suspect.last_offset - suspect.base_offset + 2
    return any(suspect.base_offset != last + 1 and following - last == room for last in ends)


def _check_nothing_lost(data: bytes, skipped: tuple[int, int], upcoming: Sound | None, walk: _Walk) -> None:
    start, end = skipped
    if claimed_end(data, start) == end:
        return  # one batch by its own length: what may lie inside it are its records' bytes
    limit = min(walk.search_limit, walk.limit if upcoming is None else upcoming.base_offset)
    for lost in sound_anywhere(data, start + 1, end, walk.last_offset, limit):
        if lost.last_offset < limit:
            raise ViolationError(f"the range {start} to {end} was skipped, but a sound batch lies at {lost.position}")


class _Walk:
    """Goes from one sound batch to the next and keeps their rows."""

    def __init__(self, data: bytes, after: int, limit: int | None) -> None:
        self.data = data
        self.position = 0
        self.last_offset = after
        self.is_last = limit is None
        self.limit = after + 1 + 2**31 if limit is None else limit  # an index entry has 31 bits above the base
        self.search_limit = self.limit
        self.rows: list[Row] = []

    def step(self) -> bool:
        """Takes the batch here, if it is sound."""
        found = sound(self.data, self.position, self.last_offset, self.limit)
        if found is not None:
            self.position, self.last_offset = found.end, found.last_offset
            self.rows += found.rows
        return found is not None

    def to(self, end: int) -> None:
        """Takes batches up to exactly `end`."""
        while self.position < end:
            if not self.step():
                raise ViolationError(f"what stands at {self.position} is not sound, and was not reported")
        if self.position != end:
            raise ViolationError(f"a reported range begins at {end}, inside a sound batch that ends at {self.position}")

    def to_end(self) -> None:
        """Takes batches up to the end of the file, or of the log."""
        while self.position < len(self.data) and self.step():
            pass
        if self.position == len(self.data):
            return
        rest = self.data[self.position :]
        if self.is_last and not any(rest):
            return
        torn = len(rest) < 17 or (
            rest[16] in _LEAST and struct.unpack_from(">i", rest, 8)[0] >= max(_LEAST[rest[16]], len(rest) - 11)
        )
        if not (self.is_last and torn):
            raise ViolationError(f"what stands at {self.position} is not sound, and was not reported")
        for lost in sound_anywhere(self.data, self.position + 1, len(self.data), self.last_offset, self.search_limit):
            raise ViolationError(f"the log ended at {self.position}, but a sound batch lies at {lost.position}")


# --- all of it -------------------------------------------------------------------------------------------------------


def check(damaged: Seed, dropping: Outcome, failing: Outcome) -> list[Row]:
    """Statements 1 to 3 of a whole log; answers the rows that DROPMALFORMED gave, which are right."""
    if isinstance(dropping.error, UnsupportedFormatError):
        return _check_refused(damaged, dropping, failing)
    if dropping.error is not None:
        raise ViolationError(f"DROPMALFORMED raised {dropping.error!r}") from dropping.error
    rows: list[Row] = []
    limits = [*[segment.base_offset for segment in damaged.segments[1:]], None]
    for at, (segment, limit) in enumerate(zip(damaged.segments, limits, strict=True)):
        rows += check_dropped(segment, limit, dropping.reports.get(at, []))
    if dropping.rows != rows:
        raise ViolationError(f"DROPMALFORMED: {_difference(dropping.rows, rows)}")
    reported = {(at, each.position) for at, reports in dropping.reports.items() for each in reports}
    if failing.error is None:
        if reported:
            raise ViolationError(f"FAILFAST found nothing, DROPMALFORMED skipped {sorted(reported)}")
        if failing.rows != rows:
            raise ViolationError(f"FAILFAST: {_difference(failing.rows, rows)}")
        return rows
    places = {(at, each.position) for at, reports in failing.reports.items() for each in reports}
    if not places & reported:
        raise ViolationError(
            f"FAILFAST found damage at {places}, DROPMALFORMED skipped {sorted(reported)}"
        ) from failing.error
    before = [row for row in rows if not failing.rows or row[OFFSET] <= failing.rows[-1][OFFSET]]
    if failing.rows != before[: len(failing.rows)]:
        raise ViolationError(f"FAILFAST, before its error: {_difference(failing.rows, before)}")
    return rows


def _check_refused(damaged: Seed, dropping: Outcome, failing: Outcome) -> list[Row]:
    """A log that DROPMALFORMED did not read to its end: the batch there is newer, and what came before it is right."""
    at = max(dropping.reports)
    *reports, refused = dropping.reports[at]
    limits = [*[segment.base_offset for segment in damaged.segments[1:]], None]
    if not _is_newer(damaged.segments[at].log, refused.position):
        raise ViolationError(f"refused at {refused.position}: {refused.what}") from dropping.error
    expected: list[Row] = []
    for number, segment in enumerate(damaged.segments[:at]):
        expected += check_dropped(segment, limits[number], dropping.reports.get(number, []))
    cut = replace(damaged.segments[at], log=damaged.segments[at].log[: refused.position])
    expected += check_dropped(cut, _MAX_OFFSET if limits[at] is None else limits[at], reports, is_refused=True)
    for outcome, mode in ((dropping, "DROPMALFORMED"), (failing, "FAILFAST")):
        if outcome.error is None or outcome.rows != expected[: len(outcome.rows)]:
            raise ViolationError(f"{mode}, before a newer format: {_difference(outcome.rows, expected)}")
    return dropping.rows


def _is_newer(data: bytes, position: int) -> bool:
    """Whether a whole batch under a right CRC stands there, of a magic or codec that is not read."""
    magic = data[position + 16]
    (length,) = struct.unpack_from(">i", data, position + 8)
    batch = data[position : position + 12 + length]
    if len(batch) != 12 + length:
        return False
    if magic <= 2:
        codec = batch[22 if magic == 2 else 17] & 7
        return codec > (4 if magic == 2 else 3) and crc_holds(batch)
    is_flip = (magic ^ 2).bit_count() == 1 and magic != 3
    return length >= 49 and magic < 128 and not is_flip and crc_holds(batch[:16] + b"\2" + batch[17:])


def check_contents(original: Seed, rows: Sequence[Row], *, may_repeat: bool) -> None:
    """Statement 4: apart from offset, topic and partition, every row is one of the original rows, and no more often,
    unless they may repeat."""
    real = _real_contents(original)
    for contents, count in Counter(_contents(row) for row in rows).items():
        if not real[contents] or (count > real[contents] and not may_repeat):
            raise ViolationError(f"no such row was ever written, or not so often: {contents}")


@cache
def _real_contents(original: Seed) -> Counter[tuple[object, ...]]:
    return Counter(map(_contents, real_rows(original)))


def real_rows(original: Seed) -> list[Row]:
    """The rows of a log without damage."""
    return [row for segment in original.segments for row in _real_rows(segment)]


@cache
def _real_rows(segment: RealSegment) -> list[Row]:
    return decoded(naive.decode_log(segment.log), TOPIC, PARTITION)


def _contents(row: Row) -> tuple[object, ...]:
    return (*row[OFFSET + 1 : -1], None if row[-1] is None else tuple(row[-1]))


def _difference(found: Sequence[Row], expected: Sequence[Row]) -> str:
    at = next(
        (i for i, (a, b) in enumerate(zip(found, expected, strict=False)) if a != b), min(len(found), len(expected))
    )
    return f"{len(found)} rows, expected {len(expected)}; row {at} is {found[at : at + 1]}, expected {expected[at : at + 1]}"
