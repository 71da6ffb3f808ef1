"""Named templates: configs drawn from each space compute what numpy does in float64."""

import aarch64
import numpy as np
import pytest
from named_cases import CASES, Case

import whet
from whet.search_spaces.values.builtin import BUILTIN

DRAWN = 4
HOMES = ("rows", "reductions", "elementwise", "pooling", "shapes")


def inputs_of(args, rng):
    """Numbers of every input; indices that are in range for all cases."""
    out = []
    for t in args[:-1]:
        shape = [int(d) for d in t.shape]
        if t.dtype == "int32":
            out.append(rng.integers(0, 6, shape).astype("int32"))
        elif t.op.name == "variance":
            out.append(rng.uniform(0.1, 2, shape).astype(t.dtype))
        else:
            out.append(rng.standard_normal(shape).astype(t.dtype))
    return out


@pytest.mark.parametrize("name", CASES)
def test_drawn_configs_are_right(name):
    case = CASES[name]
    rng = np.random.default_rng(sum(map(ord, name)))
    check_drawn(case, "llvm -num-threads=1", rng, DRAWN)
    if aarch64.chosen:
        check_drawn(case, aarch64.TARGET, rng, 1)


def check_drawn(case, target, rng, count):
    """The default config and so many others for a target."""
    task = whet.create_task(case.name, args=case.args, target=target)
    space = task.config_space
    configs = {c.key: c for c in [space.default, *(space.sample(rng) for _ in range(count))]}
    for config in configs.values():
        schedule, args = task.instantiate(config)
        kernel = aarch64.callable_here(whet.build(schedule, args, target=task.target))
        given = inputs_of(args, rng)
        wide = [x if x.dtype == "int32" else x.astype("float64") for x in given]
        wanted = case.reference(*wide)
        dtype = args[-1].dtype
        made = np.full(wanted.shape, np.nan if "float" in dtype else 77, dtype)
        kernel(*given, made)
        scale = max(1.0, float(np.abs(wanted).max()))
        np.testing.assert_allclose(
            made.astype("float64"), wanted, rtol=0, atol=case.tolerance * scale, err_msg=str(config)
        )


def test_every_memory_bound_template_has_a_case():
    named = {n for n, home in BUILTIN.items() if home.split(":")[0].split(".")[-1] in HOMES}
    assert named == {case.name for case in CASES.values()}


@pytest.mark.parametrize("begin", [0, 4])
@pytest.mark.parametrize("name", ["transpose", "softmax", "bias_gelu"])
def test_large_results_may_go_past_the_caches(name, begin):
    """Also where an array begins in the middle of a line of memory."""
    shape = (512, 512)
    task = whet.create_task(name, args=(shape,), target="llvm -num-threads=1")
    rng = np.random.default_rng(3)
    drawn = (task.config_space.sample(rng) for _ in range(100))
    choices = ((c, c.as_dict()) for c in drawn)
    # "load": vectors are read, and their lanes stored each in a row of its own
    config = next(c for c, d in choices if d["stream"] and d["vector"] not in ("none", 1, "load"))
    schedule, args = task.instantiate(config)
    kernel = whet.build(schedule, args, target=task.target)
    given = inputs_of(args, rng)
    memory = np.full(512 * 512 + 64, np.nan, "float32")
    first = -memory.ctypes.data % 64 // 4 + begin
    made = memory[first : first + 512 * 512].reshape(shape)
    kernel(*given, made)
    expected = Case(name, (shape,)).reference(*(x.astype("float64") for x in given))
    np.testing.assert_allclose(made, expected, rtol=0, atol=1e-5)
    assert np.isnan(memory[:first]).all() and np.isnan(memory[first + 512 * 512 :]).all()
    assert "!nontemporal" in kernel.get_source("ll")


@pytest.mark.parametrize("mcpu, lanes", [("x86-64-v2", 4), ("x86-64-v3", 8), ("x86-64-v4", 16)])
@pytest.mark.parametrize("vector", ["store", "turn"])
def test_a_transpose_goes_past_the_caches_at_every_width(vector, mcpu, lanes):
    target = f"llvm -num-threads=1 -mcpu={mcpu}"
    task = whet.create_task("transpose", args=((512, 512),), target=target)
    space = task.config_space
    chosen = {"tile": (64, 16), "stream": True, "vector": vector, "buffer": False}
    chosen |= {"square": lanes, "inner": "columns"}
    config = space.from_choices({**space.default.as_dict(), **chosen})
    schedule, args = task.instantiate(config)
    text = whet.build(schedule, args, target=task.target).get_source("ll")
    assert "!nontemporal" in text


def test_small_results_have_no_such_choice():
    task = whet.create_task("transpose", args=((64, 64),), target="llvm -num-threads=1")
    assert "stream" not in task.config_space.knobs
