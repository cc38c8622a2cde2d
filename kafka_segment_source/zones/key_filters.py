"""Key filters: for each zone of a segment, which keys it may hold, and the files that keep them.

A filter is a split block Bloom filter as in Parquet (BloomFilter.md): blocks of 256 bits, and xxHash64 of the key's
bytes. It may say "perhaps" of a key that is not there, and never "no" of one that is. A null key is in no filter.

One file has the filters of the zones of one segment. Each filter names its zone by what proves a zone: offsets,
positions and CRCs of its first and last batch (`identify`). So a filter counts for a zone of a map only if both are of
the same batches, and the map's proof is the filter's too (`pruning.py`).

The file, all numbers little-endian:

    KSEGKEYS, uint32 version, uint32 number of zones
    uint64 of each zone: its identity
    uint32 of each zone: the blocks of its filter; 0: it has no keys; NO_FILTER: it may hold any key
    uint64: xxHash64 of all before
    for each number of blocks n > 0, from the least on, and each block from 0 to n - 1:
        the block of this number of each zone with n blocks, and the lower uint32 of the row's xxHash64

The seed of a row's hash is the header's, plus the row's position. A look-up reads the header and one row for each key
and n: about 32 bytes of a zone, and not its whole filter.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import xxhash

from kafka_segment_source import kafka_format
from kafka_segment_source.storage.files import UNUSABLE, InputFile
from kafka_segment_source.storage.paths import join_path
from kafka_segment_source.storage.store import FileVersion, Storage
from kafka_segment_source.zones import zone_table
from kafka_segment_source.zones.zone_table import ZoneTable

Blocks = npt.NDArray[np.uint32]
"""A filter: uint32[blocks, 8]. With no blocks it holds no key."""

ZoneFilter = tuple[int, Blocks | None]
"""The identity of a zone, and its filter. None: the zone may hold any key."""

NO_FILTER = 2**32 - 1
WORDS = 8
SUFFIX = ".keys"
_SALT = np.array(
    [0x47B6137B, 0x44974D91, 0x8824AD5B, 0xA2B7289D, 0x705495C7, 0x2DF1424B, 0x9EFC4947, 0x5C6BFB31], np.uint64
)
_MAGIC, _VERSION = b"KSEGKEYS", 1
_HEAD = struct.Struct("<8sII")
_BLOCK = 4 * WORDS  # bytes
_CHECKSUM = 4
_MOST_ZONES = 2**20  # zones of 256 KiB in 256 GiB
_FIRST_READ = 4096
_IDENTITY = [
    zone_table.SEGMENT,
    zone_table.START,
    zone_table.END,
    zone_table.FIRST_OFFSET,
    zone_table.LAST_OFFSET,
    zone_table.RECORDS,
    zone_table.FIRST_CRC,
    zone_table.LAST_POSITION,
    zone_table.LAST_CRC,
    zone_table.LAST_EPOCH,
]

ReadAt = Callable[[int, int], bytes]


def filters_directory(zone_map_path: str) -> str:
    """Returns the directory of a partition's key filters: beside its zone map."""
    return zone_map_path.removesuffix(".parquet") + SUFFIX


def filter_path(directory: str, base_offset: int) -> str:
    """Returns the file of one segment's key filters."""
    return join_path(directory, kafka_format.segment_file(base_offset, SUFFIX))


def identify(zones: ZoneTable) -> list[int]:
    """Returns a number for each zone that only a zone of the same batches has: xxHash64 of what proves it."""
    data = np.ascontiguousarray(zones[_IDENTITY].T).astype("<i8").tobytes()
    width = 8 * len(_IDENTITY)
    return [xxhash.xxh64_intdigest(data[at : at + width]) for at in range(0, len(data), width)]


def to_bytes(filters: Sequence[ZoneFilter]) -> bytes:
    """Returns the bytes of the file of some filters."""
    counts = np.array([NO_FILTER if blocks is None else len(blocks) for _, blocks in filters], "<u4")
    identities = np.array([identity for identity, _ in filters], "<u8")
    head = _HEAD.pack(_MAGIC, _VERSION, len(filters)) + identities.tobytes() + counts.tobytes()
    seed = xxhash.xxh64_intdigest(head)
    parts = [head, seed.to_bytes(8, "little")]
    at = len(head) + 8
    for group in _group(counts, at):
        several = [blocks for blocks in (filters[zone][1] for zone in group.zones.tolist()) if blocks is not None]
        rows = np.stack(several, axis=1).astype("<u4")  # [block, zone, word]
        for row in rows:
            data = row.tobytes()
            parts += [data, _checksum(data, seed, at).to_bytes(_CHECKSUM, "little")]
            at += group.row_bytes
    return b"".join(parts)


def _checksum(row: bytes, seed: int, position: int) -> int:
    return xxhash.xxh64_intdigest(row, (seed + position) % 2**64) % 2**32


class _Group(NamedTuple):
    """The zones whose filters have the same number of blocks, by their number in the file.

    start: byte position of their first row.
    """

    blocks: int
    zones: npt.NDArray[np.int64]
    start: int

    @property
    def row_bytes(self) -> int:
        return len(self.zones) * _BLOCK + _CHECKSUM

    @property
    def end(self) -> int:
        return self.start + self.blocks * self.row_bytes


def _group(counts: npt.NDArray[np.uint32], start: int) -> list[_Group]:
    if len(counts) == 1:  # a small segment: arrays would take longer
        number = int(counts[0])
        return [_Group(number, np.zeros(1, np.int64), start)] if 0 < number < NO_FILTER else []
    groups = []
    for number in np.unique(counts).tolist():
        if 0 < number < NO_FILTER:
            groups.append(_Group(number, np.flatnonzero(counts == number), start))
            start = groups[-1].end
    return groups


class KeyQuery:
    """Some keys, as filters are asked for them. hashes: of the keys."""

    def __init__(self, keys: Iterable[bytes]) -> None:
        self.hashes = [xxhash.xxh64_intdigest(key) for key in keys]
        low = np.array([number % 2**32 for number in self.hashes], np.uint64)
        bits = ((low[:, None] * _SALT) & np.uint64(2**32 - 1)) >> np.uint64(27)
        self._masks = (np.uint64(1) << bits).astype("<u4")
        self._numbers = [int.from_bytes(mask.tobytes(), "little") for mask in self._masks]

    def by_block(self, blocks: int) -> dict[int, list[int]]:
        """Returns the blocks that the keys fall into, of a filter of so many, and the numbers of their keys."""
        blocks_of: dict[int, list[int]] = {}
        for number, hashed in enumerate(self.hashes):
            blocks_of.setdefault((hashed >> 32) * blocks >> 32, []).append(number)
        return blocks_of

    def may_hold(self, row: bytes, numbers: Iterable[int]) -> npt.NDArray[np.bool_]:
        """Returns which filters may hold one of some keys, by the block of each filter that the keys fall into."""
        if len(row) == _BLOCK:
            whole = int.from_bytes(row, "little")
            return np.array(
                [any(whole & self._numbers[number] == self._numbers[number] for number in numbers)], np.bool_
            )
        stored = np.frombuffer(row, "<u4").reshape(-1, WORDS)
        holding = np.zeros(len(stored), np.bool_)
        for number in numbers:
            holding |= ((stored & self._masks[number]) == self._masks[number]).all(axis=1)
        return holding


@dataclass(frozen=True, slots=True)
class FilterFile:
    """The header of an open file of key filters.

    identities: of its zones.
    counts: the blocks of each zone's filter.
    read_at: reads bytes of the file, at a position.
    """

    identities: list[int]
    counts: npt.NDArray[np.uint32]
    seed: int
    groups: list[_Group]
    read_at: ReadAt

    def may_hold(self, query: KeyQuery) -> npt.NDArray[np.bool_]:
        """Returns which zones may hold one of some keys. Raises ValueError for a damaged file."""
        holding: npt.NDArray[np.bool_] = self.counts == NO_FILTER
        for group in self.groups:
            for block, numbers in query.by_block(group.blocks).items():
                row = self._read_row(group, block)
                holding[group.zones] |= query.may_hold(row, numbers)
        return holding

    def filters(self) -> dict[int, Blocks | None]:
        """Returns all filters, by the identity of their zone. Raises ValueError for a damaged file."""
        filters: dict[int, Blocks | None] = {
            identity: None if count == NO_FILTER else np.zeros((0, WORDS), np.uint32)
            for identity, count in zip(self.identities, self.counts.tolist(), strict=True)
        }
        for group in self.groups:
            rows = [np.frombuffer(self._read_row(group, block), "<u4") for block in range(group.blocks)]
            several = np.stack(rows).reshape(group.blocks, -1, WORDS).astype(np.uint32)
            for at, zone in enumerate(group.zones.tolist()):
                filters[self.identities[zone]] = several[:, at]
        return filters

    def _read_row(self, group: _Group, block: int) -> bytes:
        position = group.start + block * group.row_bytes
        data = self.read_at(position, group.row_bytes)
        row = data[:-_CHECKSUM]
        if len(data) < group.row_bytes or _checksum(row, self.seed, position) != int.from_bytes(
            data[-_CHECKSUM:], "little"
        ):
            raise ValueError(f"it is damaged at byte {position}")
        return row


def parse_header(read_at: ReadAt) -> FilterFile:
    """Reads the header of a file of key filters. Raises ValueError with the reason if it is none."""
    first = read_at(0, _FIRST_READ)
    if len(first) < _HEAD.size:
        raise ValueError(f"it is damaged: found {len(first)} bytes")
    magic, version, zones = _HEAD.unpack_from(first)
    if magic != _MAGIC:
        raise ValueError(f"it is damaged: it begins with {magic!r}, expected {_MAGIC!r}")
    if version != _VERSION:
        raise ValueError(f"found version {version}, expected {_VERSION}")
    if zones > _MOST_ZONES:
        raise ValueError(f"found {zones:,} zones, expected at most {_MOST_ZONES:,}")
    size = _HEAD.size + 12 * zones + 8
    head = first[:size] if size <= len(first) else read_at(0, size)
    seed = xxhash.xxh64_intdigest(head[:-8])
    if len(head) < size or seed != int.from_bytes(head[-8:], "little"):
        raise ValueError("it is damaged: its header has another checksum")
    identities: list[int] = np.frombuffer(head, "<u8", zones, _HEAD.size).tolist()
    counts = np.frombuffer(head, "<u4", zones, _HEAD.size + 8 * zones)

    def read_again(position: int, count: int) -> bytes:
        end = position + count
        return first[position:end] if end <= len(first) else read_at(position, count)

    return FilterFile(identities, counts, seed, _group(counts, size), read_again)


def read_filters(path: str, storage: Storage) -> dict[int, Blocks | None]:
    """Returns the filters of a file, by the identity of their zone. Raises ValueError if it cannot be used.

    Raises FileChangedError if there is no such file.
    """
    try:
        with InputFile(path, storage) as file:
            return parse_header(file.read_at).filters()
    except UNUSABLE as error:
        raise ValueError(str(error)) from error


def find_holding(
    path: str, storage: Storage, version: FileVersion, query: KeyQuery, wanted: Sequence[int]
) -> tuple[npt.NDArray[np.bool_], bool]:
    """Returns which zones may hold one of some keys, and whether each zone has a filter. A zone without one may.

    wanted: the identities of the zones. Raises ValueError if the file cannot be used, and FileChangedError if there is
    none of this version.
    """
    try:
        with InputFile(path, storage, version) as file:
            header = parse_header(file.read_at)
            may_hold = header.may_hold(query)
    except UNUSABLE as error:
        raise ValueError(str(error)) from error
    if header.identities == wanted:
        return may_hold, True
    by_identity = dict(zip(header.identities, may_hold.tolist(), strict=True))
    known = [by_identity.get(identity) for identity in wanted]
    return np.array([answer is not False for answer in known], np.bool_), None not in known
