"""
Vector add, from end to end
===========================

This lesson adds two vectors, and follows the computation through the code of Whet: from the
tensor expression to the machine code, and to the call. At each step it says which file does the
work.
"""

# %%
# What to compute
# ---------------
#
# A *tensor expression* says what each element of the result is. It says nothing about loops.
#
# ``te.placeholder`` makes an input (``compiler/te/lang/compute.py``). ``te.compute`` calls the
# function once, with one variable for each dimension, and keeps the expression that comes back.
# The nodes of expressions are in ``compiler/tir/expr.py``; ``A[i] + B[i]`` makes an ``Add``
# there.

import tempfile
from pathlib import Path

import numpy as np

import whet
from whet import te

n = 1000
A = te.placeholder((n,), name="A")
B = te.placeholder((n,), name="B")
C = te.compute((n,), lambda i: A[i] + B[i], name="C")

print(te.graph_text([C]))
print("C is computed from", ", ".join(tensor.name for tensor in C.op.input_tensors))

# %%
# How to compute it
# -----------------
#
# A *schedule* holds the decisions about the loops: one stage for each operation
# (``compiler/te/schedule.py``), and in each stage the loops
# (``compiler/te/stage.py``). At first there is a plain loop for each axis.

s = te.create_schedule(C.op)
print(whet.lower(s, [A, B, C], simple_mode=True))

# %%
# We split the loop in two, and make vector operations of the inner one. Every decision is
# recorded in the schedule's *trace*, which reads as Python.

outer, inner = s[C].split(C.op.axis[0], factor=16)
s[C].vectorize(inner)

print(s.trace)

# %%
# The trace is a program: applied to a fresh schedule of the same computation, it makes the same
# decisions again.

again = s.trace.apply(te.create_schedule(C.op))
assert str(whet.lower(again, [A, B, C])) == str(whet.lower(s, [A, B, C]))

# %%
# ``show`` draws the stages, their loops, and where each is attached.
# ``s.show("schedule.html")`` writes a file.

s.show()

# %%
# Down to loops
# -------------
#
# ``whet.lower`` (``compiler/driver/lowering.py``) goes from the schedule to the *loop IR*:
#
# 1. ``compiler/te/bounds/infer_bound.py`` gives each loop its number of steps;
# 2. ``compiler/te/lower/schedule_ops.py`` writes the loop nests, with guards where 16
#    does not divide 1000;
# 3. the passes rewrite them, one after the other. ``compiler/passes/table.py`` is the list.
#
# Passes depend on the target: vectors are as wide as the registers of the processor. Here we
# name one, so that this page looks the same wherever it is made.

target = whet.Target("llvm -mcpu=x86-64 -mattr=+avx2,+fma")
with target:
    mod = whet.lower(s, [A, B, C], name="vector_add")
print(mod)

# %%
# What each pass does
# -------------------
#
# An *instrument* looks on before and after each pass. This one prints the function after each
# pass that changed it.


@whet.instrument.pass_instrument
class Changes:
    """Prints what passes change."""

    def run_before_pass(self, mod, info):
        self.before = mod.script()

    def run_after_pass(self, mod, info):
        if mod.script() != self.before:
            print(f"--- after {info.name}")
            print(mod.script(), end="\n\n")


with target, whet.transform.PassContext(instruments=[Changes()]):
    whet.lower(s, [A, B, C], name="vector_add")

# %%
# There are instruments for common needs in ``compiler/instrument``: ``PrintChanged`` prints
# differences, ``VerifyEach`` looks for broken functions, and this one measures:

timing = whet.instrument.PassTimingInstrument()
with target, whet.transform.PassContext(instruments=[timing]):
    whet.lower(s, [A, B, C], name="vector_add")
print(timing.render())

# %%
# Down to machine code
# --------------------
#
# ``whet.build`` (``compiler/driver/compile.py``) lowers a schedule if need be, generates code,
# and loads it. For the target ``llvm``, the generator (``compiler/codegen/llvm``) writes LLVM
# IR as text: the kernel in ``kernel.py``, its expressions in ``expressions.py``; the checks of its
# arguments are loop IR, too (``compiler/abi/entry.py``). Then LLVM makes an object of it
# (``compiler/jit``). Without a target, code is made for the processor of this machine.

f = whet.build(s, [A, B, C], name="vector_add")
ir = f.get_source("ll")
kernel = ir[ir.index("@vector_add__raw(") :]
print(kernel[: kernel.index("\n}")][:1500])

# %%
# The assembly of the kernel, as far as its loop:

assembly = f.get_source("asm").splitlines()
start = next(k for k, line in enumerate(assembly) if line.startswith("vector_add__raw:"))
print("\n".join(assembly[start : start + 25]))

# %%
# The call
# --------
#
# A kernel takes arrays of numpy, or of ``whet.nd`` (``compiler/runtime/arrays/ndarray.py``). All
# arguments are checked before it runs: how many, their dtypes, their shapes.

a = whet.nd.array(np.random.rand(n).astype("float32"))
b = whet.nd.array(np.random.rand(n).astype("float32"))
c = whet.nd.empty((n,))
f(a, b, c)
np.testing.assert_allclose(c.numpy(), a.numpy() + b.numpy())

try:
    f(a, b, whet.nd.empty((n + 1,)))
except whet.ArgumentError as error:
    print(error)

# %%
# How long it takes
# -----------------
#
# ``time_evaluator`` (``compiler/runtime/timing.py``) calls the kernel in a loop of machine
# code, so that Python is not measured. ``number`` is how many calls make one measurement,
# ``repeat`` how many measurements.

timer = f.time_evaluator(f.entry_name, whet.cpu(0), number=1000, repeat=5)
result = timer(a, b, c)
print(f"{result.mean * 1e9:.0f} ns, and between {result.min * 1e9:.0f} and {result.max * 1e9:.0f}")

# %%
# Leaving the process
# -------------------
#
# ``export_library`` (``compiler/runtime/library/export.py``) writes a shared library.
# ``load_module`` (``compiler/runtime/load.py``) loads it, in a process that needs neither
# ``te`` nor the compiler; and a C program can call it.

with tempfile.TemporaryDirectory() as folder:
    library = f.export_library(Path(folder) / "vector_add.so")
    loaded = whet.runtime.load_module(library)
    c = whet.nd.empty((n,))
    loaded(a, b, c)
np.testing.assert_allclose(c.numpy(), a.numpy() + b.numpy())

# %%
# The whole way
# -------------
#
# ========================= ===========================================================
# step                      where it is
# ========================= ===========================================================
# tensor expressions        ``compiler/te/lang/compute.py``, ``tensor.py``
# schedule, stages          ``compiler/te/schedule.py``, ``stage.py``
# trace                     ``compiler/te/schedule_trace/steps.py``
# extents of loops          ``compiler/te/bounds/infer_bound.py``
# loop nests                ``compiler/te/lower/schedule_ops.py``
# lower, build              ``compiler/driver/lowering.py``, ``compile.py``
# loop IR                   ``compiler/tir``
# passes                    ``compiler/passes``, in the order of ``pipeline.py``
# targets                   ``compiler/target``
# LLVM text, machine code   ``compiler/codegen/llvm``
# arrays, calls, timing     ``compiler/runtime``
# ========================= ===========================================================
