"""build() for GPUs, for other processors and other systems."""

from dataclasses import replace

import numpy as np
import pytest
from scaled_program import RNG, check, scaled

import whet
from whet.compiler import te
from whet.compiler.driver import build, compile_module, lower
from whet.compiler.errors import ArgumentError, ArtifactError, TargetError
from whet.compiler.runtime.compose import compose
from whet.compiler.target import Target
from whet.compiler.target.machine import host
from whet.compiler.te.primitives.auto_bind import AutoBindWarning

# GPUs


def test_a_schedule_that_binds_nothing_is_bound_and_says_so():
    n = te.size_var("n")
    A = te.placeholder((n, 37), name="A")
    k = te.reduce_axis((0, 37), name="k")
    R = te.compute((n,), lambda i: te.sum(A[i, k], axis=k), name="R")
    D = te.compute((n, 37), lambda i, j: A[i, j] / R[i], name="D")
    s = te.create_schedule(D.op)
    with pytest.warns(AutoBindWarning) as caught:
        f = whet.build(s, [A, D], target="cuda", name="norm")
    (said,) = caught
    assert said.filename == __file__
    A16 = te.placeholder((4, 4), name="A")
    B16 = te.compute((4, 4), lambda i, j: A16[i, j] + 1.0, name="B")
    with pytest.warns(AutoBindWarning, match="to blockIdx.x and 16 of threadIdx.x"):
        small = build(te.create_schedule(B16.op), [A16, B16], target="cuda")
    assert "__launch_bounds__(16)" in small.get_source("cuda")
    assert "bound R: i to blockIdx.x and 256 of threadIdx.x; D: i, j to" in str(said.message)
    source = f.get_source("cuda")
    assert source.count("__global__ void __launch_bounds__(256)") == 2
    assert not s[D].relations, "the user's schedule stays as it is"
    assert 'thread_binding(256, "threadIdx.x")' in f.get_source()
    check_rows(build(s, [A, D]))


def check_rows(f):
    a, d = RNG.random((6, 37), "float32"), np.full((6, 37), np.nan, "float32")
    f(a, d)
    np.testing.assert_allclose(d, a / a.sum(1, keepdims=True), rtol=1e-5)


def test_a_sum_of_everything_is_run_by_one_thread():
    A = te.placeholder((37,), name="A")
    k = te.reduce_axis((0, 37), name="k")
    S = te.compute((), lambda: te.sum(A[k], axis=k), name="S")
    with pytest.warns(AutoBindWarning, match="bound S: one thread"):
        f = whet.build(te.create_schedule(S.op), [A, S], target="cuda")
    assert "__launch_bounds__(1)" in f.get_source("cuda")


def test_attached_stages_and_schedules_for_the_cpu_are_bound_around(recwarn):
    A = te.placeholder((6, 64), name="A")
    B = te.compute((6, 64), lambda i, j: A[i, j] + 1.0, name="B")
    C = te.compute((6, 64), lambda i, j: B[i, j] * 2.0, name="C")
    s = te.create_schedule(C.op)
    s[C].parallel(C.op.axis[0])
    s[B].compute_at(s[C], C.op.axis[0])
    _, j = s[C].split(C.op.axis[1], 4)
    s[C].vectorize(j)
    whet.build(s, [A, C], target="cuda")
    assert "bound C: i to blockIdx.x" in str(recwarn.pop(AutoBindWarning).message)


def test_a_bound_schedule_is_left_alone(recwarn):
    s, args = scaled()
    s[args[1]].bind(args[1].op.axis[0], te.thread_axis("threadIdx.x"))
    build(s, args, target="cuda")
    assert not [w for w in recwarn if issubclass(w.category, AutoBindWarning)]


def test_what_was_built_for_a_gpu_takes_arrays_on_one(tmp_path):
    s, args = scaled()
    s[args[1]].bind(args[1].op.axis[0], te.thread_axis("threadIdx.x"))
    f = build(s, args, target=Target("cuda -arch=sm_80"), name="f")
    assert f.functions == f.imported_modules[0].functions == ["f"]
    arrays = np.zeros(9, "float32"), np.zeros(9, "float32")
    timed = f.time_evaluator("f", whet.cpu(0))
    for call in (f, f["f"], f.imported_modules[0], timed):
        with pytest.raises(ArgumentError, match=r"is in the CPU's memory.*whet\.nd\.array"):
            call(*arrays)
    f.imported_modules[0].save(tmp_path / "f.cu")
    assert (tmp_path / "f.cu").read_text() == f.get_source("cuda")


def test_kernels_without_their_functions_are_not_called():
    s, args = scaled()
    s[args[1]].bind(args[1].op.axis[0], te.thread_axis("threadIdx.x"))
    target, mod = Target("cuda -arch=sm_80"), lower(s, args, name="f")
    kernels = replace(compile_module(mod, target), plans=())
    f = compose([(target, mod, kernels)], Target("llvm"), "f")
    for call in (f, f.imported_modules[0]):
        with pytest.raises(TargetError, match=r"without the functions that launch .*\n.*source"):
            call(1, 2)


# other processors


MACHINES = {  # ELF's e_machine
    "aarch64-linux-gnu": 183,
    "riscv64-linux-gnu": 243,
    "armv7-linux-gnueabihf": 40,
    "powerpc64le-linux-gnu": 21,
    "loongarch64-linux-gnu": 258,
    "i686-linux-gnu": 3,
}


def kernel_of_all_sorts():
    """Vectors, a reduction, a tail, a function, and memory from the heap."""
    n = te.size_var("n")
    A = te.placeholder((n, 13), name="A")
    B = te.compute((n, 13), lambda i, j: te.exp(A[i, j]), name="B")
    k = te.reduce_axis((0, 13), name="k")
    C = te.compute((n,), lambda i: te.sum(B[i, k], axis=k), name="C")
    s = te.create_schedule(C.op)
    _, inner = s[B].split(B.op.axis[1], 4)
    s[B].vectorize(inner)
    s[C].parallel(C.op.axis[0])
    return s, [A, C]


@pytest.mark.parametrize("triple", MACHINES)
def test_an_object_for_another_processor(triple, tmp_path):
    s, args = kernel_of_all_sorts()
    f = build(s, args, target=f"llvm -mtriple={triple}", name="f")
    f.save(tmp_path / "f.o")
    data = (tmp_path / "f.o").read_bytes()
    assert data[:4] == b"\x7fELF" and int.from_bytes(data[18:20], "little") == MACHINES[triple]
    assert b"f__raw" in data
    assert len(f.get_source("asm")) > 500


def test_webassembly():
    s, args = kernel_of_all_sorts()
    target = Target("llvm -mtriple=wasm32-unknown-unknown")
    with target:
        made = compile_module(lower(s, args, name="f"), target)
    assert made.object[:4] == b"\0asm"


def test_code_for_another_processor_cannot_be_called():
    s, args = scaled()
    f = build(s, args, target="llvm -mtriple=riscv64-linux-gnu")
    arrays = np.zeros(9, "float32"), np.zeros(9, "float32")
    for call in (f, f["default_function"]):
        with pytest.raises(ArtifactError, match="it was made for riscv64, this machine is"):
            call(*arrays)


@pytest.mark.skipif(host.architecture() != "x86_64", reason="names features of x86-64")
def test_features_that_this_processor_lacks_are_named_when_the_kernel_is_called(tmp_path):
    s, args = scaled()
    # the last is of processors that nobody makes any more
    named = ("avx512f", "amx-tile", "avxifma", "xop")
    lacking = next(f for f in named if f not in host.all_features())
    f = build(s, args, target=f"llvm -mcpu=x86-64 -mattr=+{lacking}", name="f")
    said = rf"^calling f: its target asks for {lacking}, which .*\n  get_source\(\) and save\(\)"
    with pytest.raises(ArtifactError, match=said):
        f(np.zeros(9, "float32"), np.zeros(9, "float32"))
    assert f.get_source("asm")
    f.save(tmp_path / "f.o")
    assert (tmp_path / "f.o").stat().st_size > 0


@pytest.mark.skipif(host.architecture() != "x86_64", reason="names features of x86-64")
def test_features_that_every_processor_has_may_be_named():
    check(build(*scaled(), target="llvm -mcpu=x86-64 -mattr=+sse2"))


OTHER_SYSTEMS = (
    *("x86_64-pc-windows-msvc", "x86_64-unknown-uefi", "x86_64-apple-macos", "x86_64-freebsd"),
    *("x86_64-linux-gnux32", "x86_64-linux-musl", "x86_64-unknown-none-elf"),
)


@pytest.mark.skipif(host.triple() != "x86_64-unknown-linux-gnu", reason="of Linux on x86-64")
@pytest.mark.parametrize("triple", OTHER_SYSTEMS)
def test_code_for_another_system_of_this_processor_is_not_loaded(triple, tmp_path):
    s, args = scaled()
    f = build(s, args, target=f"llvm -mtriple={triple}", name="f")
    with pytest.raises(ArtifactError, match=f"made for the system {triple}, this machine is"):
        f(np.zeros(9, "float32"), np.zeros(9, "float32"))
    f.save(tmp_path / "f.o")
    # where LLVM knows the system, a symbol of macOS begins with a line
    assert (b"_f__raw\0" in (tmp_path / "f.o").read_bytes()) == triple.endswith("macos")


@pytest.mark.skipif(host.triple() != "x86_64-unknown-linux-gnu", reason="of Linux on x86-64")
@pytest.mark.parametrize("triple", ["x86_64", "x86_64-linux", "amd64-pc-linux-gnu"])
def test_other_names_of_this_system_are_loaded(triple):
    check(build(*scaled(), target=f"llvm -mtriple={triple}"))


def test_checked_entries_are_there_where_dltensor_looks_the_same():
    s, args = scaled()
    wide = build(s, args, target="llvm -mtriple=aarch64-linux-gnu", name="f").get_source("ll")
    narrow = build(s, args, target="llvm -mtriple=armv7-linux-gnueabihf", name="f").get_source("ll")
    assert '@"f"(ptr %args' in wide and '@"f"(ptr %args' not in narrow


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("llvm -mtriple=riscv64-linux-gnu -mcpu=generic-rv32", "RV64 target requires an RV64 CPU"),
        ("llvm -mtriple=aarch64-linux-gnu -mcpu=z80", "'z80' is not a recognized processor"),
        ("llvm -mtriple=aarch64-linux-gnu -mattr=+warp", "'\\+warp' is not a recognized feature"),
        ("llvm -mcpu=x86-64 -mattr=-64bit", "64-bit code requested"),
        ("llvm -mcpu=x86-64 -mattr=+warp", "'\\+warp' is not a recognized feature"),
        ("llvm -mtriple=aarch64-linux-gnu -mfloat-abi=soft", "passes floats in registers only"),
    ],
)
def test_what_llvm_would_end_the_process_for_is_an_error(target, message):
    s, args = scaled()
    with pytest.raises(TargetError, match=message):
        build(s, args, target=target)


def test_a_target_of_fast_math_and_levels_builds():
    s, args = scaled()
    check(build(s, args, target="llvm -opt-level=3"))
    check(build(s, args, target="llvm -opt-level=0"))
