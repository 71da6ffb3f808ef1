"""The pragma ``import_llvm``: a user's LLVM text in a module, and what is refused."""

import numpy as np
import pytest

import whet
from whet import te, tir

TARGET = "llvm -num_threads=2"
# what clang writes of a function in C, with the layout of another machine
DOT = """
; ModuleID = 'dot.cc'
target datalayout = "e-m:e-i8:8:32-i16:16:32-i64:64-i128:128-n32:64-S128"
target triple = "aarch64-unknown-linux-gnu"
define dso_local i32 @dot_update(ptr noundef %y, ptr noundef %a, ptr noundef %b) #0 {
  br label %loop
loop:
  %k = phi i64 [ 0, %0 ], [ %next, %loop ]
  %sum = load float, ptr %y, align 4
  %pa = getelementptr inbounds float, ptr %a, i64 %k
  %pb = getelementptr inbounds float, ptr %b, i64 %k
  %u = load float, ptr %pa, align 4
  %v = load float, ptr %pb, align 4
  %uv = fmul float %u, %v
  %more = fadd float %sum, %uv
  store float %more, ptr %y, align 4
  %next = add i64 %k, 1
  %done = icmp eq i64 %next, 4
  br i1 %done, label %end, label %loop
end:
  ret i32 0
}
attributes #0 = { noinline nounwind }
"""


def dot():
    """Four steps of a sum by a call of ``dot_update``."""
    a, b = te.placeholder((4,), name="a"), te.placeholder((4,), name="b")
    k = te.reduce_axis((0, 4), name="k")
    y = te.compute((1,), lambda i: te.sum(a[k] * b[k], axis=k), name="y")
    places = {
        t: tir.decl_buffer(t.shape, t.dtype, t.name, offset_factor=1, strides=[1])
        for t in (a, b, y.op.output(0))
    }

    def parts(ins, outs):
        (out,) = outs

        def reset():
            return out.vstore(0, te.const(0.0, "float32"))

        def update():
            handles = [x.access_ptr("r") for x in ins]
            return tir.call_extern("int32", "dot_update", out.access_ptr("rw"), *handles)

        ib = tir.ir_builder.create()
        ib.emit(reset())
        ib.emit(tir.Evaluate(update()))
        return ib.get(), reset(), update()

    return te.decl_tensor_intrin(y.op, parts, "dot", binds=places)


def product(text=DOT, parallel=False):
    a, b = te.placeholder((7, 16), name="A"), te.placeholder((5, 16), name="B")
    k = te.reduce_axis((0, 16), name="k")
    c = te.compute((7, 5), lambda i, j: te.sum(a[i, k] * b[j, k], axis=k), name="C")
    s = te.create_schedule(c.op)
    i, j = c.op.axis
    _, inner = s[c].split(k, 4)
    s[c].tensorize(inner, dot())
    if parallel:
        s[c].parallel(i)
    s[c].pragma(j if parallel else i, "import_llvm", text)
    return s, [a, b, c]


@pytest.mark.parametrize("parallel", [False, True])
def test_a_function_of_the_text_is_called(parallel):
    rng = np.random.default_rng()
    x, y = (rng.standard_normal((n, 16)).astype("float32") for n in (7, 5))
    out = np.full((7, 5), np.nan, "float32")
    f = whet.build(*product(parallel=parallel), TARGET)
    f(x, y, out)
    np.testing.assert_allclose(out, x.astype("float64") @ y.T, rtol=1e-4, atol=1e-5)
    assert "define internal i32 @dot_update" in f.get_source()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("int dot_update(float *y) { return 0; }", "LLVM refuses the text"),
        (DOT.replace("ret i32 0", "ret float 0.0"), "LLVM refuses the text"),
        (DOT.replace("@dot_update", "@default_function"), "LLVM refuses the text"),
    ],
    ids=range(3),
)
def test_text_that_is_none_or_defines_the_kernel_is_refused(text, words):
    with pytest.raises(whet.CodegenError, match=words):
        whet.build(*product(text), TARGET)


def test_where_text_is_not_linked():
    with pytest.raises(whet.CodegenError, match="its value is no text"):
        whet.build(*product(3), TARGET)
    with pytest.raises(whet.CodegenError, match="the module is C"):
        whet.build(*product(), "c")
    s, (_, _, c) = product()
    with pytest.raises(whet.ScheduleError, match="C is not compiled here"):
        s[c].pragma(c.op.axis[1], "import_c", "int f() { return 0; }")
