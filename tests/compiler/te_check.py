"""Builds a schedule, runs it on random inputs and compares every result with the oracle."""

import aarch64
import numpy as np
from sched_check import replays
from te_oracle import evaluate, evaluate_expr

from whet.compiler import driver, te
from whet.compiler.emulator import emulator_options
from whet.compiler.runtime.arrays import nd
from whet.compiler.tir import expr as e


def shape_of(tensor, symbols):
    return tuple(int(evaluate_size(d, symbols)) for d in tensor.shape)


def evaluate_size(d, symbols):
    return evaluate_expr(d, symbols)


def random_array(rng, shape, dtype, low=-8, high=9):
    """Small integers, so that sums fit; normal floats."""
    if dtype == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    if dtype.startswith("float"):
        return rng.standard_normal(shape).astype(dtype)
    return rng.integers(0 if dtype.startswith("uint") else low, high, shape).astype(dtype)


def poisoned(shape, dtype):
    """An output that shows what was not written."""
    if dtype.startswith("float"):
        return np.full(shape, np.nan, dtype)
    return np.full(shape, True if dtype == "bool" else 113, dtype)


def arguments(args, symbols, rng, given):
    """An array (or number) for each argument."""
    out = []
    for a in args:
        if a in given:
            out.append(given[a])
        elif isinstance(a, e.Var):
            out.append(symbols.get(a, 2))
        elif isinstance(a.op, te.ComputeOp):
            out.append(poisoned(shape_of(a, symbols), a.dtype))
        else:
            out.append(random_array(rng, shape_of(a, symbols), a.dtype))
    return out


def run_and_compare(f, args, symbols=None, there=None, **options):
    """Call a built kernel and compare; a sample runs for aarch64, too.

    Args:
        there: the kernel for aarch64; by default one of the same loops.
    """
    if there is None and aarch64.chosen and aarch64.is_built_here(f):
        there = aarch64.built_again(f)
    if there is not None:
        compared(there, args, symbols, **{**options, "place": lambda a: a})
    return compared(f, args, symbols, **options)


def compared(f, args, symbols=None, seed=0, rtol=1e-5, given=None, place=lambda a: a):
    """Call a built kernel and compare; ``place`` moves arrays elsewhere before."""
    symbols = dict(symbols or {})
    rng = np.random.default_rng(seed)
    values = arguments(args, symbols, rng, dict(given or {}))
    values = [place(v) if isinstance(v, np.ndarray) else v for v in values]
    inputs = {
        a: np.array(v)
        for a, v in zip(args, values)
        if isinstance(a, e.Var) or not isinstance(a.op, te.ComputeOp)
    }
    f(*values)
    made = [(a, v) for a, v in zip(args, values) if a not in inputs]
    for (t, got), want in zip(made, evaluate([t for t, _ in made], inputs, symbols)):
        if t.dtype.startswith("float"):
            scale = max(1.0, float(np.max(np.abs(want), initial=0.0)))
            np.testing.assert_allclose(got, want, rtol=rtol, atol=rtol * scale, err_msg=t.name)
        else:
            np.testing.assert_array_equal(got, want, err_msg=t.name)
    return [got for _, got in made]


def binds_threads(s):
    """True if a loop of a schedule is bound to a GPU's threads or blocks."""
    bound = (stage.iter_var_attrs.values() for stage in s.stages)
    tags = (a.bind_thread.thread_tag for attrs in bound for a in attrs if a.bind_thread is not None)
    return any(tag.startswith(("blockIdx", "threadIdx")) for tag in tags)


def check(s, args, symbols=None, gpu=True, **options):
    """Replay the trace of ``s``, build it for ``args``, run and compare; the results come back.

    One with loops over a GPU's threads runs in the emulator, too, backwards; ``gpu=False``: it is
    no kernel, e.g. something is computed outside all threads. A sample runs for aarch64.
    """
    replays(s, args)
    if gpu and binds_threads(s):
        check_emulated(s, args, symbols, **options)
    there = aarch64.build(s, args) if aarch64.chosen else None
    return run_and_compare(driver.build(s, args), args, symbols, there=there, **options)


def check_emulated(s, args, symbols=None, order="backwards", **options):
    """Build ``s`` for a GPU, run it in the emulator with all checks and compare."""
    kernel = driver.build(s, args, "cuda -arch=sm_80")
    device = nd.device("cuda-emulator")
    with emulator_options(checks=True, order=order):
        return run_and_compare(
            kernel, args, symbols, place=lambda a: nd.array(a, device), **options
        )
