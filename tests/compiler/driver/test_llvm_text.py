"""LLVM text and bitcode are modules: what was saved, and functions for packed arguments."""

from __future__ import annotations

import numpy as np
import pytest

import whet
from whet import te

CPU = "llvm -num_threads=2"
BY_HAND = """
define internal i32 @hidden(ptr %args, i32 %n) {
  ret i32 3
}
define dso_local noundef i32 @twice(ptr noundef readonly captures(none) %args, i32 noundef %n) #0 {
  %right = icmp eq i32 %n, 1
  br i1 %right, label %go, label %bad
bad:
  ret i32 7
go:
  %tensor = load ptr, ptr %args
  %data = load ptr, ptr %tensor
  %shape.at = getelementptr i8, ptr %tensor, i64 24
  %shape = load ptr, ptr %shape.at
  %count = load i64, ptr %shape
  br label %loop
loop:
  %i = phi i64 [ 0, %go ], [ %next, %loop ]
  %at = getelementptr float, ptr %data, i64 %i
  %x = load float, ptr %at
  %y = fadd float %x, %x
  store float %y, ptr %at
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %count
  br i1 %more, label %loop, label %done
done:
  ret i32 0
}
define i64 @other(i64 %x) {
  ret i64 %x
}
attributes #0 = { nounwind }
"""


@pytest.fixture
def saved():
    n = te.size_var("n")
    A = te.placeholder((n, 4), name="A")
    x = te.var("x", "float32")
    B = te.compute((n, 4), lambda i, j: te.exp(A[i, j]) * x, name="B")
    s = te.create_schedule(B.op)
    s[B].parallel(B.op.axis[0])
    return whet.build(s, [A, x, B], CPU, name="odd")


@pytest.mark.parametrize("ending", ["ll", "bc"])
def test_what_was_saved_is_the_module_again(saved, tmp_path, ending):
    path = tmp_path / f"k.{ending}"
    saved.save(path)
    loaded = whet.runtime.load_module(path)
    assert loaded.functions == ["odd"] and loaded["odd"].signature == saved["odd"].signature
    a = np.random.default_rng().standard_normal((5, 4)).astype("float32")
    out = np.full((5, 4), np.nan, "float32")
    loaded(a, 0.5, out)
    np.testing.assert_allclose(out, np.exp(a.astype("float64")) * 0.5, rtol=1e-6)
    with pytest.raises(whet.ArgumentError, match=r"A.shape\[1\]"):
        loaded(np.zeros((5, 3), "float32"), 0.5, out)
    loaded.save(tmp_path / "again.ll")
    assert whet.runtime.load_module(tmp_path / "again.ll").functions == ["odd"]
    loaded.export_library(tmp_path / "again.so")
    out[:] = np.nan
    whet.runtime.load_module(tmp_path / "again.so")(a, 2.0, out)
    np.testing.assert_allclose(out, np.exp(a.astype("float64")) * 2, rtol=1e-6)


def test_text_by_hand_has_functions_of_packed_arguments(tmp_path):
    path = tmp_path / "by_hand.txt"
    path.write_text(BY_HAND)
    module = whet.runtime.load_module(path, fmt="ll")
    assert module.functions == ["twice"] and "define" in module.get_source()
    for x in (np.arange(5, dtype="float32"), np.arange(3, dtype="float32")):
        held = whet.nd.array(x)
        module["twice"](held)
        np.testing.assert_array_equal(held.numpy(), 2 * x)
    with pytest.raises(whet.error.KernelError, match="it returned 7"):
        module(np.zeros(2, "float32"), np.zeros(2, "float32"))
    with pytest.raises(whet.ArgumentError, match="argument 0: a str is no array of numbers"):
        module("text")
    with pytest.raises(whet.ArgumentError, match="arguments have no names"):
        module(x=held)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("define i64 @f(i64 %x) {\n  ret i64 %x\n}\n", "no function that can be called"),
        ("define i32 @f(ptr %x, i32 %n) {\n  ret i64 0\n}\n", "no LLVM code that is known here"),
        ('!whet = !{!1}\n!1 = !{!"[1, 2]"}\n', "no LLVM code that is known here"),
        ("!whet = !{!1}\n", "its metadata is cut off"),
        ("\x00", "no LLVM code|no function"),
    ],
)
def test_what_is_none(tmp_path, text, why):
    (tmp_path / "k.ll").write_text(text)
    with pytest.raises(whet.error.ArtifactError, match=why):
        whet.runtime.load_module(tmp_path / "k.ll")
    (tmp_path / "k.bc").write_text(text)
    with pytest.raises(whet.error.ArtifactError, match="no LLVM code that is known here"):
        whet.runtime.load_module(tmp_path / "k.bc")
