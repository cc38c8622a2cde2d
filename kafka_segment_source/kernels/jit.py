"""Compilation of kernels: once per machine. The compiled code is kept on disk.

numba keeps it beside the module, or else in the user's cache directory. It raises where it can write neither, as in a
read-only install under an account without a home. So this module then gives numba a private temporary directory.
Workers that start together take turns: the first one compiles, and the others load the compiled code.
"""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import numba
from numba import njit

from kafka_segment_source.storage.private import make_private_directory

F = TypeVar("F", bound=Callable[..., Any])


def _writable(directory: Path) -> bool:
    while not directory.exists():
        directory = directory.parent
    return os.access(directory, os.W_OK | os.X_OK)


_PRIVATE = make_private_directory("kafkaseg-kernels")
_BESIDE = Path(__file__).parent / "__pycache__"
if not numba.config.CACHE_DIR and not _writable(_BESIDE) and not _writable(Path.home() / ".cache"):
    numba.config.CACHE_DIR = str(_PRIVATE or tempfile.mkdtemp(prefix="kafkaseg-kernels-"))


@contextmanager
def _in_turn() -> Iterator[None]:
    """Waits until no other process of this user compiles. Without a directory for the lock, it does not wait."""
    if _PRIVATE is None:
        yield
        return
    with open(_PRIVATE / "lock", "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def kernel(signature: str) -> Callable[[F], F]:
    """Compiles a function for exactly this signature and caches it on disk, or loads the compiled code from there."""

    def compile_in_turn(function: F) -> F:
        with _in_turn():
            return njit(signature, cache=True, nogil=True)(function)  # type: ignore[no-any-return]  # numba is untyped

    return compile_in_turn


def inline(function: F) -> F:
    """Compiles a helper that kernels call; LLVM inlines it."""
    return njit(function, cache=True, nogil=True)  # type: ignore[no-any-return]  # numba is untyped
