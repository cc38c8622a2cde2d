"""Compiles kernels by numba. This is the only module that imports numba, which takes most of a second."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import Any

import numba
from llvmlite import binding
from numba import types
from numba.core import cgutils
from numba.core.types import ExternalFunction
from numba.extending import intrinsic, overload, register_jitable

from kafka_segment_source.kernels import system_calls

Function = Callable[..., Any]

_known: set[Function] = set()  # helpers that numba knows

_SYSTEM_FUNCTIONS = {"memcpy", "memmove", "memset", "pread"}
"""What machine code may call by name: every process has these."""


def compile_kernel(
    function: Function, signature: str, helpers: Iterable[Function], parameters: Sequence[str], machine: Any
) -> tuple[str, bytes] | None:
    """Returns the name of a function that calls a kernel, and the object file that holds both.

    In C, it is `int32_t run_kernel(const int64_t *values, void *result)`. It returns numba's status.

    None if another process could not call it: if it needs more than the C library, or if its parameters are not these.

    signature: as `jit.kernel` takes it. helpers: what kernels call. parameters: LLVM's types of the values. machine:
    llvmlite's TargetMachine.
    """
    _teach_numba(helpers)
    # Reference counts, and wrappers for Python and C, need numba's runtime.
    compiled = numba.njit(signature, nogil=True, _nrt=False, no_cpython_wrapper=True, no_cfunc_wrapper=True)(function)
    [text] = compiled.inspect_llvm().values()
    module = binding.parse_assembly(text)
    functions = list(module.functions)
    needed = {each.name for each in functions if each.is_declaration and not each.name.startswith("llvm.")}
    defined = [each for each in functions if not each.is_declaration and each.linkage is binding.Linkage.external]
    if len(defined) != 1 or needed - _SYSTEM_FUNCTIONS:
        return None
    [made] = defined
    found = [str(each.type) for each in made.arguments]
    if found != ["ptr", "ptr", *parameters] or not re.search(r"^define [^@]*\bi32 @", text, re.MULTILINE):
        return None
    return _RUN, machine.emit_object(binding.parse_assembly(text + _make_run(made.name, parameters)))


_RUN = "run_kernel"


def _make_run(kernel: str, parameters: Sequence[str]) -> str:
    """Returns a function in LLVM's language that calls a kernel with values from an array."""
    lines = [f"define i32 @{_RUN}(ptr %values, ptr %result) {{", "%exception = alloca ptr"]
    for n, kind in enumerate(parameters):
        lines += [f"%at{n} = getelementptr i64, ptr %values, i64 {n}", f"%v{n} = load {kind}, ptr %at{n}"]
    arguments = ", ".join(f"{kind} %v{n}" for n, kind in enumerate(parameters))
    lines += [f'%status = call i32 @"{kernel}"(ptr %result, ptr %exception, {arguments})', "ret i32 %status", "}"]
    return "\n".join(lines)


def compile_for_numba(function: Function, signature: str, helpers: Iterable[Function], keeps_code: bool) -> Function:
    """Returns a kernel that numba itself calls.

    keeps_code: whether numba keeps the code on disk. It raises where it finds no place for that.
    """
    _teach_numba(helpers)
    return numba.njit(signature, nogil=True, cache=keeps_code)(function)  # type: ignore[no-any-return]  # numba is untyped


def _teach_numba(helpers: Iterable[Function]) -> None:
    """Tells numba of what kernels call."""
    for helper in helpers:
        if helper not in _known:
            register_jitable(helper)
            _known.add(helper)
    _teach_system_calls()


@cache
def _teach_system_calls() -> None:
    @overload(system_calls.copy_bytes)
    def copy(dst, dst_at, src, src_at, count):
        return lambda dst, dst_at, src, src_at, count: _copy_bytes(dst, dst_at, src, src_at, count)  # noqa: PLW0108

    @overload(system_calls.read_file)
    def read(descriptor, target, count, position):
        return lambda descriptor, target, count, position: _pread(descriptor, target.ctypes.data, count, position)


_pread = ExternalFunction("pread", types.int64(types.int32, types.uintp, types.uintp, types.int64))


@intrinsic
def _copy_bytes(typingctx, dst, dst_at, src, src_at, count):
    """Does what `system_calls.copy_bytes` does, as one memcpy. It has six times the speed of a loop."""
    signature = types.void(dst, types.int64, src, types.int64, types.int64)

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        to = context.make_array(sig.args[0])(context, builder, args[0]).data
        frm = context.make_array(sig.args[2])(context, builder, args[2]).data
        to = builder.gep(to, [args[1]])
        frm = builder.gep(frm, [args[3]])
        cgutils.raw_memcpy(builder, to, frm, args[4], 1)
        return context.get_dummy_value()

    return signature, codegen
