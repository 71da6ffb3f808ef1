"""Products of bytes: four at a time where they are consecutive, with a plain loop's numbers."""

import numpy as np
import pytest
from on_emulator import Programs

import whet
from whet.compiler import te, tir
from whet.compiler.codegen.cuda import source
from whet.compiler.codegen.cuda.dot_product import DP4A, PACK


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


def of_words(byte):
    """``C[i] = sum of dp4a(pack(byte(A, i, k, 0), ..), pack(B[4 * k], ..), 0)``."""
    A, B = te.placeholder((8, 40), "int8", name="A"), te.placeholder((32,), "int8", name="B")
    k = te.reduce_axis((0, 8), name="k")

    def packed(at):
        return tir.call_intrin("int32", PACK, *(at(b) for b in range(4)))

    def element(i):
        words = packed(lambda b: byte(A, i, k, b)), packed(lambda b: B[k * 4 + b])
        return te.sum(tir.call_intrin("int32", DP4A, *words, te.const(0, "int32")), axis=k)

    C = te.compute((8,), element, name="C")
    s = te.create_schedule(C.op)
    s[C].bind(C.op.axis[0], te.thread_axis("threadIdx.x"))
    return s, [A, B, C]


def unless(test, byte):
    return te.if_then_else(test, byte, te.const(0, "int8"))


# what a byte is, by numpy's place and whether it is read; whether its word is one load
WORDS = {
    "side by side": (lambda A, i, k, b: A[i, k * 4 + b], lambda i, j: (j, True), True),
    "under one condition": (
        lambda A, i, k, b: unless(i + k < 9, A[i, k * 4 + b]),
        lambda i, j: (j, i + j // 4 < 9),
        True,
    ),
    "under several": (
        lambda A, i, k, b: unless(k * 4 + b < 27, A[i, k * 4 + b]),
        lambda i, j: (j, j < 27),
        False,
    ),
    "unaligned words": (lambda A, i, k, b: A[i, k * 4 + b + 1], lambda i, j: (j + 1, True), False),
    "turned words": (lambda A, i, k, b: A[i, k * 4 + 3 - b], lambda i, j: (j ^ 3, True), False),
    "apart": (lambda A, i, k, b: A[i, b * 8 + k], lambda i, j: (j % 4 * 8 + j // 4, True), False),
}


@pytest.fixture(scope="module")
def words():
    return Programs(
        {case.replace(" ", "_"): of_words(byte) for case, (byte, _, _) in WORDS.items()}
    )


@pytest.mark.parametrize("case", WORDS)
def test_words_are_loaded_or_put_together(case, words):
    byte, place, one = WORDS[case]
    rng = np.random.default_rng(1)
    a = rng.integers(-128, 128, (8, 40)).astype("i1")
    b = rng.integers(-128, 128, 32).astype("i1")
    wanted = np.zeros(8, "i4")
    for i, j in np.ndindex(8, 32):
        at, read = place(i, j)
        wanted[i] += int(a[i, at]) * int(b[j]) if read else 0
    np.testing.assert_array_equal(words(case.replace(" ", "_"), a, b, wanted), wanted)
    text = source(whet.lower(*of_words(byte), name="f"))
    assert ("whet_pack(" not in text) == one
    assert "whet_load<int>(B, k * 4)" in text and ", C_acc[0])" in text
