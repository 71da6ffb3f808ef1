"""The vectorised functions of float32 against float64, over all exponents and near every border."""

import math

import math_reference as ref
import numpy as np
import pytest

# ulp; the exhaustive check says how much of it is used (scripts/check_math --exhaustive)
LIMITS = ref.LIMITS["2ulp"]

TARGETS = {
    "native": "llvm",
    "no fma": "llvm -mcpu=x86-64 -mattr=+sse4.2",
    "baseline": "llvm -mcpu=x86-64",
}


def run_on(name, target, n):
    f = ref.kernel(name, n, target)

    def run(x):
        out = np.full_like(x, 12345)
        f(x, out)
        return out

    return run


@pytest.mark.parametrize("target", ["native", "no fma"])
@pytest.mark.parametrize("name", ref.FUNCTIONS)
def test_within_2_ulp(name, target):
    x = ref.stratified(len(name + target), each=400)
    x = x[: len(x) // 64 * 64 + 37]  # a tail of all sizes of vectors
    found = ref.worst(name, run_on(name, TARGETS[target], len(x)), x)
    assert found.ulp <= LIMITS[name], str(found)


@pytest.mark.parametrize("name", ["exp", "log", "tanh", "sin"])
def test_without_rounding_instructions(name):
    x = ref.stratified(5, each=40)
    found = ref.worst(name, run_on(name, TARGETS["baseline"], len(x)), x)
    assert found.ulp <= LIMITS[name], str(found)


@pytest.mark.parametrize("name", ref.FUNCTIONS)
def test_a_lane_and_a_scalar_agree(name):
    """A tail of a vectorised loop computes what the vectors compute."""
    x = ref.stratified(7, each=8)
    n = len(x) // 64 * 64
    vectors = run_on(name, TARGETS["native"], n)(x[:n])
    one = run_on(name, TARGETS["native"], 1)
    scalars = np.concatenate([one(x[k : k + 1]) for k in range(0, n, 29)])
    np.testing.assert_array_equal(vectors[::29], scalars)


SPECIAL = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-45, -1e-45, 3e38, -3e38], "float32")


@pytest.mark.parametrize("name", ref.FUNCTIONS)
def test_special_values(name):
    x = np.resize(SPECIAL, 64 + len(SPECIAL))
    found = ref.worst(name, run_on(name, TARGETS["native"], len(x)), x)
    assert found.ulp <= LIMITS[name], str(found)


def test_the_error_measure():
    """The base of the tests above: one ulp is one ulp, and specials must agree."""
    one = np.array([1.0, 1.0, 2.0**-149, 1.0, 0.0, np.nan], "float32")
    want = np.array([1 + 2.0**-23, 1 - 2.0**-24, 0.0, np.inf, -0.0, 1.0])
    np.testing.assert_array_equal(ref.errors(one[:2], want[:2]), [1.0, 1.0])
    assert np.isinf(ref.errors(one[2:], want[2:])).all()
    assert ref.errors(np.array([np.inf], "f4"), np.array([2.0**128]))[0] == 0
    for x in (0.1, 0.7, 1.5, 3.0, 5.0, -2.0):
        assert abs(ref._erf(np.array([x]))[0] / math.erf(x) - 1) < 1e-14
