"""A pattern, and where it matches in Arrow arrays of text or bytes.

The engine is RE2, as pyarrow has it: the time of a search grows with the bytes alone, whatever the pattern is. So no
pattern can make a search hang. Lookarounds and backreferences, which RE2 does not have, are an error.
"""

from __future__ import annotations

import re

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kafka_segment_source.errors import OptionError

Mask = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]

_ASSERTION = re.compile(r"[\^$]|\\[bBAzZ]")  # it looks at bytes outside of the match
_WHOLE = "kafkaseg_match"  # the name of a group around a pattern
# a quoted text, an escape, a class of characters, or a group without a name
_TOKEN = re.compile(r"\\Q.*?(?:\\E|$)|\\.|\[\^?\]?(?:\[:\^?\w+:\]|\\.|[^\]\\])*\]|\((?!\?)", re.DOTALL)


class Pattern:
    """A regular expression, or a text (`fixed`).

    Regular expressions, and texts with `ignore_case`, see keys and values as UTF-8: `.` is a whole character, and never
    a byte that is not UTF-8. A fixed text is looked for byte by byte. Case is ignored by Unicode's simple folding.

    is_local: whether a match depends on its own bytes alone. Then what matches inside a record matches in a block of
    records too, so a block without a match needs no look at its records. text: the bytes of a fixed text, uint8[n],
    n ≥ 1; None for any other pattern.
    """

    def __init__(self, pattern: str | bytes, *, fixed: bool = False, ignore_case: bool = False) -> None:
        """Raises OptionError for a pattern that RE2 does not take. pattern: bytes only if it is `fixed`."""
        raw = pattern if isinstance(pattern, bytes) else pattern.encode("utf-8", "surrogateescape")
        self._is_text = not fixed or (ignore_case and not isinstance(pattern, bytes))
        self._ignore_case = ignore_case
        is_exact = fixed and not ignore_case
        self._size = len(raw) if is_exact else None
        self.text = np.frombuffer(bytearray(raw), np.uint8) if is_exact and raw else None
        if not self._is_text:
            self._regex = "".join(f"\\x{byte:02x}" for byte in raw)
        elif isinstance(pattern, bytes):
            raise OptionError("a pattern of bytes is a fixed text: give fixed=True")
        else:
            self._regex = re.escape(pattern) if fixed else pattern
        try:
            self.find(pa.array([b""], pa.binary()))
        except UnicodeEncodeError as error:
            raise OptionError(f"pattern {pattern!r} is not UTF-8 text") from error
        except pa.ArrowInvalid as error:
            reason = str(error).removeprefix("Invalid regular expression: ")
            raise OptionError(f"pattern {pattern!r} is not a regular expression of RE2: {reason}") from error
        self.is_local = fixed or _ASSERTION.search(self._regex) is None

    def find(self, array: pa.Array) -> Mask:
        """Returns whether each value of a binary or string array matches, as bool[n]. A null does not."""
        matches = pc.match_substring_regex(self._see(array), self._regex, ignore_case=self._ignore_case)
        mask: Mask = matches.fill_null(False).to_numpy(zero_copy_only=False)
        return mask

    def locate(self, array: pa.Array) -> tuple[Ints, Ints]:
        """Returns where the first match in each value begins, in bytes, and its length. Every value matches."""
        seen = self._see(array)
        starts = pc.find_substring_regex(seen, self._regex, ignore_case=self._ignore_case)
        first = starts.cast(pa.int64()).to_numpy(zero_copy_only=False)
        if self._size is not None:
            return first, np.full(len(array), self._size, np.int64)
        # a match is found again where it stands, as `\b` and `^` look at what lies around it; each group needs a name
        flags = "(?i)" if self._ignore_case else ""
        unnamed = _TOKEN.sub(lambda token: "(?:" if token[0] == "(" else token[0], self._regex)
        whole = pc.extract_regex(seen, f"{flags}(?P<{_WHOLE}>{unnamed})")
        sizes = pc.binary_length(pc.struct_field(whole, _WHOLE))
        return first, sizes.cast(pa.int64()).to_numpy(zero_copy_only=False)

    def _see(self, array: pa.Array) -> pa.Array:
        """Returns the array as text or as bytes, without a copy. Text is not checked: RE2 takes any bytes."""
        kind = pa.string() if self._is_text else pa.binary()
        return array if array.type == kind else array.view(kind)
