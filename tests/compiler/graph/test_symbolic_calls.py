"""The calls of a model with symbols, listed, beside those that its function makes."""

import ctypes

import numpy as np
import pytest

import whet
from whet.compiler import driver
from whet.compiler.abi.extent import Symbol
from whet.compiler.graph.executor import ARENA, Place
from whet.compiler.graph.ir import Value
from whet.compiler.graph.symbolic.calls import (
    SymbolicCall,
    calls_at,
    in_turn,
    launched,
    outermost,
)
from whet.compiler.graph.symbolic.executor import Block, RowStep, symbolic_function
from whet.compiler.graph.symbolic.sizes import Dynamic
from whet.compiler.jit.loader import LoadedCode
from whet.compiler.runtime.module import Module

MOST, SIZES = 90, (16, 4, 1)
BLOCKS = tuple(Block(n, f"k{n}", (Place("x"), Place(ARENA, 8)), (4, 12)) for n in SIZES)
GROUP = SymbolicCall("rows", tuple(b.kernel for b in BLOCKS), (), ("y",), "blocks")


@pytest.mark.parametrize("blocks", [BLOCKS, BLOCKS[:2]])
def test_the_list_is_what_the_function_calls(blocks):
    """Kernels that note where their arrays are; places in the arena for sizes of 1."""
    least = blocks[-1].rows
    shape, ranges = (Symbol("n"),), {"n": Dynamic(least, MOST)}
    x, y = (Value(name, (MOST,), "float32") for name in "xy")
    step, target = RowStep(Symbol("n"), blocks), whet.Target("llvm").canonical()
    memory = (1, 8 * MOST + 12 * MOST)
    func = symbolic_function("model", [x], [y], {x: shape, y: shape}, ranges, memory, True, [step])
    with target:
        artifact = driver.compile_module(driver.lower(func, name="model"), target)
    met = []
    kernel = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p)
    noting = {
        b.kernel: kernel(lambda a, b, name=b.kernel: met.append((name, a, b)) or 0) for b in blocks
    }
    symbols = {f"{n}__raw": ctypes.cast(k, ctypes.c_void_p).value for n, k in noting.items()}
    model = Module(artifact, LoadedCode(artifact.object, symbols=symbols))
    constants, arena = np.zeros(1, "uint8"), np.zeros(memory[1], "uint8")
    for n in range(least, MOST + 1):
        given = [np.zeros(n, "float32") for _ in "xy"]
        met.clear()
        model(*given, constants, arena)
        begins = {"x": given[0].ctypes.data, ARENA: arena.ctypes.data}
        ((*calls,),) = calls_at([step], [GROUP], {"n": n}, n, in_turn)
        listed = [(c.kernel, *(begins[p.argument] + p.offset for p in c.places)) for c in calls]
        assert listed == met, n


def test_every_row_is_computed():
    for rows in range(1, MOST + 1):
        for taken in (in_turn, launched):
            own = list(taken(BLOCKS, rows))
            assert {r for b, at in own for r in range(at, at + b.rows)} == set(range(rows))
            if taken is launched:
                assert len({b.rows for b, _ in own}) == 1
        places = list(outermost(BLOCKS, rows))
        assert all(0 <= at <= rows - b.rows for b, at in places)
        assert {b.rows for b, _ in places} == {n for n in SIZES if n <= rows}


def test_the_last_block_reaches_back():
    """Where there are always as many rows as it has."""
    blocks = BLOCKS[:2]
    for rows in range(blocks[-1].rows, MOST + 1):
        own = list(in_turn(blocks, rows))
        assert {r for b, at in own for r in range(at, at + b.rows)} == set(range(rows))
        assert all(0 <= at <= rows - b.rows for b, at in own)
        assert sum(b.rows for b, _ in own) < rows + 8


def test_the_function_refuses_sizes_between_steps():
    shape, target = (Symbol("n"),), whet.Target("llvm").canonical()
    x, y = (Value(name, (20,), "float32") for name in "xy")
    ranges = {"n": Dynamic(2, 20, 3)}
    func = symbolic_function("model", [x], [y], {x: shape, y: shape}, ranges, (1, 1), False, [])
    with target:
        artifact = driver.compile_module(driver.lower(func, name="model"), target)
    model = Module(artifact, LoadedCode(artifact.object))
    memory = [np.zeros(1, "uint8") for _ in range(2)]
    for n in range(1, 24):
        given = [np.zeros(n, "float32") for _ in "xy"]
        if n in range(2, 21, 3):
            model(*given, *memory)
        else:
            with pytest.raises(whet.WhetError, match="n is from 2 to 20 in steps of 3"):
                model(*given, *memory)
