"""CUDA programs: what they compute in the emulator, and that NVIDIA's compiler takes them."""

from dataclasses import replace

import numpy as np
import pytest
from cuda_programs import axis, elementwise, matmul, text, vectors
from emulated import agree, on_device
from on_emulator import Programs

import whet
from whet.compiler import te
from whet.compiler.codegen.cuda.nvrtc import available, compile_cubin
from whet.compiler.emulator import EmulatorError
from whet.compiler.runtime.module import Module

# numbers


def test_a_matmul_with_shared_memory():
    rng = np.random.default_rng(2)
    a, b = (rng.standard_normal((32, 32)).astype("f4") for _ in range(2))
    lines = agree(*matmul(), [a, b], [((32, 32), "float32")], [a @ b])
    assert lines.count("__syncthreads();") == 2


def test_a_missing_barrier_is_seen():
    """The emulator's checks refuse the same text without its barriers."""
    module = whet.build(*matmul(), target="cuda", name="kernel")
    a = np.random.default_rng(2).standard_normal((32, 32)).astype("f4")
    broken = replaced(module, module.get_source("cuda").replace("__syncthreads();", ""))
    with pytest.raises(EmulatorError, match=r"kernel_kernel0(.|\n)*shared"):
        on_device(broken, [a, a, np.empty_like(a)])


def replaced(module, text):
    """A module with another text."""
    (made,) = module.imported_modules
    return Module.from_artifact(replace(made.artifact, source=text))


KINDS = [("float32", 4), ("float32", 2), ("int32", 4), ("float64", 2), ("int8", 4)]


@pytest.fixture(scope="module")
def programs():
    return Programs(
        {f"e{n}": elementwise(n) for n in (48, 45, 3, 1)}
        | {f"{dtype}x{lanes}": vectors(dtype, lanes) for dtype, lanes in KINDS}
    )


@pytest.mark.parametrize("n", (48, 45, 3, 1))
def test_elements_and_a_tail(n, programs):
    a = np.random.default_rng(n).random(n).astype("f4")
    np.testing.assert_allclose(programs(f"e{n}", a, a), a * a + a, rtol=1e-6)


@pytest.mark.parametrize(("dtype", "lanes"), KINDS)
def test_vectors(dtype, lanes, programs):
    a = np.arange(-32, 32).astype(dtype)
    np.testing.assert_array_equal(programs(f"{dtype}x{lanes}", a, a), a * np.array(3, dtype))


def test_a_symbolic_length():
    n = te.size_var("n")
    A = te.placeholder((n,), name="A")
    B = te.compute((n,), lambda i: A[i] + 1.0, name="B")
    s = te.create_schedule(B.op)
    o, i = s[B].split(B.op.axis[0], 16)
    s[B].bind(o, axis("blockIdx.x"))
    s[B].bind(i, axis("threadIdx.x"))
    a = np.random.default_rng(1).random(37).astype("f4")
    lines = agree(s, [A, B], [a], [((37,), "float32")], [a + 1])
    assert "WHET_EXTENT(A, n);" in lines


# NVIDIA's compiler


@pytest.mark.parametrize("arch", ("sm_75", "sm_80", "sm_90", "sm_120"))
@pytest.mark.parametrize(
    "program",
    [
        elementwise(45),
        elementwise(48, "float16"),
        elementwise(48, "bfloat16"),
        matmul(),
        matmul(32, "float16"),
        vectors("float16", 8),
        vectors("bfloat16", 2),
        vectors("int64", 2),
        vectors(
            "float32", 4, lambda x, i: te.sigmoid(x) + te.select(x > 0, te.exp(x), te.max(x, i))
        ),
        vectors("float16", 4, lambda x, i: te.tanh(x) + x.astype("float32").astype("float16")),
        vectors("int32", 4, lambda x, i: te.if_then_else(i < 60, te.floordiv(x, i - 7), x % 5)),
        vectors("float64", 2, lambda x, i: te.sqrt(x) * te.const(float("inf"), "float64")),
    ],
    ids=lambda p: f"{p[1][-1].dtype}_{len(p[0].stages)}",
)
def test_nvidias_compiler_takes_it(program, arch):
    if not available():
        pytest.skip("NVRTC is not installed: pip install 'whet-autotune[nvrtc]'")
    assert "warning" not in compile_cubin(text(*program), arch).log
