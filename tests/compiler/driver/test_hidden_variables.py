"""Loops that move data from and to many addresses: LLVM does not see their variable."""

import functools
import operator

import numpy as np
import pytest

import whet
from whet.compiler import driver, te
from whet.compiler.codegen.llvm.generate import generate
from whet.compiler.target import Target


def many_rows(n, rows, parallel=False, products=False):
    """The sum of elements of so many rows: an address for each."""
    a, b = te.placeholder((rows, n), name="A"), te.placeholder((rows,), name="B")

    def total(i):
        parts = [a[k, i] for k in range(rows)]
        if products:  # two an address
            parts = [x * b[(k + more) % rows] for more in (0, 1) for k, x in enumerate(parts)]
        return functools.reduce(operator.add, parts)

    c = te.compute((n,), total, name="C")
    s = te.create_schedule(c.op)
    if parallel:
        s[c].parallel(c.op.axis[0])
    return s, [a, b, c] if products else [a, c]


def hides(s, args, mcpu="x86-64-v3"):
    ll = driver.build(s, args, target=Target(f"llvm -mcpu={mcpu}")).get_source("ll")
    return ll.count('= call i64 asm "", "=r,0"(i64 %')


@pytest.mark.parametrize("mcpu", ["x86-64-v2", "x86-64-v3", "x86-64-v4"])
def test_only_loops_of_many_addresses(mcpu):
    assert hides(*many_rows(50, 60), mcpu) == 0
    assert hides(*many_rows(50, 90), mcpu) == 1
    if mcpu != "x86-64-v2":  # which multiplies and adds apart
        assert hides(*many_rows(50, 90, products=True), mcpu) == 0


def test_only_innermost_loops():
    a = te.placeholder((150, 6, 50), name="A")
    c = te.compute((6, 50), lambda i, j: sum(a[k, i, j] for k in range(150)), name="C")
    assert hides(te.create_schedule(c.op), [a, c]) == 1


@pytest.mark.parametrize("parallel", [False, True])
def test_numbers(parallel):
    s, args = many_rows(53, 140, parallel)
    assert hides(s, args) == 1
    f = whet.build(s, args)
    x = np.random.default_rng(3).standard_normal((140, 53)).astype("float32")
    out = np.full(53, np.nan, "float32")
    f(x, out)
    np.testing.assert_allclose(out, x.sum(0, dtype="float64"), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    "processor",
    ["-mtriple=aarch64-linux-gnu", "-mtriple=armv7l-linux-gnueabihf -mcpu=cortex-a15",
     "-mtriple=i686-linux-gnu -mcpu=pentium4"],
)  # fmt: skip
def test_processors_of_32_bits_and_others_take_the_empty_assembly(processor):
    s, args = many_rows(50, 90)
    target = Target(f"llvm {processor}")
    with target:
        artifact = generate(driver.lower(s, args), target)
    assert ' asm ""' in artifact.source and artifact.object
