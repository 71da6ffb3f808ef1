"""Lowering what is lowered changes nothing; every pass leaves correct loop IR behind."""

import random

import numpy as np
import pytest
from random_programs import Graph
from random_schedules import RandomSchedule
from run_random import ILLEGAL

import whet
from whet import instrument, te, tir
from whet.compiler.errors import WhetError
from whet.compiler.passes import PassContext


def programs(seeds):
    """Lowered random programs, each pass verified."""
    for seed in seeds:
        rng = random.Random(seed)
        graph = Graph(rng.randint, symbolic=seed % 2 == 1)
        made = RandomSchedule(graph, rng.randint)
        try:
            with PassContext(instruments=[instrument.VerifyEach()]):
                yield whet.lower(made.s, made.args)
        except WhetError as error:
            assert any(why in str(error) for why in ILLEGAL), error


def test_lowering_twice_is_lowering_once(seeds):
    seen, some = 0, seeds(120)
    for mod in programs(some):
        text = mod.script()
        assert whet.lower(mod).script() == text
        assert whet.lower(whet.lower(mod["main"])).script() == text
        assert whet.lower(mod, simple_mode=True).script() == text
        seen += 1
    assert seen >= len(some) // 2


@pytest.mark.parametrize("size", [48, 61])
def test_templates_stay_verified(size):
    task = whet.create_task("matmul", args=(size, size, size), target="llvm")
    rng = np.random.default_rng(size)
    with task.target:
        for _ in range(12):
            s, args = task.instantiate(task.config_space.sample(rng))
            with PassContext(instruments=[instrument.VerifyEach()]):
                mod = whet.lower(s, args)
            assert whet.lower(mod).script() == mod.script()


def function(name, scale):
    a, c = (tir.decl_buffer((9, 2), "float32", n) for n in "AC")
    i, j = tir.Var("i", "int32"), tir.Var("j", "int32")
    inner = tir.For(
        j, tir.const(0), tir.const(2), "serial", c.vstore([i, j], a.vload([i, j]) * scale)
    )
    body = tir.For(i, tir.const(0), tir.const(9), "serial", inner)
    return tir.PrimFunc((a, c), body, attrs={"global_symbol": name})


def test_a_module_of_lowered_and_new_functions():
    done = whet.lower(function("one", 2.0), name="one")["one"]
    seen = []

    @tir.transform.prim_func_pass(opt_level=0, name="look")
    def look(func, mod, ctx):
        seen.append(func.attrs["global_symbol"])
        return func

    with PassContext(config={"tir.add_lower_pass": [(2, look)]}):
        mod = whet.lower(tir.IRModule({"one": done, "two": function("two", 3.0)}))
    assert mod["one"] is done and list(mod) == ["one", "two"]
    assert "C[i * 2 + j] = A[i * 2 + j] * float32(3.0)" in str(mod["two"])
    assert seen == ["two"]


def test_loop_ir_that_a_schedule_made_is_built_as_the_schedule_is():
    n = te.var("n")
    a = te.placeholder((n, 7), name="A")
    c = te.compute((n, 7), lambda i, j: a[i, j] + 1.0, name="C")
    s = te.create_schedule(c.op)
    mod = whet.lower(s, [a, c])
    x = np.arange(21, dtype="float32").reshape(3, 7)
    for built in (whet.build(mod), whet.build(mod["main"]), whet.build(whet.lower(mod))):
        y = np.full((3, 7), np.nan, "float32")
        built(x, y)
        np.testing.assert_array_equal(y, x + 1)
