"""`whet check-kernel`: arrays of zeros, iota, constants and files; what arrays shall hold."""

import numpy as np
import pytest

import whet
from whet.cli import main

FILE = """
__global__ void histogram(const int *x, int *counts, unsigned *lock, float *total, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    atomicAdd(&counts[x[i]], 1);
    if (threadIdx.x != 0) return;
    while (atomicCAS(lock, 0u, 1u) != 0u) {}
    __threadfence();
    total[0] = total[0] + 0.5f;
    __threadfence();
    atomicExch(lock, 0u);
}
__global__ void axpy(int n, float a, const float *x, float *y) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = a * x[i] + y[i];
}
__global__ void gather(const float *x, const int *at, float *y) {
    y[threadIdx.x] = x[at[threadIdx.x]];
}
"""
HISTOGRAM = "histogram<<<3, 64>>>({x}, int32[8]=zeros, uint32[1]=zeros, float32[1]=0, 181)"
AXPY = "axpy<<<3, 64>>>(181, 2.0f, float32[181], float32[181])"


@pytest.fixture
def check(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "k.cu").write_text(FILE)

    def run(launch, *words):
        code = main(["check-kernel", "k.cu", "--orders", "2", "--launch", launch, *words])
        out = capsys.readouterr()
        return code, out.out + out.err

    return run


def test_counters_and_locks_begin_with_zeros(check, tmp_path):
    x = np.random.default_rng().integers(0, 8, 181).astype("int32")
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "wanted.npy", np.bincount(x, minlength=8))
    expects = ["--expect", "counts=@wanted.npy", "--expect", "total=1.5", "--expect", "lock=0"]
    for given in ("int32[181]=@x.npy", "@x.npy"):
        code, text = check(HISTOGRAM.format(x=given), *expects)
        assert code == 0 and text.strip().endswith(", numbers as expected"), text
    code, text = check(HISTOGRAM.format(x="@x.npy"), "--expect", "counts=np.bincount(x) + 1")
    assert code == 1 and "8 of 8 elements differ" in text and "is expected" in text


def test_indices_are_iota(check):
    launch = "gather<<<1, 32>>>(float32[4, 8], int32[32]=iota, out float32[32])"
    assert check(launch, "--expect", "y=x")[0] == 0
    assert check(launch.replace("iota", "7"), "--expect", "y=x.ravel()[7]")[0] == 0
    assert check(launch.replace("iota", "ones"), "--expect", "y=x.ravel()[at]")[0] == 0
    code, text = check(launch.replace("iota", "32"))
    assert code == 1 and "reads global x[32], out of bounds" in text
    code, text = check(launch, "--expect", "y=x[::-1]")
    assert code == 1 and "KernelError: checking gather<<<" in text and "--rtol and --atol" in text


def test_expressions_of_the_arguments_before_the_launch(check):
    assert check(AXPY, "--expect", "y=a*x+y", "--rtol", "1e-6", "--atol", "1e-6")[0] == 0
    for wrong in ("y=a*x", "y=a*x+y+0.01", "y=np.where(np.arange(n) == 180, 0, a*x+y)"):
        code, text = check(AXPY, "--expect", wrong)
        assert code == 1 and "is expected" in text, wrong
    assert check(AXPY, "--expect", "y=a*x+y+0.01", "--atol", "0.02")[0] == 0
    code, text = check(AXPY.replace("float32[181])", "float32[181]=nan)"), "--expect", "y=x")
    assert code == 1 and "y[0] is nan" in text and "181 of 181" in text
    assert check(AXPY.replace("float32[181])", "float32[181]=nan)"), "--expect", "y=y")[0] == 0


@pytest.mark.parametrize(
    "launch, words, code, wanted",
    [
        (AXPY, ["--expect", "z=1"], 1, "z is no array of the kernel: it has x, y"),
        (AXPY, ["--expect", "n=1"], 1, "n is no array of the kernel"),
        (AXPY, ["--expect", "y"], 2, "write NAME=WHAT"),
        (AXPY, ["--expect", "y=q+1"], 1, "NameError: name 'q' is not defined"),
        (AXPY, ["--expect", "y=x[:7]"], 1, "it has the shape (7,), and y (181,)"),
        (AXPY, ["--expect", "y=@none.npy"], 1, "none.npy"),
        (AXPY, ["--expect", "y=__import__('os')"], 1, "name '__import__' is not defined"),
        (AXPY, ["--rtol", "1"], 2, "--rtol and --atol say how near"),
        (AXPY.replace("[181],", "[181]=half,"), [], 1, "'half' fills no array"),
        (AXPY.replace("float32[181],", "out float32[181]=0,"), [], 1, "what a kernel writes (out)"),
        (AXPY.replace("float32[181],", "@no.npy,"), [], 1, "the array of no.npy"),
        (AXPY.replace("float32[181],", "float32[181]=@f.npy,"), [], 1, "f.npy holds float64[3]"),
        (AXPY.replace("float32[181],", "@f.npy,"), [], 1, "an array of float64 for axpy's x"),
        (AXPY.replace("float32[181],", "@o.npy,"), [], 1, "the array of o.npy"),
        (HISTOGRAM.format(x="int32[181]=1.5"), [], 1, "1.5 is no int32"),
        (HISTOGRAM.format(x="uint8[181]=-1"), [], 1, "-1 is no uint8"),
        (HISTOGRAM.format(x=f"int32[181]={10**400}"), [], 1, "000 is no int32"),
        (HISTOGRAM.format(x="int8[181]=iota"), [], 1, "int8 does not count to 180"),
        (HISTOGRAM.format(x=f"int32[{10**17}]=7"), [], 1, "Unable to allocate"),
        (AXPY, ["--expect", "y='1'"], 1, "it is <U1: no numbers"),
        (AXPY, ["--expect", "y=None"], 1, "it is object: no numbers"),
        (AXPY, ["--expect", "y=1j*x"], 1, "it is complex128: no numbers"),
    ],
)
def test_what_cannot_be_given_or_expected(check, tmp_path, launch, words, code, wanted):
    np.save(tmp_path / "f.npy", np.zeros(3))
    np.save(tmp_path / "o.npy", np.array([{}], object), allow_pickle=True)
    got, text = check(launch, *words)
    assert (got, wanted in text, "Traceback" in text) == (code, True, False), text


def test_kernels_are_run_from_python():
    x = np.random.default_rng().standard_normal(181).astype("f4")
    text = FILE[FILE.index("__global__ void axpy") : FILE.index("__global__ void gather")]
    _, y = whet.run_kernel(text, "axpy", 3, 64, [181, 2.0, x, np.ones(181, "f4")])
    np.testing.assert_allclose(y, 2.0 * x.astype("f8") + 1, rtol=1e-6)
    with pytest.raises(whet.KernelError, match="reads global y"):
        whet.run_kernel(text, "axpy", 3, 64, [181, 2.0, x, whet.Unwritten((181,))])
