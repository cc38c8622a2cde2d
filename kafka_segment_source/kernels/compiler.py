"""Compiles kernels by numba. This is the only module that imports numba, which takes most of a second."""

from __future__ import annotations

import platform
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache, reduce
from typing import Any

import numba
from llvmlite import binding, ir
from numba import types
from numba.core import cgutils
from numba.core.types import ExternalFunction
from numba.extending import intrinsic, overload, register_jitable

from kafka_segment_source.kernels import crc32c, system_calls
from kafka_segment_source.kernels.parameters import Parameter

Function = Callable[..., Any]

_known: set[Any] = set()  # helpers that numba knows

_SYSTEM_FUNCTIONS = {"memcpy", "memmove", "memset", "pread"}
"""What machine code may call by name: every process has these."""


def compile_kernel(
    function: Function, signature: str, helpers: Mapping[Function, bool], parameters: Sequence[Parameter], machine: Any
) -> tuple[str, bytes] | None:
    """Returns the name of a function that calls a kernel, and the object file that holds both.

    In C, it is `int32_t run_kernel(const int64_t *values, void *result)`. It returns numba's status.

    None if another process could not call it: if it needs more than the C library, or if its parameters are not these.

    signature: as `jit.kernel` takes it. helpers: what kernels call. parameters: those of the signature. machine:
    llvmlite's TargetMachine.
    """
    _teach_numba(helpers)
    # Reference counts, and wrappers for Python and C, need numba's runtime.
    compiled = numba.njit(signature, nogil=True, _nrt=False, no_cpython_wrapper=True, no_cfunc_wrapper=True)(function)
    [text] = compiled.inspect_llvm().values()
    module = binding.parse_assembly(text)
    functions = list(module.functions)
    needed = {
        function.name for function in functions if function.is_declaration and not function.name.startswith("llvm.")
    }
    defined = [
        function
        for function in functions
        if not function.is_declaration and function.linkage is binding.Linkage.external
    ]
    if len(defined) != 1 or needed - _SYSTEM_FUNCTIONS:
        return None
    [made] = defined
    kinds = [str(argument.type) for argument in made.arguments]
    values, lines = _make_values(parameters)
    if kinds != ["ptr", "ptr", *(value.split()[0] for value in values)] or not re.search(
        r"^define [^@]*\bi32 @", text, re.MULTILINE
    ):
        return None
    return _RUN, machine.emit_object(binding.parse_assembly(text + _make_run(made.name, values, lines)))


_RUN = "run_kernel"


def _make_run(kernel: str, values: Sequence[str], lines: Sequence[str]) -> str:
    """Returns a function in LLVM's language that calls a kernel. values, lines: of `_make_values`."""
    call = f'%status = call i32 @"{kernel}"(ptr %result, ptr %exception, {", ".join(values)})'
    head = f"define i32 @{_RUN}(ptr %values, ptr %result) {{"
    return "\n".join([head, "%exception = alloca ptr", *lines, call, "ret i32 %status", "}"])


def _make_values(parameters: Sequence[Parameter]) -> tuple[list[str], list[str]]:
    """Returns the values of a kernel's call, each with its type, and the lines of LLVM's language that make them.

    Numba's values of an array: two of its runtime, number of elements, bytes of an element, address, shape, strides.
    """
    values: list[str] = []
    lines: list[str] = []
    loaded = 0

    def load(kind: str) -> str:
        nonlocal loaded
        name = f"%v{loaded}"
        lines.extend(
            (f"%at{loaded} = getelementptr i64, ptr %values, i64 {loaded}", f"{name} = load {kind}, ptr %at{loaded}")
        )
        loaded += 1
        return name

    def multiply(one: str, other: str) -> str:
        name = f"%p{len(lines)}"
        lines.append(f"{name} = mul i64 {one}, {other}")
        return name

    for parameter in parameters:
        if not parameter.ndim:
            values.append(f"{parameter.llvm} {load(parameter.llvm)}")
            continue
        address, shape = load("ptr"), [load("i64") for _ in range(parameter.ndim)]
        strides = [load("i64") for _ in shape if not parameter.is_contiguous]
        step = str(parameter.itemsize)
        for count in reversed(shape if parameter.is_contiguous else []):
            strides.insert(0, step)
            step = multiply(step, count)
        count = reduce(multiply, shape)
        values += ["ptr null", "ptr null", f"i64 {count}", f"i64 {parameter.itemsize}", f"ptr {address}"]
        values += [f"i64 {value}" for value in (*shape, *strides)]
    return values, lines


def compile_for_numba(
    function: Function, signature: str, helpers: Mapping[Function, bool], keeps_code: bool
) -> Function:
    """Returns a kernel that numba itself calls.

    keeps_code: whether numba keeps the code on disk. It raises where it finds no place for that.
    """
    _teach_numba(helpers)
    return numba.njit(signature, nogil=True, cache=keeps_code)(function)  # type: ignore[no-any-return]  # numba is untyped


def _teach_numba(helpers: Mapping[Function, bool]) -> None:
    """Tells numba of what kernels call. helpers: of `jit`."""
    _teach_system_calls()
    of_crcs: dict[Function, bool] = dict.fromkeys(crc32c.HELPERS, True)
    for helper, is_inline in (of_crcs | dict(helpers)).items():
        if helper not in _known:
            register_jitable(forceinline=is_inline)(helper)
            _known.add(helper)


@cache
def _teach_system_calls() -> None:
    @overload(system_calls.copy_bytes)
    def copy(dst, dst_at, src, src_at, count):
        return lambda dst, dst_at, src, src_at, count: _copy_bytes(dst, dst_at, src, src_at, count)  # noqa: PLW0108

    @overload(system_calls.read_file)
    def read(descriptor, target, count, position):
        return lambda descriptor, target, count, position: _pread(descriptor, target.ctypes.data, count, position)

    @overload(system_calls.crc32c)
    def checksum(src, at, end):
        return crc32c.compute

    if _find_crc_instruction() is not None and not numba.config.BOUNDSCHECK:  # it loads without a check
        _known.add(crc32c.add_word)

        @overload(crc32c.add_word)
        def add(crc, src, at):
            return lambda crc, src, at: _add_word(crc, src, at)  # noqa: PLW0108


def _find_crc_instruction() -> tuple[str, int] | None:
    """Returns LLVM's name of the instruction that adds 8 bytes to a CRC-32C, and the bits of the CRC that it takes.

    None if this processor has none.
    """
    machine, features = platform.machine().lower(), binding.get_host_cpu_features()
    if machine in ("x86_64", "amd64") and features.get("sse4.2"):
        return "llvm.x86.sse42.crc32.64.64", 64
    is_of_apple = binding.get_host_cpu_name().startswith("apple-")  # LLVM does not tell the features of these
    if machine in ("arm64", "aarch64") and (features.get("crc") or is_of_apple):
        return "llvm.aarch64.crc32cx", 32
    return None


@intrinsic
def _add_word(typingctx, crc, src, at):
    """Does what `crc32c.add_word_by_tables` does, as one instruction."""
    signature = types.uint64(types.uint64, src, types.int64)
    instruction = _find_crc_instruction()
    assert instruction is not None
    name, bits = instruction

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        word, narrow = ir.IntType(64), ir.IntType(bits)
        data = context.make_array(sig.args[1])(context, builder, args[1]).data
        place = builder.bitcast(builder.gep(data, [args[2]]), word.as_pointer())
        eight = builder.load(place)
        eight.align = 1
        add = builder.module.declare_intrinsic(name, (), ir.FunctionType(narrow, [narrow, word]))
        before = args[0] if bits == 64 else builder.trunc(args[0], narrow)
        after = builder.call(add, [before, eight])
        return after if bits == 64 else builder.zext(after, word)

    return signature, codegen


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
