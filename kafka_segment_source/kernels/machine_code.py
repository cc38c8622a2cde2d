"""Machine code of kernels: kept on disk, and loaded by llvmlite without numba.

A file holds one kernel, for one state of the sources, one numba and one processor. Files lie beside this module, or
else in the user's cache directory, or else in a private temporary directory. NUMBA_CACHE_DIR names another place.
Workers that start together take turns: the first one compiles, and the others load.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import struct
import tempfile
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import llvmlite
import numpy as np
from llvmlite import binding

from kafka_segment_source.kernels.parameters import Parameter, parse_signature
from kafka_segment_source.storage.private import make_private_directory

try:
    import fcntl
except ImportError:  # a system without file locks
    fcntl = None  # type: ignore[assignment]

Function = Callable[..., Any]

_DONE = (0, -2)  # a status of numba: a value, or None
_DIGEST = hashlib.sha256().digest_size

COMPILED: list[str] = []
"""The kernels that this process has compiled, as they were not on the disk."""

_lock = threading.Lock()
_engines: list[Any] = []  # they own the code


def _renew_lock() -> None:
    """Makes a free lock in a process that was forked while a thread held it."""
    global _lock  # noqa: PLW0603
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_renew_lock)


def find_code(function: Function, signature: str, helpers: dict[Function, bool], is_short: bool) -> Function:
    """Returns the machine code of a kernel, to be called as its function is.

    signature, is_short: as `jit.kernel` takes them. helpers: what kernels call.
    """
    with _lock:
        parameters = parse_signature(signature)
        directory = _find_directory()
        path = directory / f"{function.__name__}-{_digest(function.__code__.co_filename)}.o"
        stored = _read(path)
        if stored is None:
            with _in_turn():
                stored = _read(path) or _compile(function, signature, helpers, parameters, path)
        if stored is None:
            from kafka_segment_source.kernels.compiler import compile_for_numba  # noqa: PLC0415  # it loads numba

            return compile_for_numba(function, signature, helpers, keeps_code=False)
        return _make_caller(_load(*stored), parameters, is_short)


def _make_caller(address: int, parameters: list[Parameter], is_short: bool) -> Function:
    # CFUNCTYPE lets other threads run Python meanwhile
    make_type = ctypes.PYFUNCTYPE if is_short else ctypes.CFUNCTYPE
    function = make_type(ctypes.c_int32, ctypes.c_char_p, ctypes.c_void_p)(address)
    adds = [parameter.add for parameter in parameters]
    pack = struct.Struct(f"={sum(parameter.crossing for parameter in parameters)}q").pack

    def call(*arguments: Any) -> int:
        values: list[Any] = []
        for add, argument in zip(adds, arguments, strict=True):
            add(argument, values)
        result = ctypes.c_int64()
        status = function(pack(*values), ctypes.byref(result))
        if status not in _DONE:
            raise RuntimeError(f"a kernel has failed with status {status}")
        return result.value

    return call


def _load(symbol: str, code: bytes) -> int:
    """Loads an object file into this process. Returns the address of its function."""
    engine = binding.create_mcjit_compiler(binding.parse_assembly(""), _find_machine())
    engine.add_object_file(binding.ObjectFileRef.from_data(code))
    engine.finalize_object()
    _engines.append(engine)
    return int(engine.get_function_address(symbol))


def _find_machine() -> Any:
    """Returns LLVM's description of this processor."""
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    target = binding.Target.from_default_triple()
    return target.create_target_machine(
        cpu=binding.get_host_cpu_name(),
        features=binding.get_host_cpu_features().flatten(),
        opt=3,
        reloc="default",
        codemodel="jitdefault",
        jit=True,
    )


# ---- the files ----


def _compile(
    function: Function, signature: str, helpers: dict[Function, bool], parameters: list[Parameter], path: Path
) -> tuple[str, bytes] | None:
    from kafka_segment_source.kernels.compiler import compile_kernel  # noqa: PLC0415  # it loads numba

    made = compile_kernel(function, signature, helpers, parameters, _find_machine())
    COMPILED.append(function.__name__)
    if made is not None:
        _write(path, *made)
    return made


def _read(path: Path) -> tuple[str, bytes] | None:
    """Returns a symbol and its code. None if there is no such file, or if it is damaged."""
    try:
        data = path.read_bytes()
    except OSError:
        return None
    digest, content = data[:_DIGEST], data[_DIGEST:]
    if hashlib.sha256(content).digest() != digest:
        return None
    symbol, _, code = content.partition(b"\n")
    return symbol.decode(), code


def _write(path: Path, symbol: str, code: bytes) -> None:
    content = symbol.encode() + b"\n" + code
    temporary = path.with_name(f"{path.name}.{uuid.uuid4().hex}")
    with suppress(OSError):  # the next process compiles again
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_bytes(hashlib.sha256(content).digest() + content)
        temporary.replace(path)


@cache
def _digest(source: str | Path) -> str:
    """Returns what the code of a source file depends on, as one short text."""
    digest = _digest_surroundings().copy()
    digest.update(Path(source).read_bytes())
    return str(digest.hexdigest()[:16])


@cache
def _digest_surroundings() -> Any:
    """Returns the hash of what the code of any kernel depends on."""
    folder = Path(__file__).parent
    files = [*sorted(folder.glob("*.py")), folder.parent / "kafka_format.py"]
    numba = find_spec("numba")
    if numba is not None and numba.origin is not None:
        files.append(Path(numba.origin).with_name("_version.py"))
    parts = [path.read_bytes() for path in files if path.exists()]
    processor = f"{binding.get_host_cpu_name()} {binding.get_host_cpu_features().flatten()}"
    parts += [text.encode() for text in (llvmlite.__version__, np.__version__, processor, "")]
    return hashlib.sha256(b"\0".join(parts))


@cache
def _find_directory() -> Path:
    given = os.environ.get("NUMBA_CACHE_DIR")
    if given:
        return Path(given)
    beside = Path(__file__).parent / "__pycache__"
    if _is_writable(beside):
        return beside
    with suppress(RuntimeError):  # an account without a home
        cache_directory = Path.home() / ".cache"
        if _is_writable(cache_directory):
            return cache_directory / "kafkaseg"
    return _PRIVATE or Path(tempfile.mkdtemp(prefix="kafkaseg-kernels-"))


def _is_writable(directory: Path) -> bool:
    while not directory.exists():
        directory = directory.parent
    return os.access(directory, os.W_OK | os.X_OK)


_PRIVATE = make_private_directory("kafkaseg-kernels")


@contextmanager
def _in_turn() -> Iterator[None]:
    """Waits until no other process of this user compiles. Without a directory, or a lock in it, it does not wait."""
    if _PRIVATE is None or fcntl is None:
        yield
        return
    with open(_PRIVATE / "lock", "w", encoding="ascii") as lock:
        with suppress(OSError):  # some file systems have no locks: several processes then compile the same
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield
