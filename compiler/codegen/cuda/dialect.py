"""CUDA C: its types, constants and 16-bit floats, which have arithmetic of their own here."""

from __future__ import annotations

from whet.compiler.codegen.c.dialect import Dialect
from whet.compiler.codegen.c.functions import SHORT_FLOATS, Functions
from whet.compiler.codegen.c.mathematics import LIBRARY
from whet.compiler.passes.gpu.inject_double_buffer import UNROLL_FACTOR
from whet.compiler.tir import dtype as dt
from whet.compiler.tir.stmt import UNROLLED, For

_INTEGERS = {8: "char", 16: "short", 32: "int", 64: "long long"}


class CudaDialect(Dialect):
    """CUDA C behind the prelude, which has the 16-bit floats and the vectors.

    Args:
        wide: whether subscripts may need 64 bits.
    """

    name = "CUDA C"
    pointer = "WHET_GLOBAL({kind}) {name}"
    function = "static __device__ __forceinline__"
    native_short = True
    # One instruction, whose result does not depend on the operands' order where one is NaN: lanes
    # that exchange their parts of a maximum agree on it.
    own = {
        ("min", "float32"): "fminf", ("max", "float32"): "fmaxf",
        ("min", "float64"): "fmin", ("max", "float64"): "fmax",
    }  # fmt: skip
    expanded_lanes = 16
    lane_pragma = "#pragma unroll"
    specials = {
        "float32": ("__int_as_float(0x7f800000)", "__int_as_float(0x7fc00000)"),
        "float64": (
            "__longlong_as_double(0x7ff0000000000000LL)",
            "__longlong_as_double(0x7ff8000000000000LL)",
        ),
    }
    library = {**LIBRARY, "rsqrt": "rsqrt", "exp10": "exp10"}
    memory = {
        "float16": "float16",
        "bfloat16": "bfloat16",
        "float32": "float",
        "float64": "double",
        "bool": "bool",
        "handle": "void *",
        **{f"int{b}": name for b, name in _INTEGERS.items()},
        **{f"uint{b}": f"unsigned {name}" for b, name in _INTEGERS.items()},
        "int8": "signed char",
    }
    values = {}

    def __init__(self, wide: bool = False) -> None:
        self.index = "long long" if wide else "int"
        self.index_bits = 64 if wide else 32
        self.index_dtype = "int64" if wide else "int32"

    def before_loop(self, n: For) -> list[str]:
        if n.kind == UNROLLED:
            return ["#pragma unroll"]
        factor = n.annotations.get(UNROLL_FACTOR)
        return [f"#pragma unroll {factor}"] if factor else []

    def long_constant(self, value: int, unsigned: bool = False) -> str:
        return f"{value}{'U' if unsigned else ''}LL"

    def floating(self, value: float, dtype: str) -> str:
        name = dt.element(dtype)
        if name in SHORT_FLOATS:
            return self.rounded(super().floating(value, "float32"), name, Functions(self))
        return super().floating(value, name)
