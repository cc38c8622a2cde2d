"""How the arguments of a kernel cross from Python to machine code.

A kernel takes its arguments as numba passes them (`numba.core.callconv.CPUCallConv`), an array as seven values or more.
Python passes what a call cannot do without: a number, or the address of an array and its shape, and the strides where
rows may lie apart. `compiler.py` makes the other values of these. All cross as one packed array of 8 bytes each, since
ctypes takes 0.15 µs for each argument.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from operator import index
from typing import Any

import numpy as np
import pyarrow as pa

_SCALARS = {"int64": "i64", "int32": "i32", "boolean": "i8"}  # LLVM's types
_CONTIGUOUS, _BEHAVED = 0x1, 0x500  # of numpy's flags: C_CONTIGUOUS; ALIGNED and WRITEABLE


class Parameter:
    """One parameter of a kernel.

    ndim: dimensions; 0 for a number. is_contiguous: whether the rows of an array lie without a gap. llvm: LLVM's type
    of the number. itemsize: bytes of an element. crossing: how many values cross. add: appends these to a list: the
    number; or the address, the shape, and the strides unless the array is contiguous. It raises TypeError for an array
    of another type.
    """

    def __init__(self, text: str) -> None:
        name, _, dimensions = text.strip().partition("[")
        self.ndim = dimensions.count(":") - dimensions.count("::")
        self.is_contiguous = "::1" in dimensions
        if not self.ndim:
            self.llvm = _SCALARS[name]
            self.add: Callable[[Any, list[Any]], None] = _add_scalar
            self.crossing = 1
            return
        dtype = np.dtype(np.bool_ if name == "boolean" else name)
        self.itemsize = dtype.itemsize
        self.add = (_adder_of_contiguous if self.is_contiguous else _adder_of_strided)(dtype, self.ndim)
        self.crossing = 1 + self.ndim * (1 if self.is_contiguous else 2)


def _add_scalar(value: Any, values: list[Any]) -> None:
    values.append(index(value))


def _adder_of_contiguous(dtype: Any, ndim: int) -> Callable[[Any, list[Any]], None]:
    """Returns a function that appends address and shape. It runs some thirty times a chunk."""
    needed = _BEHAVED | _CONTIGUOUS

    def add(value: Any, values: list[Any]) -> None:
        if value.dtype != dtype or value.ndim != ndim:
            raise _make_type_error(value, dtype, ndim)
        if value.flags.num & needed != needed:
            raise TypeError("a kernel takes an array that is contiguous and aligned, and can be written to")
        values += (pa.py_buffer(value).address, *value.shape)  # faster than value.ctypes

    return add


def _adder_of_strided(dtype: Any, ndim: int) -> Callable[[Any, list[Any]], None]:
    """Returns a function that appends address, shape and strides."""
    first = (slice(1),) * ndim  # one element is contiguous

    def add(value: Any, values: list[Any]) -> None:
        if value.dtype != dtype or value.ndim != ndim:
            raise _make_type_error(value, dtype, ndim)
        if value.flags.num & _BEHAVED != _BEHAVED:
            raise TypeError("a kernel takes an array that is aligned, and can be written to")
        values += (pa.py_buffer(value[first]).address, *value.shape, *value.strides)

    return add


def _make_type_error(value: Any, dtype: Any, ndim: int) -> TypeError:
    return TypeError(f"a kernel takes {ndim} dimensions of {dtype}, not {value.ndim} of {value.dtype}")


def parse_signature(signature: str) -> list[Parameter]:
    """Returns the parameters of a signature, as `jit.kernel` takes it."""
    inside = signature[signature.index("(") + 1 : -1]
    return [Parameter(text) for text in re.split(r",(?![^\[]*\])", inside)]
