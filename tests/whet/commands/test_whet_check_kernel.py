"""`whet check-kernel`: what it says of good and bad kernels, and what it cannot read."""

import pytest

from whet.cli import main
from whet.compiler.emulator.handwritten.adapt import adapt

FILE = """
// whet: scale<<<4, (256, 1)>>>(float32[1000], out float32[1000], 2.0f, 1000)
__global__ void scale(const float *x, float *y, float a, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = a * x[i];
}
// whet: sums<<<2, 64, 256>>>(float32[2, 64], out float32[2])
__global__ void sums(const float *x, float *y) {
    extern __shared__ float s[];
    s[threadIdx.x] = x[blockIdx.x * 64 + threadIdx.x];
    for (int n = 32; n > 0; n /= 2) {
        __syncthreads();
        if (threadIdx.x < n) s[threadIdx.x] += s[threadIdx.x + n];
    }
    if (threadIdx.x == 0) y[blockIdx.x] = s[0];
}
int main() { scale<<<4, 256>>>(nullptr, nullptr, 2, 3); }
"""
SCHEDULES = """
from whet import te

def add(n, threads=32):
    A = te.placeholder((n,), name="A")
    B = te.compute((n,), lambda i: A[i] + 1.0, name="B")
    s = te.create_schedule(B.op)
    o, i = s[B].split(B.op.axis[0], threads)
    s[B].bind(o, te.thread_axis("blockIdx.x"))
    s[B].bind(i, te.thread_axis("threadIdx.x"))
    return s, [A, B]

def symbolic():
    return add(te.size_var("n"))

def gather(m):
    A, I = te.placeholder((m,), name="A"), te.placeholder((64,), "int32", name="I")
    B = te.compute((64,), lambda i: A[I[i]] * 2.0, name="B")
    s = te.create_schedule(B.op)
    s[B].bind(B.op.axis[0], te.thread_axis("threadIdx.x"))
    return s, [A, I, B]

number = 7
"""
CLEAN = "no race, no barrier that threads miss, nothing out of bounds or read before it was written"


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "kernels.cu").write_text(FILE)
    (tmp_path / "schedules.py").write_text(SCHEDULES)
    return tmp_path


def said(capsys, *words):
    code = main(["check-kernel", *words])
    out = capsys.readouterr()
    return code, out.out + out.err


def test_a_file_whose_launches_stand_in_comments(files, capsys):
    code, text = said(capsys, "kernels.cu", "--orders", "3")
    assert code == 0
    assert text.splitlines() == [
        f"{name}: 3 orders of threads: {CLEAN}" for name in ("scale", "sums")
    ]


@pytest.mark.parametrize(
    "before, after, wanted",
    [
        ("        __syncthreads();\n", "", "a race: it writes shared s["),
        ("if (i < n) y", "y", "it reads global x[1000], out of bounds: there are 1000 elements"),
        ("n = 32", "n = 64", "shared s[127], out of bounds: there are 64 elements"),
        ("threadIdx.x] = x[", "threadIdx.x & 62] = x[", "s["),
        (
            "        __syncthreads();\n",
            "        if (threadIdx.x < n) __syncthreads();\n",
            "barrier",
        ),
    ],
)
def test_mistakes_in_a_file(files, capsys, before, after, wanted):
    assert before in FILE
    (files / "kernels.cu").write_text(FILE.replace(before, after))
    code, text = said(capsys, "kernels.cu")
    assert code == 1 and text.startswith("EmulatorError: emulating s")
    assert wanted in text and "\n  line " in text


def test_a_launch_from_the_command_line(files, capsys):
    launch = "sums<<<3, 64, 256>>>(float32[2, 64], out float32[3])"
    code, text = said(capsys, "kernels.cu", "--launch", launch)
    assert code == 1
    assert "block (2, 0, 0), thread (0, 0, 0): it reads global x[128], out of bounds" in text


def test_results_that_depend_on_the_order_of_threads(files, capsys):
    (files / "kernels.cu").write_text("""
    // whet: last<<<1, 64>>>(int32[1])
    __global__ void last(int *y) { atomicExch(y, threadIdx.x); }
    """)
    code, text = said(capsys, "kernels.cu")
    assert code == 1
    assert "its results with threads in the order 'backwards' are not those" in text


def test_a_schedule(files, capsys):
    code, text = said(capsys, "schedules.py:add", "--args", "77", "16", "--orders", "2")
    assert (code, text) == (0, f"add: 2 orders of threads: {CLEAN}, numbers as without threads\n")
    code, text = said(capsys, "schedules.py:symbolic", "--size", "n=45", "--orders", "1")
    assert code == 0 and text.startswith("symbolic: 1 order of threads")


def test_a_schedule_with_a_mistake(files, capsys):
    assert said(capsys, "schedules.py:gather", "--args", "8", "--orders", "1")[0] == 0
    code, text = said(capsys, "schedules.py:gather", "--args", "7")
    assert code == 1
    assert "it reads global A[7], out of bounds: there are 7 elements of 4 bytes" in text


def test_numbers_that_differ_without_threads(files, capsys, monkeypatch):
    from whet.compiler.emulator.sanitizer import sanitize

    assert said(capsys, "schedules.py:add", "--args", "7", "--orders", "1")[0] == 0
    monkeypatch.setattr(sanitize, "compare", lambda a, b, scaled: (1, "[0] is 1.0, and 2.0"))
    code, text = said(capsys, "schedules.py:add", "--args", "7", "--orders", "1")
    assert (
        code == 1
        and "the schedule makes another computation" in text
        and "B[0] is 1.0, and 2.0 without threads" in text
    )


@pytest.mark.parametrize(
    "words, code, wanted",
    [
        (["no.cu"], 2, "there is no file no.cu"),
        (["kernels.cu", "--args", "3"], 2, "--args and --size are for schedules"),
        (["kernels.cu", "--launch", "scale(3)"], 1, "it is not one\n  f<<<grid, block>>>"),
        (["kernels.cu", "--launch", "scale<<<1, 2>>>(float32[4])"], 1, "it takes 4: float * x"),
        (["kernels.cu", "--launch", "scale<<<1, x>>>()"], 1, "'x' is no extent"),
        (["kernels.cu", "--launch", "scale<<<1>>>()"], 1, "1 values stand between"),
        (["kernels.cu", "--launch", "none<<<1, 2>>>()"], 1, "the text has 2: scale, sums"),
        (["kernels.cu", "--launch", "sums<<<1, 2>>>(flat[4], x)"], 1, "flat is no type"),
        (["kernels.cu", "--launch", "sums<<<1, 2>>>(x, y)"], 1, "neither a number nor an array"),
        (["kernels.cu", "--launch", "sums<<<1, 2>>>(3, 4)"], 1, "it is a pointer\n  give an array"),
        (["schedules.py"], 2, "is neither FILE.cu nor FILE.py:NAME"),
        (["schedules.py:number"], 2, "no template, task or function 'number'"),
        (["schedules.py:symbolic"], 1, "the size n is not known\n  --size n=37"),
        (["schedules.py:symbolic", "--size", "n"], 2, "write NAME=N"),
        (["schedules.py:add", "--launch", "x"], 2, "--launch and -D are for a .cu file"),
        (["schedules.py:add", "--args", "3", "--target", "llvm"], 2, "runs kernels of kind cuda"),
    ],
)
def test_what_cannot_be_read(files, capsys, words, code, wanted):
    got, text = said(capsys, *words)
    assert (got, wanted in text) == (code, True), text


def test_a_file_without_a_launch(files, capsys):
    (files / "kernels.cu").write_text(FILE.replace("whet:", "what:"))
    code, text = said(capsys, "kernels.cu")
    assert code == 2 and "no launch is given, and none stands in kernels.cu" in text


LOCAL = """
// whet: f<<<1, 32>>>(float32[128], out float32[32])
__device__ float first(const float p[]) { return p[0]; }
__device__ float table[4];
__global__ void f(const float *x, float *y) {
    float acc[4];
    float whole[2] = {0.0f, 1.0f};
    float tile[2][2];
    for (int k = 0; k < 4; ++k) acc[k] = x[threadIdx.x * 4 + k];
    tile[0][0] = acc[3] > acc[2] ? acc[0] : acc[1];
    y[threadIdx.x] = fmaxf(acc[0], acc[1]) + whole[1] + *tile[0] + table[0] + first(x);
}
"""


def test_arrays_of_a_thread_are_looked_at(files, capsys):
    (files / "kernels.cu").write_text(LOCAL.replace("k < 4", "k < 3"))
    code, text = said(capsys, "kernels.cu")
    assert code == 1 and "it reads local acc[3], which nothing has written" in text
    (files / "kernels.cu").write_text(LOCAL.replace("k < 4", "k < 5"))
    code, text = said(capsys, "kernels.cu")
    assert code == 1 and "local acc[4], out of bounds: there are 4 elements" in text


def test_an_array_with_a_reference_to_an_element_stays_as_it_is():
    text = "__global__ void f() {{ float acc[4]; {}; }}"
    for watched in ("y = n & max(acc[0], 1)", "acc[0] = acc[1]", "n &= acc[1]", "b & c == acc[0]"):
        assert "WHET_LOCAL(float, acc, 4)" in adapt(text.format(watched)).text
    for reference in ("float &r = acc[0]", "const float& r{acc[0]}", "float *p = &acc[1]"):
        assert "float acc[4];" in adapt(text.format(reference)).text


def test_what_is_not_looked_at_is_said(files, capsys):
    (files / "kernels.cu").write_text(LOCAL)
    code, text = said(capsys, "kernels.cu", "--orders", "2")
    assert code == 0
    assert text.splitlines() == [
        f"f: 2 orders of threads: {CLEAN}",
        "  as far as memory is looked at; not looked at: the pointer p, the device's array table, "
        "the local array whole, the local array tile",
    ]
