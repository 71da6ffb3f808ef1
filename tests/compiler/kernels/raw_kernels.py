"""Raw kernels written by hand, for tests of what stands around a kernel."""

from whet.compiler.abi.extent import Symbol, parse
from whet.compiler.abi.signature import BufferParam, KernelSignature, ScalarParam
from whet.compiler.codegen.llvm.kernel import entry_text
from whet.compiler.jit.compile import compile_text
from whet.compiler.runtime import Artifact, Module
from whet.compiler.target import Target
from whet.compiler.target.llvm_machine import machine_of

N = Symbol("n")

VADD = KernelSignature(
    "vadd",
    (
        BufferParam("A", "float32", (N,)),
        BufferParam("B", "float32", (N,)),
        BufferParam("C", "float32", (N,), True),
    ),
    ("n",),
)
VADD_RAW = """
define i32 @"vadd__raw"(ptr %a, ptr %b, ptr %c, i64 %n) {
entry:
  %any = icmp sgt i64 %n, 0
  br i1 %any, label %loop, label %done
loop:
  %i = phi i64 [ 0, %entry ], [ %j, %loop ]
  %pa = getelementptr float, ptr %a, i64 %i
  %pb = getelementptr float, ptr %b, i64 %i
  %pc = getelementptr float, ptr %c, i64 %i
  %x = load float, ptr %pa
  %y = load float, ptr %pb
  %z = fadd float %x, %y
  store float %z, ptr %pc
  %j = add i64 %i, 1
  %more = icmp slt i64 %j, %n
  br i1 %more, label %loop, label %done
done:
  ret i32 0
}
"""

# out[0] = f + i + (b ? 100 : 0); the matrix only carries a shape to check.
MIXED = KernelSignature(
    "mixed",
    (
        BufferParam("M", "int64", (3, N, parse("n*2 - 1"))),
        ScalarParam("f", "float64"),
        ScalarParam("i", "int32"),
        ScalarParam("b", "bool"),
        BufferParam("out", "float64", (), True),
    ),
    ("n",),
)
MIXED_RAW = """
define i32 @"mixed__raw"(ptr %m, double %f, i32 %i, i1 %b, ptr %out, i64 %n) {
  %id = sitofp i32 %i to double
  %s = fadd double %f, %id
  %h = select i1 %b, double 100.0, double 0.0
  %r = fadd double %s, %h
  store double %r, ptr %out
  ret i32 0
}
"""

FAILING = KernelSignature("failing", (BufferParam("A", "float32", (4,)),))
FAILING_RAW = """
define i32 @"failing__raw"(ptr %a) {
  ret i32 1
}
"""

# C[1] = 1; waits until another thread has set A[0], or for some seconds; C[0] = A[0].
WAITING = KernelSignature(
    "waiting",
    (BufferParam("A", "float32", (N,)), BufferParam("C", "float32", (N,), True)),
    ("n",),
)
WAITING_RAW = """
define i32 @"waiting__raw"(ptr %a, ptr %c, i64 %n) {
entry:
  %here = getelementptr float, ptr %c, i64 1
  store volatile float 1.0, ptr %here
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %j, %loop ]
  %x = load volatile float, ptr %a
  %j = add i64 %i, 1
  %set = fcmp une float %x, 0.0
  %late = icmp sge i64 %j, 8589934592
  %over = or i1 %set, %late
  br i1 %over, label %done, label %loop
done:
  store float %x, ptr %c
  ret i32 0
}
"""


def artifact(*kernels: tuple[KernelSignature, str]) -> Artifact:
    """Compile raw kernels with their entries for this machine."""
    target = Target("llvm").canonical()
    text = "".join(raw + entry_text(sig, sig.name) for sig, raw in kernels)
    data = compile_text(text, machine_of(target))
    return Artifact(data, tuple(sig for sig, _ in kernels), target.to_json(), text)


def module(*kernels: tuple[KernelSignature, str]) -> Module:
    """Compile and load raw kernels."""
    return Module.from_artifact(artifact(*kernels))
