"""Int8 contractions in graphs: dp4a for four K iterations, exactly numpy's numbers."""

import numpy as np
import pytest
from gpu_checks import TARGET
from test_gpu_tiled import drawn, emulated

import whet
from whet import te
from whet.compiler.codegen.cuda import nvrtc
from whet.search_spaces.forms.contraction import contraction_of
from whet.search_spaces.rules.gpu.contraction.packed_int8 import as_packed_int8


def _gemm(n, m, k, kinds=("int8", "int8"), transposed=False, total="int32"):
    A = te.placeholder((n, k), kinds[0], name="A")
    B = te.placeholder((k, m) if transposed else (m, k), kinds[1], name="B")
    r = te.reduce_axis((0, k), name="r")

    def element(i, j):
        right = B[r, j] if transposed else B[j, r]
        return te.sum(A[i, r].astype(total) * right.astype(total), axis=r)

    def exact(a, b):
        return a @ (b if transposed else b.T)

    return [A, B], te.compute((n, m), element, name="C"), exact


def _image(last):
    """A padded 3x3 convolution, stored as (N, H, W, C) or (N, C, H, W)."""
    n, h, c, o = 1, 6, 8, 12
    X = te.placeholder((n, h, h, c) if last else (n, c, h, h), "int8", name="X")
    W = te.placeholder((3, 3, o, c) if last else (o, c, 3, 3), "int8", name="W")
    k, y, x = (te.reduce_axis((0, n), name=name) for n, name in ((c, "k"), (3, "y"), (3, "x")))

    def pixel(b, i, j, q):
        value = X[b, i - 1, j - 1, q] if last else X[b, q, i - 1, j - 1]
        inside = te.all(i >= 1, i < h + 1, j >= 1, j < h + 1)
        return te.if_then_else(inside, value, te.const(0, "int8"))

    shape = (n, h + 2, h + 2, c) if last else (n, c, h + 2, h + 2)
    P = te.compute(shape, pixel if last else (lambda b, q, i, j: pixel(b, i, j, q)), name="P")

    def element(*at):
        b, i, j, f = at if last else (at[0], at[2], at[3], at[1])
        left = P[b, i + y, j + x, k] if last else P[b, k, i + y, j + x]
        right = W[y, x, f, k] if last else W[f, k, y, x]
        return te.sum(left.astype("int32") * right.astype("int32"), axis=[k, y, x])

    def exact(a, w):
        if not last:
            a, w = a.transpose(0, 2, 3, 1), w.transpose(2, 3, 0, 1)
        a = np.pad(a, ((0, 0), (1, 1), (1, 1), (0, 0)))
        made = sum(a[:, y : y + h, x : x + h] @ w[y, x].T for y in range(3) for x in range(3))
        return made if last else np.moveaxis(made, 3, 1)

    made = (n, h, h, o) if last else (n, o, h, h)
    return [X, W], te.compute(made, element, name="C"), exact


CASES = {
    "rows": lambda: _gemm(17, 24, 40),
    "transposed": lambda: _gemm(17, 24, 40, transposed=True),
    "odd": lambda: _gemm(19, 21, 37, transposed=True),
    "three steps": lambda: _gemm(16, 16, 3),
    "unsigned": lambda: _gemm(16, 20, 36, ("uint8", "uint8")),
    "unsigned sums": lambda: _gemm(16, 20, 36, ("uint8", "uint8"), total="uint32"),
    "channels last": lambda: _image(True),
    "channels first": lambda: _image(False),
}
# operands that are packed byte by byte: K is not contiguous, or no multiple of four; those that
# are transposed in registers; those whose left operand is not loaded as int8x4
PACKED = ("odd", "three steps", "channels first")
TRANSPOSED = ("transposed",)
LOADED_BY_BYTES = ("odd", "three steps", "channels first")


def _task(which):
    inputs, out, exact = CASES[which]()
    return whet.create_task(outputs=[out], args=[*inputs, out], target=TARGET), inputs, exact


def _drawn(inputs):
    rng = np.random.default_rng(2)
    ends = {"int8": (-128, 128), "uint8": (0, 256)}
    return [rng.integers(*ends[t.dtype], [int(d) for d in t.shape]).astype(t.dtype) for t in inputs]


@pytest.mark.gpu_matrix(2)
@pytest.mark.parametrize("which", CASES)
def test_in_the_emulator(which, gpu_full):
    task, inputs, exact = _task(which)
    given = _drawn(inputs)
    wanted = exact(*(x.astype("i8") for x in given))
    for config in drawn(task, 3 if gpu_full else 1):
        emulated(task, config, given, wanted, gpu_full)


@pytest.mark.parametrize("which", CASES)
def test_one_instruction_for_four_k_iterations(which):
    task, _, _ = _task(which)
    text = whet.build(*task.instantiate(), task.target).get_source("cuda")
    sums = [x for x in text.splitlines() if "whet_dp4a(" in x]
    assert sums and all("tile[" in x.partition("=")[2] for x in sums)
    assert ("whet_pack(" in text) == (which in PACKED)
    assert ("whet_transpose4x4<" in text) == (which in TRANSPOSED)
    loads = "int>(A, " in text or "int>(X, " in text
    assert loads == (which not in LOADED_BY_BYTES)


def test_an_axis_that_neither_operand_has_is_not_packed():
    """Behind its end nothing would be 0: five steps would count as eight."""
    A, B = te.placeholder((3, 16), "int8", name="A"), te.placeholder((3, 16), "int8", name="B")
    m, again = te.reduce_axis((0, 3), name="m"), te.reduce_axis((0, 5), name="again")

    def element(i, j):
        return te.sum(A[m, i].astype("int32") * B[m, j].astype("int32"), axis=[m, again])

    packed = as_packed_int8(
        contraction_of(te.compute((16, 16), element, name="C").op, 4)
    ).contraction
    assert [x.extent for x in packed.steps] == [1, 5]


def test_its_operations_are_those_of_the_graph():
    task, _, _ = _task("rows")
    assert task.flop == 2 * 17 * 24 * 40  # padding of tiles and of packed int8x4 does not count


@pytest.mark.gpu_matrix(1)
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.skipif(not nvrtc.available(), reason="NVRTC's wheel is not installed")
def test_no_spills(transposed):
    inputs, out, _ = _gemm(512, 1024, 1024, transposed=transposed)
    task = whet.create_task(outputs=[out], args=[*inputs, out], target=TARGET)
    text = whet.build(*task.instantiate(), task.target).get_source("cuda")
    (used,) = nvrtc.compile_cubin(text, "sm_90").resources.values()
    assert used.spill_stores == used.spill_loads == 0, used


@pytest.mark.parametrize(
    "graph",
    [
        lambda: _gemm(16, 16, 8, ("int8", "uint8")),
        lambda: _gemm(16, 16, 8, total="int16"),
        lambda: _gemm(16, 16, 2),
        lambda: _gemm(16, 16, 8, ("int16", "int16")),
    ],
)
def test_other_contractions_are_not_packed(graph):
    inputs, out, _ = graph()
    assert as_packed_int8(contraction_of(out.op, 4)) is None
    task = whet.create_task(outputs=[out], args=[*inputs, out], target=TARGET)
    assert "whet_dp4a" not in whet.build(*task.instantiate(), task.target).get_source("cuda")
