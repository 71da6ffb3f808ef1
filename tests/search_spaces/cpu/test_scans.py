"""Running sums and products in vectors: axes, types, odd lengths, exclusive ones, every width."""

import numpy as np
import pytest

import whet
from whet import te
from whet.compiler import topi
from whet.compiler.errors import LowerError
from whet.compiler.target import Target
from whet.compiler.tir import BufferLoad, BufferStore, DeclBuffer, decl_buffer

LEVELS = {"x86-64-v2": 16, "x86-64-v3": 32, "x86-64-v4": 64}
here = [n for n, size in LEVELS.items() if size <= Target("llvm").vector_bytes]
DRAWN = 3
CASES = {
    "rows": ((5, 67), 1),
    "one vector": ((3, 16), 1),
    "shorter than a vector": ((4, 3), 1),
    "one": ((7, 1), 1),
    "columns": ((21, 35), 0),
    "many columns": ((6, 1100), 0),
    "few columns": ((40, 3), 0),
    "the middle": ((2, 33, 19), 1),
    "all": ((5, 7, 9), None),
    "trailing ones": ((3, 50, 1), 1),
}


def expected(x, axis, exclusive, operation):
    """In float64, or in integers that wrap around."""
    wide = x.astype("float64") if x.dtype.kind == "f" else x
    cumulated = np.cumsum if operation == "cumsum" else np.cumprod
    wide = wide.reshape(-1) if axis is None else wide
    out = cumulated(wide, axis or 0, dtype=wide.dtype)
    if exclusive:
        out = np.roll(out, 1, axis or 0)
        np.moveaxis(out, axis or 0, 0)[0] = operation == "cumprod"
    return out


def checked(shape, axis, dtype, operation, exclusive, target):
    X = te.placeholder(shape, dtype, name="X")
    Y = getattr(topi, operation)(X, axis, exclusive=exclusive)
    task = whet.create_task(outputs=[Y], args=[X, Y], target=target)
    rng = np.random.default_rng()
    space = task.config_space
    configs = [space.default, *(space.sample(rng) for _ in range(DRAWN))]
    for config in {c.key: c for c in configs}.values():
        schedule, args = task.instantiate(config)
        kernel = whet.build(schedule, args, target=task.target)
        low, high = (-9, 9) if operation == "cumsum" else (-1.1, 1.1)
        x = rng.uniform(low, high, shape).astype(dtype)
        wanted = expected(x, axis, exclusive, operation)
        made = np.full(wanted.shape, 77, dtype)
        kernel(x, made)
        if dtype.startswith("int"):
            np.testing.assert_array_equal(made, wanted, err_msg=str(config))
            continue
        scale = max(1.0, float(np.abs(wanted).max()))
        near = {"float16": 1e-3, "float32": 1e-5, "float64": 1e-13}[dtype]
        np.testing.assert_allclose(made, wanted, rtol=0, atol=near * scale, err_msg=str(config))


@pytest.mark.parametrize("level", here)
@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("operation", ["cumsum", "cumprod"])
@pytest.mark.parametrize("name", CASES)
def test_drawn_configs_are_right(name, operation, exclusive, level):
    checked(*CASES[name], "float32", operation, exclusive, f"llvm -num-threads=2 -mcpu={level}")


@pytest.mark.parametrize("target", ["llvm -num-threads=1", "c"])
@pytest.mark.parametrize("dtype", ["float64", "float16", "int32", "int8"])
@pytest.mark.parametrize("name", ["rows", "columns", "all"])
def test_types(name, dtype, target):
    checked(*CASES[name], dtype, "cumsum", False, target)


def test_sums_within_a_vector_are_no_chain():
    task = whet.create_task("cumsum", args=((8, 640),), target="llvm -mcpu=x86-64-v3")
    text = str(whet.lower(*task.instantiate()))
    assert task.config_space.default.as_dict()["vector"] == 8
    assert text.count("shuffle") == 2 * 4  # three steps and the last lane, of two vectors


@pytest.mark.parametrize("cpu, lanes", [("znver4", 8), ("x86-64-v4", 16), ("x86-64-v2", 4)])
def test_vectors_are_as_wide_as_the_processor_adds_at_once(cpu, lanes):
    task = whet.create_task("cumsum", args=((8, 640),), target=f"llvm -mcpu={cpu}")
    assert task.config_space.default.as_dict()["vector"] == lanes


def test_a_view_of_memory_that_is_not_compact_is_refused():
    step = te.var("step")
    declared = decl_buffer((4, 8), name="X", strides=(step, 1))

    def body(ins, outs):
        view = decl_buffer((32,), name="flat", data=ins[0].data)
        first = BufferLoad(view, (te.const(0),), "float32")
        return DeclBuffer(view, BufferStore(outs[0], first, (te.const(0),)))

    X = te.placeholder((4, 8), name="X")
    Y = te.extern((1,), [X], body, in_buffers=[declared], dtype="float32", name="Y")
    schedule = te.create_schedule(Y.op)
    whet.lower(schedule, [X, Y])
    strided = decl_buffer((4, 8), name="X", strides=(40, 1))
    with pytest.raises(LowerError, match="not compact"):
        whet.lower(schedule, [X, Y], binds={X: strided})
