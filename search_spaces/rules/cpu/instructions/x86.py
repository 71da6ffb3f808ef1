"""The dot-product instructions of x86-64: a declaration each.

    vpdpbusd   c[i] += sum of x[k] * w[i, k] over four bytes, x unsigned, w signed
    vpdpwssd   the same of two int16

AVX512_VNNI has them, in vectors of 512 bits and, with AVX512VL, of 256; AVX-VNNI in those of 256.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from whet.compiler import te, tir
from whet.compiler.target import Target
from whet.compiler.te.lang.tensor_intrin import TensorIntrin


def vpdpbusd(target: Target) -> TensorIntrin | None:
    """Four products of uint8 and int8 a lane of int32."""
    return _dot_product(target, "vpdpbusd", "uint8", "int8")


def vpdpwssd(target: Target) -> TensorIntrin | None:
    """Two products of int16 a lane of int32."""
    return _dot_product(target, "vpdpwssd", "int16", "int16")


def _dot_product(target: Target, name: str, left: str, right: str) -> TensorIntrin | None:
    bits = _bits(target)
    if not bits:
        return None
    lanes, steps = bits // 32, 4 if left.endswith("8") else 2
    x = te.placeholder((steps,), left, name="x")
    w = te.placeholder((lanes, steps), right, name="w")
    k = te.reduce_axis((0, steps), name="k")
    c = te.compute(
        (lanes,),
        lambda i: te.sum(x[k].astype("int32") * w[i, k].astype("int32"), axis=k),
        name="c",
    )
    of = _statements(f"llvm.x86.avx512.{name}.{bits}", lanes, steps, left, right)
    registers = tir.decl_buffer(c.shape, c.dtype, "c", scope="local", offset_factor=1)
    anywhere = {"offset_factor": 1}
    return te.decl_tensor_intrin(c.op, of, name, {c: registers}, None, anywhere)


def _bits(target: Target) -> int:
    """Of the widest vectors of which the processor has these instructions; 0: it has none."""
    if str(target.kind) != "llvm":
        return 0
    has = target.features
    if has.has_avx512vnni and target.vector_bytes >= 64:
        return 512
    narrow = has.has_avxvnni or (has.has_avx512vnni and has.has_avx512vl)
    return 256 if narrow and target.vector_bytes >= 32 else 0


def _statements(
    intrinsic: str, lanes: int, steps: int, left: str, right: str
) -> Callable[[Any, Any], Any]:
    many = f"int32x{lanes}"
    element = "int8" if steps == 4 else "int16"

    def statements(ins: Any, outs: Any) -> Any:
        (x, w), (out,) = ins, outs
        zeros = tir.const(0, "int32").astype(many)

        def step(before: Any) -> Any:
            few = tir.reinterpret("int32", x.vload(0, f"{left}x{steps}"))  # the same for each lane
            a = tir.reinterpret(f"{element}x{steps * lanes}", few.astype(many))
            b = w.vload((0, 0), f"{right}x{steps * lanes}")
            none = tir.const(0, "uint32")  # none of its types is left open
            call = tir.call_llvm_pure_intrin(many, intrinsic, none, before, a, b)
            return out.vstore(0, call)

        return step(zeros), out.vstore(0, zeros), step(out.vload(0, many))

    return statements
