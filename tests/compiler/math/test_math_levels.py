"""The levels of accuracy, -math=2ulp, 4ulp and fast, on every kind of processor."""

import math_reference as ref
import numpy as np
import pytest

from whet.compiler.codegen.llvm.text.module import Module
from whet.compiler.errors import TargetError
from whet.compiler.target import Target
from whet.compiler.target.machine import host
from whet.compiler.target.machine.features import X86_LEVELS

NAMES = ("exp", "exp2", "exp10", "tanh", "erf", "sigmoid")
TARGETS = {
    "SSE": "llvm -mcpu=x86-64-v2",
    "AVX2": "llvm -mcpu=x86-64-v3",
    "AVX-512": "llvm -mcpu=x86-64-v4",
    "AVX-512 on 256 bits": "llvm -mcpu=x86-64-v4 -vector-bytes=32",
}
# ulp, with FMA and without AVX-512
FAST = {"exp": 6.0, "exp10": 3.0, "exp2": 4.0, "sigmoid": 8.0, "tanh": 6.0, "erf": 11.0}


def runs(target):
    """True where this machine runs code for a target of x86-64."""
    if host.architecture() != "x86_64":
        return False
    level = target.split("-mcpu=")[1].split()[0]
    return dict(X86_LEVELS)[level] <= host.features()


def of_target(name, target, x):
    f = ref.kernel(name, len(x), target)
    out = np.full_like(x, 12345)
    f(x, out)
    return out


def here(target):
    if not runs(TARGETS[target]):
        pytest.skip(f"this machine does not run {TARGETS[target]}")
    return TARGETS[target]


@pytest.mark.parametrize("level", ["2ulp", "4ulp", "fast"])
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", NAMES)
def test_the_error_is_within_the_level(name, target, level):
    full = f"{here(target)} -math={level}"
    x = ref.stratified(len(name + full), each=80)
    x = x[: len(x) // 64 * 64 + 37]
    found = ref.worst(name, lambda v: of_target(name, full, v), x, ordinary=level == "fast")
    assert found.ulp <= ref.LIMITS[level][name], str(found)


@pytest.mark.parametrize("name", NAMES)
def test_fast_code_without_tables_is_closer(name):
    full = f"{here('AVX2')} -math=fast"
    x = ref.stratified(len(name), each=80)
    found = ref.worst(name, lambda v: of_target(name, full, v), x, ordinary=True)
    assert found.ulp <= FAST[name], str(found)


SPECIAL = np.array(
    [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-45, -1e-45, 1e-39, 3e38, -3e38]
    + [
        88.72283,
        88.72284,
        -103.97,
        -103.98,
        -87.33654,
        -87.3366,
        128.0,
        -149.5,
        -150.5,
        38.54,
        -45.2,
    ],
    "float32",
)


@pytest.mark.parametrize("level", ["2ulp", "4ulp"])
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", NAMES)
def test_special_values_of_exact_levels(name, target, level):
    x = np.resize(SPECIAL, 64 + len(SPECIAL))
    full = f"{here(target)} -math={level}"
    found = ref.worst(name, lambda v: of_target(name, full, v), x)
    assert found.ulp <= ref.LIMITS[level][name], str(found)


@pytest.mark.parametrize("target", TARGETS)
def test_special_values_of_fast_code(target):
    """Zero, one, infinity and NaN come out right; what is denormal may be zero."""
    full = f"{here(target)} -math=fast"
    x = np.resize(np.array([0, -0.0, np.inf, -np.inf, np.nan, 200, -200], "f4"), 64)
    expected = {
        "exp": [1, 1, np.inf, 0, np.nan, np.inf, 0],
        "exp2": [1, 1, np.inf, 0, np.nan, np.inf, 0],
        "exp10": [1, 1, np.inf, 0, np.nan, np.inf, 0],
        "tanh": [0, 0, 1, -1, np.nan, 1, -1],
        "erf": [0, 0, 1, -1, np.nan, 1, -1],
    }
    for name, values in expected.items():
        np.testing.assert_array_equal(of_target(name, full, x)[:7], values, err_msg=name)
    got = of_target("sigmoid", full, x)[:7]
    np.testing.assert_allclose(got, [0.5, 0.5, 1, 0, np.nan, 1, 0], atol=2.0**-126)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("level", ["4ulp", "fast"])
@pytest.mark.parametrize("name", ["tanh", "erf"])
def test_odd_functions_are_odd_and_within_one(name, level, target):
    x = ref.stratified(11, each=60)
    full = f"{here(target)} -math={level}"
    got = of_target(name, full, x)
    np.testing.assert_array_equal(of_target(name, full, -x), -got)
    assert np.nanmax(np.abs(got)) == 1


@pytest.mark.parametrize("level", ["2ulp", "4ulp", "fast"])
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", NAMES)
def test_vectors_of_all_lengths_and_scalars_agree(name, target, level):
    """By registers, whose last may be filled up."""
    full = f"{here(target)} -math={level}"
    x = np.random.default_rng(5).uniform(-6, 6, 120).astype("float32")
    whole = of_target(name, full, x)
    for lanes in (3, 8, 16, 24, 40):
        out = np.empty_like(x)
        ref.kernel(name, len(x), full, lanes=lanes)(x, out)
        np.testing.assert_array_equal(out, whole)
    np.testing.assert_array_equal(of_target(name, full, x[:1]), whole[:1])


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_narrow_floats_take_the_level_of_float32(dtype):
    from whet.compiler import driver, te

    def text(level):
        a = te.placeholder((64,), dtype, name="A")
        b = te.compute((64,), lambda i: te.exp(a[i]), name="B")
        s = te.create_schedule(b.op)
        s[b].vectorize(b.op.axis[0])
        return driver.build(s, [a, b], f"llvm -mcpu=x86-64-v3 -math={level}").get_source("ll")

    assert len({text(level) for level in ("2ulp", "4ulp", "fast")}) == 3


def test_a_level_is_part_of_the_target_but_for_the_default():
    plain = Target("llvm -mcpu=x86-64-v3")
    assert Target("llvm -mcpu=x86-64-v3 -math=2ulp") == plain
    assert (
        Target({"kind": "llvm", "mcpu": "x86-64-v3", "math": "2ulp"}).to_json() == plain.to_json()
    )
    keys = {Target(f"llvm -mcpu=x86-64-v3 -math={m}").key for m in ("2ulp", "4ulp", "fast")}
    assert len(keys) == 3 and plain.key in keys
    fast = Target("llvm -fast-math -math=fast")
    assert fast == Target("llvm -fast-math")
    assert Target("llvm -fast-math -math=2ulp").attrs["math"] == "2ulp"
    assert Target(str(Target("llvm -math=4ulp"))).attrs == {"math": "4ulp"}


def test_the_level_is_in_what_people_read():
    assert Target("llvm -math=4ulp").short.endswith("-math=4ulp")


@pytest.mark.parametrize("name", ["3ulp", "", "FAST"])
def test_an_unknown_level_is_refused_with_those_there_are(name):
    with pytest.raises(TargetError, match="2ulp \\(the default\\), 4ulp or fast"):
        Target({"kind": "llvm", "math": name})


def test_only_llvm_has_levels():
    with pytest.raises(TargetError, match="target kind 'c' has no option 'math'"):
        Target("c -math=4ulp")


@pytest.mark.parametrize(
    ("target", "level"),
    [
        ("llvm", "2ulp"),
        ("llvm -math=4ulp", "4ulp"),
        ("llvm -math=fast", "fast"),
        ("llvm -fast-math", "fast"),
        ("llvm -fast-math -math=4ulp", "4ulp"),
    ],
)
def test_fast_math_asks_for_fast_functions_unless_a_level_is_given(target, level):
    module = Module(Target(target))
    assert module.accuracy == level
    assert bool(module.flags) == ("-fast-math" in target)


@pytest.mark.parametrize(
    ("target", "has"),
    [
        ("llvm -mcpu=x86-64-v4", True),
        ("llvm -mcpu=x86-64-v3", False),
        ("llvm -mcpu=x86-64-v3 -mattr=+avx512f,+avx512vl,+avx512dq", True),
        ("llvm -mcpu=x86-64-v3 -mattr=+avx512f", False),
        ("llvm -mcpu=x86-64-v4 -mattr=-avx512dq", False),
        # what LLVM switches off with these
        ("llvm -mcpu=x86-64-v4 -mattr=-fma", False),
        ("llvm -mcpu=znver4 -mattr=-fma", False),
        ("llvm -mcpu=skylake-avx512 -mattr=-avx2", False),
        ("llvm -mcpu=x86-64-v3 -mattr=+avx512f,+avx512vl,+avx512dq,-avx2", False),
        ("llvm -mtriple=aarch64-linux-gnu", False),
    ],
)
def test_instructions_of_avx512_where_a_target_has_all_that_is_used(target, has):
    text = ref.kernel("exp", 640, target).get_source("ll") if "x86" in target else ""
    assert Module(Target(target)).avx512 == has == ("avx512.mask.scalef" in text)
