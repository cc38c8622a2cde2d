"""Bytes around a match → a short text in one line, safe on a terminal."""

from __future__ import annotations

from collections.abc import Iterator

from rich.cells import cell_len

from kafka_segment_source.cli.record_lines import escape

_MORE = "…"
_BEFORE = 3  # the part of the room that is before a match: a third
_LONGEST = 4  # bytes of a character


def cut_excerpt(text: bytes, start: int, length: int, room: int) -> tuple[str, str, str]:
    """Returns what is before a match, the match, and what is after it, cut to `room` columns. `…` is what was cut.

    Control characters and bytes that are not UTF-8 are escaped, as `cat` prints them.
    """
    match, is_whole = _fill(text[start : start + length], room)
    if not is_whole:
        return "", match, _MORE
    left = room - cell_len(match)
    head, tail = text[:start], text[start + length :]
    before, is_all = _fill(head, min(left // _BEFORE, left), from_end=True)
    left -= cell_len(before)
    if not is_all:
        before = _MORE + before
    after, is_all = _fill(tail, left)
    return before, match, after if is_all else after + _MORE


def _fill(data: bytes, room: int, from_end: bool = False) -> tuple[str, bool]:
    """Returns as many characters as fit in `room` columns, and whether these are all."""
    near = data[-(room + 1) * _LONGEST :] if from_end else data[: (room + 1) * _LONGEST]
    taken: list[str] = []
    used = 0
    for character in _characters(near, from_end):
        shown = escape(character)
        used += cell_len(shown)
        if used > room:
            return _join(taken, from_end), False
        taken.append(shown)
    return _join(taken, from_end), len(near) == len(data)


def _characters(data: bytes, from_end: bool) -> Iterator[str]:
    text = data.decode("utf-8", "surrogateescape")
    return reversed(text) if from_end else iter(text)


def _join(taken: list[str], from_end: bool) -> str:
    return "".join(reversed(taken) if from_end else taken)
