"""A thread's own arrays in CUDA C by hand: several at once, of several dimensions, with zeros."""

import numpy as np
import pytest

from whet.compiler.emulator import EmulatorError, emulator_options
from whet.compiler.emulator.handwritten.adapt import adapt
from whet.compiler.emulator.sanitizer.run import Unwritten, run_kernel

SUMS = """
template <int N> __device__ void sums(const float *x, float *y) {
    float acc[2][N] = {0.0f}, a[2],
        b[N][2][2];
    for (int i = 0; i < 2; ++i) {
        a[i] = x[i];
        for (int j = 0; j < N; ++j) b[j][i][FIRST] = b[j][i][1] = x[2 + j];
    }
    for (int i = 0; i < 2; ++i)
        for (int j = 0; j < MOST; ++j) acc[i][j] += a[i] * b[j][i][0];
    for (int i = 0; i < 2 * N; ++i) y[i] = acc[i / N][i % N];
}
extern "C" __global__ void f(const float *x, float *y) { sums<3>(x, y); }
"""


def run(most="3", first="0", checks=True):
    x = np.arange(5, dtype="f4") + 1
    text = SUMS.replace("MOST", most).replace("FIRST", first)
    with emulator_options(checks=checks):
        return x, run_kernel(text, "f", 1, 1, [x, Unwritten((6,))])[1]


@pytest.mark.parametrize("checks", [True, False])
def test_elements_of_rows(checks):
    x, y = run(checks=checks)
    np.testing.assert_array_equal(y.reshape(2, 3), x[:2, None] * x[None, 2:])


@pytest.mark.parametrize(
    ("most", "first", "message"),
    [
        ("3", "1", r"reads local b\[0\], which nothing has written\n  line 10: "),
        (
            "4",
            "0",
            r"local (acc\[3\]|b\[12\]), out of bounds: there are (6|12) elements of 4 bytes",
        ),
    ],
)
def test_faults_in_rows(most, first, message):
    with pytest.raises(EmulatorError, match=message):
        run(most, first)


def test_an_element_for_a_reference_stays_a_plain_one():
    """Functions that accumulate into `float &` are common; a watched element binds to none."""
    text = (
        "__device__ void add_to(float &c, const float &a, float b) { c += a * b; }\n"
        "template <class T> __device__ T twice(const T &v) { return v + v; }\n"
        'extern "C" __global__ void f(const float *x, float *y) {\n'
        "    float acc[2][2] = {}, a[2]; a[0] = x[0]; a[1] = x[1];\n"
        "    for (int i = 0; i < 4; ++i) add_to(acc[i / 2][i % 2], x[1], (a[0] + a[1]) * 2);\n"
        "    y[0] = twice<float>(a[0]) + acc[1][1];\n}\n"
    )
    assert "WHET_LOCAL(float, a, 2)" in adapt(text).text
    assert "float acc[2][2] = {};" in adapt(text).text
    _, y = run_kernel(text, "f", 1, 1, [np.array([2, 3], "f4"), Unwritten((1,))])
    assert y[0] == 34


def test_what_is_handed_on_by_rows_stays_as_it_is():
    head = "__global__ void f() { float a[2][3]"
    rest = "; g(a[0]); b[0] = 1; int c[2] = {1, 2}; }"
    made = adapt(f"{head}, b[4]{rest}")
    assert made.text == f"{head}; WHET_LOCAL(float, b, 4){rest}"
    assert made.unwatched == ("the local array a", "the local array c")
