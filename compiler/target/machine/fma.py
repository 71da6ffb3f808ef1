"""The FMA peak of one core, measured with a loop that touches only registers."""

from __future__ import annotations

import ctypes
import statistics
import time

from whet.compiler.errors import TargetError

# Two FMA ports times a latency of four or five cycles need ten chains in flight; two registers
# more hold the factors, so that twelve chains fit sixteen registers.
_CHAINS = 12
_SAMPLES = 25


def _loop_text(llvm_type: str, lanes: int, fused: bool) -> str:
    vec = f"<{lanes} x {llvm_type}>"
    suffix = f"v{lanes}{'f32' if llvm_type == 'float' else 'f64'}"
    phis = "\n".join(
        f"  %a{i} = phi {vec} [ %x, %entry ], [ %b{i}, %loop ]" for i in range(_CHAINS)
    )
    step = "  %b{i} = call {vec} @llvm.fma.{suffix}({vec} %a{i}, {vec} %x, {vec} %y)"
    if not fused:  # LLVM would call the C library for each lane
        step = "  %m{i} = fmul {vec} %a{i}, %x\n  %b{i} = fadd {vec} %m{i}, %y"
    fmas = "\n".join(step.format(i=i, vec=vec, suffix=suffix) for i in range(_CHAINS))
    sums = ["  %s0 = fadd " + f"{vec} %b0, %b1"]
    sums += [f"  %s{i} = fadd {vec} %s{i - 1}, %b{i + 1}" for i in range(1, _CHAINS - 1)]
    return f"""
declare {vec} @llvm.fma.{suffix}({vec}, {vec}, {vec})
define void @fma_loop(i64 %n, ptr %factors, ptr %out) {{
entry:
  %x = load {vec}, ptr %factors, align 4
  %yp = getelementptr {vec}, ptr %factors, i64 1
  %y = load {vec}, ptr %yp, align 4
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
{phis}
{fmas}
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %n
  br i1 %more, label %loop, label %done
done:
{chr(10).join(sums)}
  store {vec} %s{_CHAINS - 2}, ptr %out, align 4
  ret void
}}
"""


def measure_fma_peak(dtype: str, seconds: float) -> float:
    """FLOP/s of one core, the median of 25 samples that together take ``seconds``.

    A processor without FMA multiplies, then adds.
    """
    from whet.compiler.codegen.llvm import jit
    from whet.compiler.target.machine.host import architecture, features
    from whet.compiler.target.target import Target

    types = {"float32": ("float", 4), "float64": ("double", 8)}
    if dtype not in types:
        raise TargetError(f"fma_peak({dtype!r})", "a peak is known for float32 and float64 only")
    llvm_type, size = types[dtype]
    target = Target("llvm").canonical()
    lanes = target.vector_bytes // size
    fused = architecture() != "x86_64" or "fma" in features()
    code = jit.load_object(jit.compile_text(_loop_text(llvm_type, lanes, fused), target))
    run = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p)(
        code.address_of("fma_loop")
    )
    ctype = ctypes.c_float if size == 4 else ctypes.c_double
    factors = (ctype * (2 * lanes))(*([0.5] * (2 * lanes)))  # values stay near 1: no denormals
    out = (ctype * lanes)()

    def seconds_of(n: int) -> float:
        start = time.perf_counter()
        run(n, factors, out)
        return time.perf_counter() - start

    n = 10_000
    while (spent := seconds_of(n)) < seconds / _SAMPLES / 2:  # also wakes the core up
        n *= 2
    n = max(1, int(n * (seconds / _SAMPLES) / spent))
    median = statistics.median(seconds_of(n) for _ in range(_SAMPLES))
    return 2.0 * lanes * _CHAINS * n / median
