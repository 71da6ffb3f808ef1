"""Hybrid scripts that cannot be: each error says where, why, and the way out."""

from __future__ import annotations

import numpy as np
import pytest

import whet
from whet import te
from whet.compiler.errors import ArgumentError, LowerError, ScheduleError

script = te.hybrid.script
A = te.placeholder((8,), name="a")


@script
def no_return(a):
    c = output_tensor(a.shape, a.dtype)


@script
def return_in_a_loop(a):
    c = output_tensor(a.shape, a.dtype)
    for i in range(8):
        return c


@script
def two_returns(a):
    c = output_tensor(a.shape, a.dtype)
    return c
    return c


@script
def returns_an_input(a):
    return a


@script
def returns_twice(a):
    c = output_tensor(a.shape, a.dtype)
    return c, c


@script
def unknown_name(a):
    c = output_tensor(a.shape, a.dtype)
    for i in range(8):
        c[i] = a[i] + there_is_none
    return c


@script
def after_its_loop(a):
    c = output_tensor(a.shape, a.dtype)
    for i in range(8):
        x = a[i]
    c[0] = x
    return c


@script
def while_loop(a):
    c = output_tensor(a.shape, a.dtype)
    while True:
        pass
    return c


@script
def a_slice(a):
    c = output_tensor(a.shape, a.dtype)
    c[0] = a[1:2]
    return c


@script
def too_few_indices(a):
    c = output_tensor((8, 8), a.dtype)
    c[1] = a[1]
    return c


@script
def out_of_range(a):
    c = output_tensor(a.shape, a.dtype)
    c[0] = a[8]
    return c


@script
def float_index(a):
    c = output_tensor(a.shape, a.dtype)
    for i in range(8):
        c[a[i]] = 0.0
    return c


@script
def no_function(a):
    c = output_tensor(a.shape, a.dtype)
    c[0] = gamma(a[0])
    return c


@script
def a_method(a):
    c = output_tensor(a.shape, a.dtype)
    c[0] = a[0].astype("int32")
    return c


@script
def integer_division(a):
    c = output_tensor(a.shape, a.dtype)
    for i in range(8):
        c[i] = i / 2
    return c


@script
def loop_variable(a):
    c = output_tensor(a.shape, a.dtype)
    for i in range(8):
        i = 2
    return c


@script
def an_argument(a, n):
    c = output_tensor(a.shape, a.dtype)
    n = n + 1
    return c


@script
def output_in_a_loop(a):
    for i in range(8):
        c = output_tensor(a.shape, a.dtype)
    return c


@script
def not_constant(a, n):
    c = output_tensor(a.shape, a.dtype)
    for i in const_range(n):
        c[i] = a[i]
    return c


@script
def over_an_array(a):
    c = output_tensor(a.shape, a.dtype)
    for x in a:
        c[0] = x
    return c


@script
def no_such_threads(a):
    c = output_tensor(a.shape, a.dtype)
    for i in bind("threadIdx.w", 8):
        c[i] = a[i]
    return c


@script
def uneven_threads(a):
    c = output_tensor(a.shape, a.dtype)
    for i in bind("threadIdx.x", 8):
        c[i] = a[i]
    for i in bind("threadIdx.x", 4):
        c[i] = a[i]
    return c


@script
def never_holds(a):
    c = output_tensor(a.shape, a.dtype)
    assert a.shape[0] == 9, "nine are needed"
    return c


@script
def before_it_is_there(a):
    c = output_tensor(a.shape, a.dtype)
    for i in range(8):
        t += a[i]
    return c


@script
def no_threads_known(a):
    c = output_tensor((max_num_threads(),), a.dtype)
    return c


@script
def needs_a_number(a):
    c = output_tensor(a.shape, a.dtype)
    c[0] = a + 1.0
    return c


REFUSED = [
    (no_return, "it returns nothing", "def no_return", "return c"),
    (return_in_a_loop, "stands inside a loop", "return c", "once, at its end"),
    (two_returns, "after return is never run", "return c", ""),
    (returns_an_input, "a is no output", "return a", "output_tensor"),
    (returns_twice, "returned twice", "return c, c", ""),
    (unknown_name, "there_is_none is not known here", "c[i] = a[i] + there_is_none", "argument"),
    (after_its_loop, "x is not known here", "c[0] = x", "in this loop or around it"),
    (while_loop, "there is no While in a script", "while True:", "for, if, assert"),
    (a_slice, "no slices", "c[0] = a[1:2]", "a loop over the elements"),
    (too_few_indices, "1 indices were given for 2 dimensions", "c[1] = a[1]", ""),
    (out_of_range, "the index 8 is outside of a dimension of 8", "c[0] = a[8]", ""),
    (float_index, "an index is a float32", "c[a[i]] = 0.0", ""),
    (no_function, "there is no gamma", "c[0] = gamma(a[0])", "sigmoid"),
    (a_method, "by their names alone", 'a[0].astype("int32")', "float32(x)"),
    (integer_division, "does not say how it rounds", "c[i] = i / 2", "//"),
    (loop_variable, "i is the variable of a loop", "i = 2", ""),
    (output_in_a_loop, "made inside a loop", "output_tensor", "at the beginning"),
    (over_an_array, "cannot run over a Array", "for x in a:", "range"),
    (no_such_threads, "no such thread axis", "bind(", "threadIdx.x"),
    (uneven_threads, "has 8 threads in another loop, here 4", "bind(", "as many steps"),
    (never_holds, "nine are needed", "assert", ""),
    (before_it_is_there, "t is no variable that was assigned before", "t += a[i]", "t = 0.0"),
    (no_threads_known, "no target is in force", "max_num_threads()", "with whet.Target"),
    (needs_a_number, "a is an array where a number is expected", "c[0] = a + 1.0", "a[i]"),
]


@pytest.mark.parametrize(
    ("function", "why", "line", "way_out"), REFUSED, ids=[x[0].__name__ for x in REFUSED]
)
def test_a_script_is_refused_at_its_place(function, why, line, way_out):
    with pytest.raises(te.hybrid.ScriptError) as caught:
        function(A)
    text = str(caught.value)
    first, *more = text.splitlines()
    assert first.startswith(f"te.hybrid.script({function.__name__}): ")
    assert why in first
    assert way_out in text
    place = next(x for x in more if __file__.rsplit("/", 1)[1] in x)
    number, column = (int(x) for x in place.rsplit(":", 2)[1:])
    with open(__file__, encoding="utf-8") as file:
        there = file.read().splitlines()[number - 1]
    assert line in there
    shown, mark = more[more.index(place) + 1 :][:2]
    assert shown[2:] == f"  {there}" or shown.strip() == there.strip()
    assert mark.index("^") - (len(shown) - len(there)) == column - 1


def test_arguments_are_refused():
    with pytest.raises(te.hybrid.ScriptError, match="n is an argument"):
        an_argument(A, te.var("n"))
    with pytest.raises(te.hybrid.ScriptError, match="its bounds are not known"):
        not_constant(A, te.var("n"))
    with pytest.raises(ArgumentError, match="missing a required argument: 'n'"):
        not_constant(A)
    with pytest.raises(ArgumentError, match="the argument n is a ndarray, among tensors"):
        not_constant(A, np.zeros(3))
    with pytest.raises(ArgumentError, match="a script is a function"):
        script(3)
    with pytest.raises(ArgumentError, match="does not define a function <lambda>"):
        script(lambda a: a)(A)
    names = {}
    exec("def made(a):\n    return a", names)
    with pytest.raises(ArgumentError, match="its source is not at hand"):
        script(names["made"])(A)


def test_what_another_stage_computes_is_only_read():
    @script
    def store(a):
        c = output_tensor(a.shape, a.dtype)
        a[0] = 1.0
        return c

    b = te.compute((8,), lambda i: A[i] + 1.0, name="b")
    with pytest.raises(te.hybrid.ScriptError, match="b is computed by another stage"):
        store(b)


def test_scripts_that_never_end_calling():
    with pytest.raises(te.hybrid.ScriptError, match="this never ends"):
        endless(A)


@script
def endless(a):
    c = endless(a)
    return c


def test_a_runtime_assertion():
    @script
    def checked(a):
        c = output_tensor(a.shape, a.dtype)
        for i in range(8):
            assert a[i] > 0, "a number is negative"
            c[i] = a[i]
        return c

    c = checked(A)
    f = whet.build(te.create_schedule(c.op), [A, c], "llvm -num_threads=2")
    x, y = np.ones(8, "float32"), np.zeros(8, "float32")
    f(x, y)
    np.testing.assert_array_equal(x, y)
    x[5] = -1
    with pytest.raises(whet.compiler.errors.KernelError, match="a number is negative"):
        f(x, y)
    with pytest.raises(AssertionError, match="a number is negative"):
        checked(x)


def test_primitives_that_a_script_has_not():
    @script
    def plain(a):
        c = output_tensor(a.shape, a.dtype)
        for i in range(8):
            c[i] = a[i]
        return c

    c = plain(A)
    s = te.create_schedule(c.op)
    with pytest.raises(ScheduleError, match="is a script: its loops are those"):
        s[c].fuse()
    with pytest.raises(ScheduleError, match="those of a script may add"):
        s[c].split(c.op.axis[0], 3, tail="shift")
    with pytest.raises(ScheduleError, match="has no expression to put elsewhere"):
        s[c].compute_inline()
    with pytest.raises(ScheduleError, match="storage_align"):
        s[c].storage_align(c.op.axis[0], 8, 1)
    with pytest.raises(ScheduleError, match="set_store_predicate"):
        s[c].set_store_predicate(c.op.axis[0].var < 3)
    with pytest.raises(ArgumentError, match="plain"):
        te.gradient(c, [A])
    with pytest.raises(ScheduleError):
        s.cache_write(c, "local")
    with pytest.raises(ScheduleError):
        s[c].tensorize(c.op.axis[0], object())


@script
def two_nests(p, q):
    c = output_tensor((8,), "float32")
    d = output_tensor((8,), "float32")
    for i in range(8):
        c[i] = p[i] * 2.0
    for j in range(8):
        d[j] = q[j] + c[j]
    return c, d


def test_what_two_nests_read_is_attached_at_neither():
    p = te.compute((8,), lambda i: A[i] + 1.0, name="p")
    q = te.compute((8,), lambda i: p[i] * 3.0, name="q")
    for first, second, at, where in (
        (p, p, "i", r"as p\[j\]"),
        (p, p, "j", r"as p\[i\]"),
        (q, p, "j", "by q, attached at i"),
    ):
        c, d = two_nests(first, second)
        axes = {a.name: a for a in c.op.axis}
        s = te.create_schedule(c.op)
        s[p].compute_at(s[c], axes[at])
        if first is q:
            s[q].compute_at(s[c], axes["i"])
        why = rf"p, two_nests, {at}\): p is also read outside of that loop, {where}"
        with pytest.raises(LowerError, match=why):
            whet.lower(s, [A, c, d])


def test_layouts_of_what_a_script_reads():
    p = te.compute((8,), lambda i: A[i] + 1.0, name="p")
    c, d = two_nests(A, p)
    s = te.create_schedule(c.op)
    s[p].transform_layout(lambda i: [i // 4, i % 4])
    with pytest.raises(LowerError, match="the script two_nests takes p as rows in memory"):
        whet.lower(s, [A, c, d])
    s[p].compute_inline()  # nothing of it is in memory
    assert "allocate" not in str(whet.lower(s, [A, c, d]))


def test_modules():
    module = te.hybrid.HybridModule()
    with pytest.raises(ArgumentError, match="there is no script yet"):
        module.get_source()
    with pytest.raises(ArgumentError, match="defines 0 functions"):
        te.hybrid.HybridModule("x = 1\n")
    b = te.extern((8,), [A], lambda i, o: whet.tir.call_packed("f", i[0], o[0]), name="b")
    with pytest.raises(LowerError, match="a script has nothing for Evaluate"):
        te.hybrid.build(te.create_schedule(b.op), [A], [b])
    with pytest.raises(ArgumentError, match="is not a schedule"):
        te.hybrid.build(3, [A], [b])
