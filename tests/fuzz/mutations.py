"""From a number to a damaged log: the same number always gives the same damage.

Some damage is blind (bits, bytes, ranges), some knows the format and makes every CRC good again afterwards, so that it
reaches the kernels, the decompressors and what they allocate.
"""

from __future__ import annotations

import random
import struct
import zlib
from collections.abc import Callable
from dataclasses import dataclass, replace

from tests.fuzz.corpus import RealSegment, Seed, seeds
from tests.support import naive, writer

EXTREMES = (0, 1, -1, 2, 7, 12, 13, 14, 49, 127, 255, 2**15, 2**16, 2**24, 2**28, 2**31 - 1, -(2**31), 2**31 - 12, -2)
"""Numbers that lengths, counts and offsets go wrong at."""

_CODECS: dict[str, writer.Codec] = {"gzip": "gzip", "snappy": "snappy-xerial", "lz4": "lz4", "zstd": "zstd"}


@dataclass(frozen=True)
class Case:
    """One damaged log.

    crcs_are_right: whether the damage may lie under a CRC that was made right again.
    may_repeat: whether a batch may stand there twice, with two offsets. No CRC covers these.
    """

    number: int
    seed: Seed
    damaged: Seed
    what: str
    crcs_are_right: bool
    may_repeat: bool

    @property
    def log_changed(self) -> bool:
        """Whether a `.log` was damaged, and not only an index file."""
        return [segment.log for segment in self.seed.segments] != [segment.log for segment in self.damaged.segments]


def case(number: int) -> Case:
    """The damage of that number."""
    rng = random.Random(number)
    seed = rng.choice(seeds())
    at = rng.randrange(len(seed.segments))
    segment = seed.segments[at]
    names = []
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        name = rng.choice(list(_WEIGHTED))
        names.append(name)
        segment = _MUTATIONS[name](rng, segment)
    crcs_are_right = any(name in _MAKES_CRCS_RIGHT for name in names)
    may_repeat = bool(_REPEAT.intersection(names) and _CHANGE_OFFSETS.intersection(names))
    what = f"{seed.name}[{at}] {'+'.join(names)}"
    return Case(number, seed, seed.with_segment(at, segment), what, crcs_are_right, may_repeat)


# --- blind damage ----------------------------------------------------------------------------------------------------


def _flip(rng: random.Random, data: bytes) -> bytes:
    if not data:
        return data
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 8))):
        changed[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def _overwrite(rng: random.Random, data: bytes) -> bytes:
    start, end = _range(rng, len(data), 64)
    fill = rng.choice((b"\x00", b"\xff", b"\x80", None))
    new = rng.randbytes(end - start) if fill is None else fill * (end - start)
    return data[:start] + new + data[end:]


def _truncate(rng: random.Random, data: bytes) -> bytes:
    return data[: rng.randrange(len(data) + 1)]


def _zero_tail(rng: random.Random, data: bytes) -> bytes:
    end = rng.randrange(len(data) + 1)
    return data[:end] + bytes(rng.choice((len(data) - end, 1, 16, 17, 3000)))


def _insert(rng: random.Random, data: bytes) -> bytes:
    at = rng.randrange(len(data) + 1)
    return data[:at] + rng.choice((rng.randbytes(rng.randrange(1, 40)), bytes(rng.randrange(1, 40)))) + data[at:]


def _remove(rng: random.Random, data: bytes) -> bytes:
    start, end = _range(rng, len(data), len(data))
    return data[:start] + data[end:]


def _duplicate(rng: random.Random, data: bytes) -> bytes:
    start, end = _range(rng, len(data), len(data))
    return data[:end] + data[start:end] + data[end:]


def _swap(rng: random.Random, data: bytes) -> bytes:
    a, b, c, d = sorted(rng.randrange(len(data) + 1) for _ in range(4))
    return data[:a] + data[c:d] + data[b:c] + data[a:b] + data[d:]


def _range(rng: random.Random, size: int, most: int) -> tuple[int, int]:
    start = rng.randrange(size + 1)
    return start, min(size, start + rng.randrange(1, most + 2))


# --- damage to whole batches -----------------------------------------------------------------------------------------


def _entries(data: bytes) -> list[bytes]:
    """The entries that a walk by lengths finds; what follows the last whole one is an entry of its own."""
    entries, at = [], 0
    while len(data) - at >= 12:
        (length,) = struct.unpack_from(">i", data, at + 8)
        if length < 0 or length + 12 > len(data) - at:
            break
        entries.append(data[at : at + 12 + length])
        at += 12 + length
    return [*entries, data[at:]] if at < len(data) else entries


def _shuffle_batches(rng: random.Random, data: bytes) -> bytes:
    entries = _entries(data)
    if not entries:
        return data
    i, j = rng.randrange(len(entries)), rng.randrange(len(entries))
    how = rng.choice(("swap", "remove", "repeat"))
    if how == "swap":
        entries[i], entries[j] = entries[j], entries[i]
    elif how == "remove":
        del entries[i]
    else:
        entries.insert(j, entries[i])
    return b"".join(entries)


def _foreign_batch(rng: random.Random, data: bytes) -> bytes:
    """A batch of another log put in, its offset such that it may fit."""
    entries = _entries(data)
    other = rng.choice(_entries(rng.choice(seeds()).segments[0].log))
    at = rng.randrange(len(entries) + 1)
    base = struct.unpack(">q", entries[at][:8])[0] if at < len(entries) and len(entries[at]) >= 8 else 10**6
    moved = struct.pack(">q", (base + rng.choice((-1, 0, 1, 5))) & (2**63 - 1)) + other[8:]
    return b"".join([*entries[:at], moved, *entries[at:]])


# --- damage under a right CRC ----------------------------------------------------------------------------------------

_V2_FIELDS = {21: "h", 23: "i", 27: "q", 35: "q", 43: "q", 51: "h", 53: "i", 57: "i"}
_OUTER_FIELDS = {0: "q", 8: "i", 12: "i", 16: "b"}


def _field(rng: random.Random, data: bytes) -> bytes:
    """One header field of one batch made extreme; its CRC as it was, since these lie outside of it."""
    return _one_entry(rng, data, lambda entry: _put(rng, entry, *rng.choice(list(_OUTER_FIELDS.items()))))


def _checked_field(rng: random.Random, data: bytes) -> bytes:
    """One field under the CRC made extreme, the CRC made right."""

    def change(entry: bytes) -> bytes:
        if len(entry) > 60 and entry[16] == 2:
            return _with_right_crc(_put(rng, entry, *rng.choice(list(_V2_FIELDS.items()))))
        return _with_right_crc(_put(rng, entry, rng.randrange(16, max(17, min(len(entry) - 4, 34))), rng.choice("bhi")))

    return _one_entry(rng, data, change)


def _checked_bytes(rng: random.Random, data: bytes) -> bytes:
    """Blind damage to what one batch stores, its CRC and length made right: compressed blocks reach their library."""

    def change(entry: bytes) -> bytes:
        head = 61 if len(entry) > 61 and entry[16] == 2 else 16
        blind = rng.choice((_flip, _flip, _overwrite, _truncate, _insert, _remove, _duplicate))
        return _with_right_crc(_with_right_length(entry[:head] + blind(rng, entry[head:])))

    return _one_entry(rng, data, change)


def _plain_records(rng: random.Random, data: bytes) -> bytes:
    """Damage to what one batch holds once unpacked, packed again with lengths and CRCs made right."""

    def change(entry: bytes) -> bytes:
        try:
            return _repacked_v2(rng, entry) if entry[16] == 2 else _repacked_set(rng, entry)
        except (naive.NaiveError, struct.error, IndexError):
            return entry  # damaged before, by another mutation

    return _one_entry(rng, data, change)


def _repacked_v2(rng: random.Random, entry: bytes) -> bytes:
    codec = naive.CODECS.get(entry[22] & 7, "none")
    plain = _damaged_plain(rng, naive.decompress(codec, entry[61:]))
    return _with_right_crc(_with_right_length(entry[:61] + writer.compress(_CODECS.get(codec, "none"), plain)))


def _repacked_set(rng: random.Random, entry: bytes) -> bytes:
    codec = naive.CODECS.get(entry[17] & 7, "none")
    value_at = 18 + (8 if entry[16] == 1 else 0) + 8
    if codec == "none" or entry[value_at - 8 : value_at - 4] != b"\xff\xff\xff\xff":
        return _with_right_crc(entry[:16] + _damaged_plain(rng, entry[16:])[: len(entry) - 16])
    plain = naive.decompress(codec, entry[value_at:], any_lz4_checksum=entry[16] == 0)
    plain = _damaged_plain(rng, plain)
    if rng.random() < 0.7:
        plain = b"".join(_with_right_crc(inner) for inner in _entries(plain))
    value = writer.compress(_CODECS[codec], plain)
    return _with_right_crc(_with_right_length(entry[: value_at - 4] + struct.pack(">i", len(value)) + value))


def _damaged_plain(rng: random.Random, plain: bytes) -> bytes:
    if rng.random() < 0.4 and plain:  # a number where a length, delta or count may be
        number = writer.varint(rng.choice(EXTREMES)) if rng.random() < 0.5 else struct.pack(">i", rng.choice(EXTREMES))
        at = rng.randrange(len(plain))
        return plain[:at] + number + plain[at + rng.choice((0, 1, len(number))) :]
    blind = rng.choice((_flip, _flip, _overwrite, _truncate, _insert, _remove, _duplicate, _swap))
    return blind(rng, plain)


def _one_entry(rng: random.Random, data: bytes, change: Callable[[bytes], bytes]) -> bytes:
    entries = _entries(data)
    whole = [at for at, entry in enumerate(entries) if len(entry) >= 26]
    if not whole:
        return data
    at = rng.choice(whole)
    entries[at] = change(entries[at])
    return b"".join(entries)


def _put(rng: random.Random, entry: bytes, at: int, form: str) -> bytes:
    size = struct.calcsize(">" + form)
    (old,) = struct.unpack_from(">" + form, entry, at)
    near = old + rng.choice((-1000, -12, -2, -1, 1, 2, 12, 1000))
    far = rng.choice(EXTREMES) << rng.choice((0, 0, 32))
    number = rng.choice((near, far, old ^ (1 << rng.randrange(8 * size))))
    bits = 8 * size
    wrapped = (number + 2 ** (bits - 1)) % 2**bits - 2 ** (bits - 1)
    return entry[:at] + struct.pack(">" + form, wrapped) + entry[at + size :]


def _with_right_length(entry: bytes) -> bytes:
    return entry[:8] + struct.pack(">i", len(entry) - 12) + entry[12:]


def _with_right_crc(entry: bytes) -> bytes:
    if len(entry) < 17:
        return entry
    if entry[16] == 2:
        return writer.with_right_crc(entry)
    return entry[:12] + struct.pack(">I", zlib.crc32(entry[16:])) + entry[16:]


# --- index files -----------------------------------------------------------------------------------------------------


def _index(rng: random.Random, segment: RealSegment) -> RealSegment:
    """Any damage to an index file, lies included; a time index only with damage that can be seen (see `damage.py`)."""
    data = segment.index or b""
    how = rng.choice((_flip, _overwrite, _truncate, _zero_tail, _insert, _remove, _duplicate, _swap, None))
    return replace(segment, index=rng.randbytes(rng.randrange(200)) if how is None else how(rng, data))


def _time_index(rng: random.Random, segment: RealSegment) -> RealSegment:
    data = segment.timeindex or b""
    how = rng.choice((_truncate, _zero_tail, _flip, _overwrite, _insert))
    return replace(segment, timeindex=how(rng, data))


def _log(mutate: Callable[[random.Random, bytes], bytes]) -> Callable[[random.Random, RealSegment], RealSegment]:
    return lambda rng, segment: replace(segment, log=mutate(rng, segment.log))


_MUTATIONS: dict[str, Callable[[random.Random, RealSegment], RealSegment]] = {
    "flip": _log(_flip),
    "overwrite": _log(_overwrite),
    "truncate": _log(_truncate),
    "zero tail": _log(_zero_tail),
    "insert": _log(_insert),
    "remove": _log(_remove),
    "duplicate": _log(_duplicate),
    "swap": _log(_swap),
    "batches": _log(_shuffle_batches),
    "foreign batch": _log(_foreign_batch),
    "outer field": _log(_field),
    "field": _log(_checked_field),
    "stored bytes": _log(_checked_bytes),
    "plain records": _log(_plain_records),
    "index": _index,
    "time index": _time_index,
}
_REPEAT = frozenset({"batches", "duplicate"})
_CHANGE_OFFSETS = frozenset({"outer field", "flip", "overwrite"})
_MAKES_CRCS_RIGHT = ("field", "stored bytes", "plain records", "foreign batch")
_WEIGHTED = [*_MUTATIONS, "flip", "flip", "field", "stored bytes", "stored bytes", *["plain records"] * 4, "index"]
