"""Kernels: Python functions over flat arrays that run as machine code.

numba makes the code once per machine, and it is kept on disk (`machine_code.py`). A process that finds it there does
not load numba. With NUMBA_DISABLE_JIT=1 the functions themselves run. With NUMBA_BOUNDSCHECK=1 numba runs them and
checks each index. Both are for tests.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import update_wrapper
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])

_helpers: dict[Callable[..., Any], bool] = {}
"""The functions that kernels call, and whether each one becomes a part of its caller."""


class Kernel:
    """A function that is called as machine code.

    function: as it is written.
    signature: its types, as numba writes them: "int64(uint8[::1], int64)". An array must have exactly the type of its
    parameter, and `::1` asks for contiguous rows.
    is_short: whether it takes microseconds alone. Then it keeps Python's lock, as another thread would need longer to
    take it and to give it back.
    """

    def __init__(self, function: Callable[..., Any], signature: str, is_short: bool = False) -> None:
        self.function = function
        self.signature = signature
        self.is_short = is_short
        self._run: Callable[..., Any] | None = None
        update_wrapper(self, function)

    def __call__(self, *arguments: Any) -> Any:
        if self._run is None:
            self._run = self._find()
        return self._run(*arguments)

    def _find(self) -> Callable[..., Any]:
        if _is_set("NUMBA_DISABLE_JIT"):
            return self.function
        if _is_set("NUMBA_BOUNDSCHECK"):
            from kafka_segment_source.kernels.compiler import compile_for_numba  # noqa: PLC0415  # it loads numba

            return compile_for_numba(self.function, self.signature, _helpers, keeps_code=True)
        from kafka_segment_source.kernels.machine_code import find_code  # noqa: PLC0415  # it loads llvmlite

        return find_code(self.function, self.signature, _helpers, self.is_short)


def kernel(signature: str, is_short: bool = False) -> Callable[[F], F]:
    """Makes a kernel of a function. The arguments are those of `Kernel`."""

    def make_kernel(function: F) -> F:
        return Kernel(function, signature, is_short)  # type: ignore[return-value]  # it is called in the same way

    return make_kernel


def inline(function: F) -> F:
    """Marks a helper that becomes a part of each kernel that calls it. Otherwise LLVM decides, and numba would return
    several values by memory: the kernel that finds records took 1.6 times as long."""
    _helpers[function] = True
    return function


def helper(function: F) -> F:
    """Marks a helper with a long loop of its own, which kernels call."""
    _helpers[function] = False
    return function


def _is_set(variable: str) -> bool:
    return os.environ.get(variable, "").strip() not in ("", "0")
