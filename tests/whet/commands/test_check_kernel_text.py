"""`whet check-kernel` on CUDA C as people write it: declarations, types, other kernels, no end."""

import re
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest

from whet.cli import main
from whet.commands import time_limit
from whet.compiler.emulator.handwritten import syntax
from whet.compiler.emulator.handwritten.adapt import adapt
from whet.compiler.emulator.handwritten.functions import with_kernels
from whet.compiler.emulator.handwritten.refusals import refused
from whet.compiler.emulator.options import emulator_options
from whet.compiler.emulator.sanitizer.run import run_kernel
from whet.compiler.errors import ArgumentError, KernelError, TargetError

ROOT = Path(__file__).resolve().parents[3]
LAUNCH = "f<<<1, 32, 128>>>(float32[128], float32[128])"
KERNEL = """
{before}
__global__ void f(const float *x, float *y) {{
    int i = threadIdx.x;
    {body}
}}
"""


def said(capfd, folder, body, before="", launch=LAUNCH, words=()):
    (folder / "k.cu").write_text(KERNEL.format(before=before, body=body))
    code = main(["check-kernel", str(folder / "k.cu"), "--orders", "1", "--launch", launch, *words])
    out = capfd.readouterr()
    return code, out.out + out.err


def test_declarations_of_a_file_and_several_at_once(capfd, tmp_path):
    before = (
        "extern __shared__ float dyn[];\n"
        "__constant__ float W[4], V;\n"
        "__device__ float sum(const float *p) { return p[0] + p[3]; }"
    )
    body = (
        "__shared__ float a[32], b[2][32];\n"
        "dyn[i] = x[i]; a[i] = b[1][i] = 1; __syncthreads();\n"
        "y[i] = dyn[31 - i] + a[31 - i] + b[1][31 - i] + W[i & 3] + V + sum(&x[4 * threadIdx.x]);\n"
        "__syncthreads();\n"
        "reinterpret_cast<float4 *>(y)[i] = reinterpret_cast<const float4 *>(x)[i];\n"
        'if (i == 3) printf("%g at %d\\n", y[12] - x[12], i);'
    )
    code, text = said(capfd, tmp_path, body, before)
    assert (code, text.splitlines()[0]) == (0, "0 at 3"), text


def test_what_declarations_of_a_file_hold_is_looked_at(capfd, tmp_path):
    before = "extern __shared__ float dyn[];\n__device__ float sum(const float *p) { return p[0]; }"
    body = 'dyn[i] = x[i]; y[i] = dyn[i] + sum(&x[4 * threadIdx.x]); printf("done\\n");'
    code, text = said(capfd, tmp_path, body, before, LAUNCH.replace("128>>>", "124>>>"))
    assert code == 1 and "writes shared dyn[31], out of bounds: there are 31 elements" in text
    assert text.startswith("done\n" * 31)
    code, text = said(capfd, tmp_path, body.replace("&x[4", "&x[5"), before)
    assert code == 1 and "it reads global x[130], out of bounds" in text


def test_an_address_is_told_from_a_binary_and():
    text = adapt(
        "__global__ void f(const int *x, int *y, int n) { y[0] = n & x[1]; g(&x[y[2]]); }"
    )[0]
    assert "n & x[1]" in text and "g((x + static_cast<long long>(y[2])))" in text


def test_a_declaration_of_several_names_is_one_for_each_where_they_differ():
    body = "const float *p = x, *q = p + 1; float acc[2], *r = y, rest; for (float *t = y, u;;) {}"
    made = adapt(
        f"__device__ float sum(const float *);\nint n;\n"
        f"__global__ void f(const float *x, float *y) {{ {body} acc[0] = 1; }}"
    )
    assert "float sum(WHET_POINTER(const float));\n\n" in made.text.replace(" )", ")")
    assert "WHET_POINTER(const float) p = x, q = p + 1; " in made.text
    assert "; WHET_LOCAL(float, acc, 2); WHET_POINTER(float) r = y; float rest; for (" in made.text
    assert made.unwatched == ("the pointer t",)


def test_without_the_parser_there_is_a_way_out(monkeypatch):
    monkeypatch.setitem(sys.modules, "tree_sitter_cuda", None)
    syntax._grammar.cache_clear()
    with pytest.raises(TargetError, match="tree_sitter_cuda is not installed\n  pip install tree-"):
        syntax.Syntax("int x;")


@pytest.mark.parametrize("given, wanted", [("float64", "float32"), ("int32", "float32")])
def test_types_of_arrays_are_the_pointers(capfd, tmp_path, given, wanted):
    code, text = said(capfd, tmp_path, "", launch=f"f<<<1, 1>>>({given}[32], out float32[4])")
    assert code == 1
    assert f"an array of {given} for f's x: it points to float\n  give an array of {wanted}" in text
    code, text = said(capfd, tmp_path, "", launch=f"f<<<1, 1>>>(float32[32], out {given}[4])")
    assert code == 1 and f"an array of {given} for f's y" in text


@pytest.mark.parametrize(
    "message, why, way_out",
    [
        ("lvalue required as unary '&' operand", "address of an element", "x + i, not &x[i]"),
        ("'struct whet_emulator::Ref<float4>' has no member named 'x'", "a member of", "v.x = 0"),
        ("'cub' has not been declared", "cub is known neither", "no library"),
        ("expected ';' before '}' token", "expected ';' before '}' token", "kernel.cu:7"),
    ],
)
def test_what_the_compiler_refuses_in_the_emulators_words(message, why, way_out):
    log = f"kernel.cu: In function f:\nkernel.cu:7:3: error: {message}"
    asked, said_why, state = refused(log, 1).args
    assert asked == "compiling CUDA C for the emulator" and said_why.startswith("line 7: ")
    assert why in said_why and way_out in state and state.endswith(log)


def test_a_reference_to_an_element_is_refused_with_the_way_out(capfd, tmp_path):
    assert said(capfd, tmp_path, "float &r = y[i]; r = x[i];")[0] == 0
    before = "template <class T> __device__ void set(T &r) { r = 1; }"
    code, text = said(capfd, tmp_path, "set(y[i]);", before)
    assert code == 1 and text.startswith(
        "CodegenError: compiling CUDA C for the emulator: line 5: "
    )
    assert "a reference to an element of watched memory" in text and "take a pointer" in text


def test_other_kernels_of_the_file_need_not_compile(capfd, tmp_path):
    before = (
        "template <class T> __global__ void t(T *x) { undefined(x); }\n"
        "template __global__ void t<float>(float *);\n"
        '#define N 3\nextern "C" __global__ void __launch_bounds__(N)\n'
        "g(int *x) { if (0) {} none; }"
    )
    assert said(capfd, tmp_path, "y[i] = x[i];", before)[0] == 0
    code, text = said(capfd, tmp_path, "", before, "t<<<1, 1>>>(float32[3])")
    assert code == 1 and "it is a template, and which of its kernels is meant" in text
    source = KERNEL.format(before=before, body="")
    alone = with_kernels(source, ["f"])
    assert len(alone.splitlines()) == len(source.splitlines())
    assert "#define N 3\n" in alone and "undefined" not in alone and "none" not in alone
    with pytest.raises(ArgumentError, match="the text has 3: t, g, f"):
        with_kernels(source, ["h"])


def test_the_documents_saxpy(capfd, tmp_path):
    text = (ROOT / "docs" / "gpu.md").read_text()
    (launch,) = re.findall(r'check-kernel saxpy\.cu --launch "(.*)"', text)
    (tmp_path / "saxpy.cu").write_text(re.findall(r"```cuda\n(.*?)```", text, re.DOTALL)[0])
    assert launch in (ROOT / "README.md").read_text()
    words = ["check-kernel", str(tmp_path / "saxpy.cu"), "--orders", "1", "--launch"]
    assert main([*words, launch]) == 0
    capfd.readouterr()
    first, last = launch.rsplit(", ", 1)
    assert main([*words, f"{first}, out {last}"]) == 1
    assert "if it holds numbers before the launch, leave out its 'out'" in capfd.readouterr().err


def test_a_kernel_without_an_end(capfd, tmp_path, monkeypatch):
    monkeypatch.setattr(time_limit, "PATIENCE_SECONDS", 0.1)
    body = "volatile int k = 0; while (k == 0) {}"
    code, text = said(capfd, tmp_path, body, words=["--timeout", "0.6"])
    assert code == 1
    assert f"checking {LAUNCH}: still running; --timeout ends it at 0.6 s" in text
    assert "it did not end in 0.6 seconds\n  a loop without an end" in text


def test_what_a_process_leaves_behind_is_removed():
    made = time_limit.within(30, "checking f", tempfile.mkdtemp)
    assert not Path(made).exists() and tempfile.gettempdir() != str(Path(made).parent)


def test_a_process_that_dies():
    with pytest.raises(KernelError, match="its process died with 3"):
        time_limit.within(30, "checking f", lambda: __import__("os")._exit(3))


def test_one_argument_too_many(capfd, tmp_path):
    (tmp_path / "sched.py").write_text("def fn(n, m=2):\n    return n\n")
    code = main(["check-kernel", f"{tmp_path}/sched.py:fn", "--args", "1", "2", "3"])
    text = capfd.readouterr().err
    assert code == 1 and "Traceback" not in text
    assert "fn with 3 arguments: too many positional arguments\n  it is fn(n, m=2)" in text


def test_declarations_of_a_file_without_checks():
    source = """
    extern __shared__ float dyn[];
    __constant__ float W[2], V;
    __global__ void f(const float *x, float *y) {
        __shared__ float a[8], b[8];
        int i = threadIdx.x;
        dyn[i] = x[i]; a[i] = 1; b[i] = 2; __syncthreads();
        y[i] = dyn[7 - i] + a[7 - i] * b[7 - i] + W[1] + V;
        if (i < 2) reinterpret_cast<float4 *>(y + 8)[i] = *(const float4 *)&x[4 * i];
    }
    """
    x = np.arange(8, dtype="float32")
    with emulator_options(checks=False):
        found = run_kernel(source, "f", 1, 8, [x, np.zeros(16, "float32")], 32)[1]
    assert np.array_equal(found, np.concatenate([x[::-1] + 2, x]))
