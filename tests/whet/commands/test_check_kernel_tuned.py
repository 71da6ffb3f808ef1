"""`whet check-kernel` on kernels of tuners: templates by their arguments, constants by macros."""

import pytest

from whet.cli import main
from whet.compiler.emulator.handwritten.functions import instance
from whet.compiler.emulator.sanitizer.launch_text import read_launch
from whet.compiler.errors import ArgumentError, CodegenError

GEMM = """#include <cuda_runtime.h>
template <int N, typename T = float>  // a tile's side, and what it holds
__global__ void f(const T *x, T *y) {
    __shared__ T tile[N][N + PAD];
    int i = threadIdx.x, j = threadIdx.y;
    tile[j][i] = x[j * N + i];
    __syncthreads();
    y[j * N + i] = tile[i][j];
}
template <int N> __device__ int unused() { return N; }
"""


def said(capfd, folder, text, launch, *words):
    (folder / "k.cu").write_text(text)
    code = main(["check-kernel", str(folder / "k.cu"), "--orders", "1", "--launch", launch, *words])
    out = capfd.readouterr()
    return code, out.out + out.err


def test_a_template_and_a_macro(capfd, tmp_path):
    launch = "f<8><<<1, dim3(8, 8)>>>(float32[8, 8], out float32[8, 8])"
    code, text = said(capfd, tmp_path, GEMM, launch, "-DPAD=1")
    assert code == 0 and text.startswith("f: 1 order of threads: no race"), text
    # a fault is named by the line of the file
    broken = GEMM.replace("    __syncthreads();\n", "")
    launch = "f<8, double><<<1, dim3(8, 8)>>>(float64[8, 8], out float64[8, 8])"
    code, text = said(capfd, tmp_path, broken, launch, "-D", "PAD=1")
    assert code == 1 and "\n  line 6: tile[j][i] = x[j * N + i];" in text, text


def test_a_kernel_in_a_namespace(capfd, tmp_path):
    text = (
        "namespace a { namespace b::c {\n__global__ void f(float *y) { y[threadIdx.x] = 1; }\n}}\n"
    )
    code, said_text = said(capfd, tmp_path, text, "a::b::c::f<<<1, 8>>>(out float32[8])")
    assert code == 0 and said_text.startswith("f: 1 order of threads: no race"), said_text


def test_words_that_are_no_macro(capfd, tmp_path):
    code, text = said(capfd, tmp_path, GEMM, "f<<<1, 1>>>()", "-D", "two words=3")
    assert code == 2 and "-D two words=3: write NAME=VALUE" in text


@pytest.mark.parametrize(
    "launch, wanted",
    [
        ("f<8, pair<int, 2>> <<<4, 64>>>(3)", ("8", "pair<int, 2>")),
        ("f<<<4, 64>>>(3)", ()),
        ("f< 32*2 ><<<(1, 2), 64>>>(float32[4])", ("32*2",)),
    ],
)
def test_launches_of_templates(launch, wanted):
    assert read_launch(launch).template == wanted


@pytest.mark.parametrize(
    "name, arguments, message",
    [
        ("f", ["1", "2", "3"], r"it takes 2: int N, typename T = float"),
        ("g", ["1"], r"g is no template\n  g<<<grid, block>>>"),
        ("v", ["1"], r"its parameter 'int... N' is neither a type nor a value"),
        ("w", ["1"], r"it has no argument for 'bool b'"),
    ],
)
def test_arguments_that_a_template_does_not_take(name, arguments, message):
    text = GEMM + (
        "__global__ void g(int n) {}\ntemplate <int... N> __global__ void v() {}\n"
        "template <int a, bool b> __global__ void w() {}\n"
    )
    with pytest.raises(ArgumentError, match=message):
        instance(text, name, arguments)


def test_a_template_without_arguments_says_how(capfd, tmp_path):
    launch = "f<<<1, 8>>>(float32[64], out float32[64])"
    code, text = said(capfd, tmp_path, GEMM, launch, "-DPAD=1")
    assert code == 1 and "f<32, float><<<grid, block>>>(...)" in text
    assert CodegenError.__name__ in text
