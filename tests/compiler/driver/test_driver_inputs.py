"""Inputs of lower() and build(), checked before anything is made of them: binds, names, maps."""

import numpy as np
import pytest

from whet.compiler import te, tir
from whet.compiler.driver import build, lower
from whet.compiler.errors import ArgumentError
from whet.compiler.target import Target

RNG = np.random.default_rng(5)


def plus(n=16, dtype="float32", more=1):
    A = te.placeholder((n,), dtype, name="A")
    B = te.compute((n,), lambda i: A[i] + tir.const(more, dtype), name="B")
    return te.create_schedule(B.op), [A, B]


def check(function, n, more=1):
    a, b = RNG.random(n, "float32"), np.full(n, np.nan, "float32")
    function(a, b)
    np.testing.assert_allclose(b, a + more, rtol=1e-6)


# binds

M, N = te.size_var("m"), te.size_var("n")


@pytest.mark.parametrize(
    ("which", "n", "buffer", "message"),
    [
        (1, 16, ((4,),), r"binds={B: X}: the buffer X has the shape \(4\), the tensor B \(16\)"),
        (1, 16, ((17,),), r"the buffer X has the shape \(17\), the tensor B \(16\)"),
        (0, 16, ((4, 4),), r"the buffer X has the shape \(4, 4\), the tensor A \(16\)"),
        (0, 16, ((),), r"the buffer X has the shape \(\), the tensor A \(16\)"),
        (0, 16, ((16,), "int32"), "the buffer X holds int32, the tensor A is float32"),
        (0, 16, ((16,), "float64"), "the buffer X holds float64, the tensor A is float32"),
        (1, 16, ((M,),), r"the buffer X has the shape \(m\), the tensor B \(16\)"),
        (1, N, ((M,),), r"the buffer X has the shape \(m\), the tensor B \(n\)"),
        (1, N, ((N + 1,),), r"the buffer X has the shape \(n \+ 1\), the tensor B \(n\)"),
    ],
)
def test_a_buffer_in_binds_is_like_its_tensor(which, n, buffer, message):
    s, args = plus(n)
    binds = {args[which]: tir.decl_buffer(*buffer, name="X")}
    for function in (lower, build):
        with pytest.raises(ArgumentError, match=message):
            function(s, args, binds=binds)


def test_shapes_in_binds_that_are_equal_in_other_words():
    s, args = plus(2 * N + 2)
    given = tir.decl_buffer(((N + 1) * 2,), name="given")
    # n itself is an argument, for a shape of an expression does not say what it is
    f = build(s, [N, *args], binds={args[1]: given})
    a, b = RNG.random(12, "float32"), np.full(12, np.nan, "float32")
    f(5, a, b)
    np.testing.assert_allclose(b, a + 1, rtol=1e-6)


def test_strides_in_binds_are_kept():
    s, args = plus(6)
    given = tir.decl_buffer((6,), name="given", strides=[2])
    f = build(s, args, binds={args[0]: given})
    a, b = RNG.random(12, "float32"), np.full(6, np.nan, "float32")
    f(a[::2], b)
    np.testing.assert_allclose(b, a[::2] + 1, rtol=1e-6)


@pytest.mark.parametrize("binds", [lambda a: [a[0]], lambda a: a[0], lambda a: 3, lambda a: "A"])
def test_binds_is_a_map(binds):
    s, args = plus()
    with pytest.raises(ArgumentError, match="it maps tensors to buffers"):
        lower(s, args, binds=binds(args))


# tensors are no sequences


def as_pointer(A):
    ib = tir.ir_builder.create()
    return ib.buffer_ptr(tir.decl_buffer(A.shape, A.dtype, A.name))


@pytest.mark.parametrize(
    "of", [lambda A: A, lambda A: A[0], as_pointer], ids=["tensor", "row", "by_hand"]
)
@pytest.mark.parametrize("use", [list, max, lambda x: [*x], lambda x: 3 in x, lambda x: dict(x)])
def test_nobody_can_iterate_over_a_tensor(of, use):
    A = te.placeholder((2, 3), name="A")
    with pytest.raises(
        ArgumentError, match=r"iterate over .*A: .*in the kernel.*\n.*index it: A\["
    ):
        use(of(A))


# names

WRONG = ["a b", "é", "1x", "k;", "a\nb", "x\n", "a.b", '"', "", None, 3]


@pytest.mark.parametrize("name", WRONG, ids=repr)
def test_names_that_no_symbol_can_have(name):
    s, args = plus()
    calls = [lambda: lower(s, args, name=name), lambda: lower(lower(s, args)["main"], name=name)]
    calls += [lambda t=t: build(s, args, t, name=name) for t in ("llvm", "c", "cuda")]
    calls += [lambda: build(lower(s, args)["main"].with_attr("global_symbol", name))]
    for call in calls:
        with pytest.raises(ArgumentError, match=r"a function is a symbol.*\n.*letters of ASCII"):
            call()


@pytest.mark.parametrize("target", ["llvm", "c"])
@pytest.mark.parametrize("name", ["_", "X9", "double", "main", "malloc", "exp", "while"])
def test_every_identifier_of_c_can_be_a_name(name, target):
    s, args = plus()
    f = build(s, args, target, name=name)
    assert f.functions == [name]
    check(f[name], 16)


# maps from targets


def test_equal_targets_in_a_map_share_a_module():
    f, g, h = (lower(*plus(n, more=n), name=name) for n, name in ((3, "f"), (4, "g"), (5, "h")))
    made = build({"llvm": f, Target("llvm"): g, "c": h})
    assert made.functions == ["f", "g", "h"]
    for n, name in ((3, "f"), (4, "g"), (5, "h")):
        check(made[name], n, n)
    both = made.ir_module_by_target
    assert list(both) == [Target("llvm"), Target("c")] and list(both[Target("llvm")]) == ["f", "g"]
    with (
        pytest.warns(DeprecationWarning),
        pytest.raises(ArgumentError, match="two functions are named 'f'"),
    ):
        build({"llvm": f, Target("llvm", host="llvm"): f}, target_host="llvm")
    with pytest.raises(ArgumentError, match="two functions are named 'f', for llvm and for llvm"):
        build({"llvm": f, Target("llvm"): f})
