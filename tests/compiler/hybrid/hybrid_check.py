"""Runs hybrid scripts: compiled, as Python, printed and read again; all must agree."""

from __future__ import annotations

import itertools

import numpy as np

import whet
from whet import te, tir

TARGET = "llvm -num_threads=2"


def numbers(shape, dtype, rng):
    """Fresh numbers of a type."""
    if np.dtype(dtype).kind == "f":
        return rng.uniform(-2, 2, shape).astype(dtype)
    return rng.integers(-9 if np.dtype(dtype).kind == "i" else 0, 10, shape).astype(dtype)


def poisoned(shape, dtype):
    """An output that nothing has written."""
    kind = np.dtype(dtype)
    return np.full(shape, np.nan if kind.kind == "f" else np.iinfo(kind).max, kind)


def known(x, sizes):
    """A size as a number."""
    if isinstance(x, tir.PrimExpr):
        x = whet.arith.Analyzer().simplify(
            tir.substitute(x, {v: tir.const(n) for v, n in sizes.items()})
        )
        return int(x)
    return int(x)


def made(x, sizes, rng):
    """What stands for an argument when a script runs: an array, a number, a list of them."""
    if isinstance(x, te.Tensor):
        return numbers([known(d, sizes) for d in x.shape], x.dtype, rng)
    if isinstance(x, (list, tuple)):
        return [made(y, sizes, rng) for y in x]
    return known(x, sizes) if isinstance(x, tir.Var) else x


def leaves(args):
    """The tensors and variables among arguments, lists taken apart."""
    for x in args:
        if isinstance(x, (list, tuple)):
            yield from leaves(x)
        elif isinstance(x, (te.Tensor, tir.Var)) or hasattr(x, "ctypes"):
            yield x


def run_compiled(schedule, args, arrays, outs, sizes=None, target=TARGET):
    """The outputs of a compiled schedule."""
    sizes = sizes or {}
    f = whet.build(schedule, [*args, *outs], target)
    results = [poisoned([known(d, sizes) for d in t.shape], t.dtype) for t in outs]
    f(*arrays, *results)
    return results


def check(script, args, sizes=None, rng=None, schedule=None, outs=None, tol=1e-5, target=TARGET):
    """Compare a script's three lives: compiled, as Python, and printed.

    Returns:
        The results of the run as Python, for a test to compare with numpy.
    """
    sizes = sizes or {}
    if outs is None:
        outs = script(*args)
        outs = list(outs) if isinstance(outs, (list, tuple)) else [outs]
        schedule = te.create_schedule([t.op for t in outs])
    given = [made(x, sizes, rng) for x in args]
    copies = [np.copy(x) if isinstance(x, np.ndarray) else x for x in given]
    want = script(*copies)
    want = list(want) if isinstance(want, tuple) else [want]
    tensors = [x for x in leaves(args)]
    arrays = [np.copy(v) for x, v in zip(itertools.chain(leaves(args)), _flat(args, given))]
    got = run_compiled(schedule, tensors, arrays, outs, sizes, target)
    for x, y in zip(got, want):
        np.testing.assert_allclose(x, y, rtol=tol, atol=tol)
    module = te.hybrid.build(schedule, tensors, outs)
    again = module(*[np.copy(v) for v in _flat(args, given)])
    for x, y in zip(again if isinstance(again, tuple) else [again], want):
        np.testing.assert_allclose(x, y, rtol=tol, atol=tol)
    read = module(*tensors)
    read = list(read) if isinstance(read, list) else [read]
    s = te.create_schedule([t.op for t in read])
    arrays = [np.copy(v) for v in _flat(args, given)]
    for x, y in zip(run_compiled(s, tensors, arrays, read, sizes, target), want):
        np.testing.assert_allclose(x, y, rtol=tol, atol=tol)
    return given, want


def _flat(args, given):
    for x, v in zip(args, given):
        if isinstance(x, (list, tuple)):
            yield from _flat(x, v)
        elif isinstance(x, (te.Tensor, tir.Var)):
            yield v
