"""Products of bytes: four at a time where they are consecutive, with a plain loop's numbers."""

import numpy as np
import pytest
from on_emulator import Programs

import whet
from whet.compiler import te
from whet.compiler.codegen.cuda import source


def product(n=24, m=20, k=32, kinds=("int8", "int8"), total="int32", steps=4, shared=True, b=None):
    """``C[i, j] = sum of A[i, k] * B[j, k]``, tiles of 4 x 4 elements, ``steps`` of k innermost."""
    A = te.placeholder((n, k), kinds[0], name="A")
    B = te.placeholder((m, k + 8), kinds[1], name="B")
    b = b or (lambda j, x: B[j, x])
    axis = te.reduce_axis((0, k), name="k")
    C = te.compute(
        (n, m),
        lambda i, j: te.sum(A[i, axis].astype(total) * b(B, j, axis).astype(total), axis=axis),
        name="C",
    )
    s = te.create_schedule(C.op)
    cached = [s.cache_read(x, "shared", [C]) for x in (A, B)] if shared else []
    L = s.cache_write(C, "local")
    io, jo, ii, ji = s[C].tile(*C.op.axis, 4, 4)
    jt, jv = s[C].split(ji, 2)
    s[C].reorder(io, jo, ii, jt, jv)
    for x, tag in (
        (io, "blockIdx.y"),
        (jo, "blockIdx.x"),
        (ii, "threadIdx.y"),
        (jt, "threadIdx.x"),
    ):
        s[C].bind(x, te.thread_axis(tag))
    s[L].compute_at(s[C], jt)
    ko, ki = s[L].split(s[L].op.reduce_axis[0], steps)
    s[L].reorder(ko, *s[L].op.axis, ki)
    for x in (*s[L].op.axis, ki):
        s[L].unroll(x)
    for stage in cached:
        s[stage].compute_at(s[L], ko)
        f, v = s[stage].split(s[stage].fuse(*s[stage].op.axis), 4)
        f, x = s[stage].split(f, 2)
        f, y = s[stage].split(f, 4)
        s[stage].vectorize(v)
        s[stage].bind(x, te.thread_axis("threadIdx.x"))
        s[stage].bind(y, te.thread_axis("threadIdx.y"))
    return s, [A, B, C]


def straight(B, j, k):
    return B[j, k]


CASES = {
    "signed": {},
    "unsigned": {"kinds": ("uint8", "uint8")},
    "unsigned_total": {"kinds": ("uint8", "uint8"), "total": "uint32"},
    "signed_in_an_unsigned_total": {"total": "uint32"},
    "eight_steps": {"steps": 8},
    "sixteen_steps": {"steps": 16},
    "not_shared": {"shared": False},
    "odd_sizes": {"n": 23, "m": 19},
    "size_one": {"n": 1, "m": 1, "k": 4},
}
PLAIN = {
    "two_signs": {"kinds": ("int8", "uint8")},
    "unaligned": {"b": lambda B, j, k: B[j, k + 1], "shared": False},
    "every_second_byte": {"b": lambda B, j, k: B[j, k % 16 * 2], "shared": False},
    "backwards": {"b": lambda B, j, k: B[j, 31 - k], "shared": False},
    "three_steps": {"steps": 3},
    "a_short_total": {"total": "int16"},
    "odd_depth": {"k": 33, "shared": False},
}


def made(case):
    given = {**CASES, **PLAIN}[case]
    return product(**{"b": straight, **given})


@pytest.fixture(scope="module")
def programs():
    return Programs({case: made(case) for case in (*CASES, *PLAIN)})


@pytest.mark.parametrize("case", (*CASES, *PLAIN))
def test_numbers(case, programs):
    given = {**CASES, **PLAIN}[case]
    _, (A, B, C) = made(case)
    rng = np.random.default_rng(len(case))
    shapes = [tuple(int(d.value) for d in x.shape) for x in (A, B, C)]
    a, b = (
        rng.integers(*((0, 256) if x.dtype == "uint8" else (-128, 128)), shape).astype(x.dtype)
        for x, shape in zip((A, B), shapes)
    )
    k = np.arange(shapes[0][1])
    columns = {
        "unaligned": k + 1,
        "every_second_byte": k % 16 * 2,
        "backwards": 31 - k,
    }.get(case, k)
    wanted = (a.astype("i8") @ b[:, columns].astype("i8").T).astype(given.get("total", "int32"))
    np.testing.assert_array_equal(programs(case, a, b, np.zeros_like(wanted)), wanted)


@pytest.mark.parametrize("case", CASES)
def test_four_at_a_time(case):
    lines = source(whet.lower(*made(case), name="f"))
    assert "whet_dp4a(whet_load<" in lines
    assert " * (" not in "".join(x for x in lines.splitlines() if "C_local[" in x)


@pytest.mark.parametrize("case", PLAIN)
def test_one_at_a_time(case):
    assert "whet_dp4a" not in source(whet.lower(*made(case), name="f"))


def test_a_loop_of_more_steps_stays_a_loop_of_fours():
    lines = source(whet.lower(*made("sixteen_steps"), name="f"))
    assert "k_inner < 4; ++k_inner)" in lines
    assert "k_inner * 4)" in lines
