"""Named int8 and uint8 templates on GPUs: exactly numpy's sums in int32."""

import numpy as np
import pytest
from gpu_checks import TARGET, Case, compiles, convolution, gemm, packed
from test_gpu_tiled import drawn, emulated

import whet
from whet import te
from whet.bench.operators.table import REFERENCES, by_name
from whet.compiler.emulator import emulator_options
from whet.compiler.errors import ArgumentError


def _named(name, *args):
    """A named template beside what benchmarks compare it with."""

    def reference(*given):
        task = whet.create_task(name, args=args, target=TARGET)
        return REFERENCES[name](by_name(task), *given)

    return Case(name, args, reference)


CASES = {
    "matmul": gemm("matmul", (19, 37, 21), dtype="int8"),
    "transposed matmul": gemm("matmul", (24, 40, 20, True, True), dtype="uint8"),
    "a row": gemm("matmul", (1, 9, 21), dtype="int8"),
    "dense": gemm("dense", (17, 24, 20), dtype="int8"),
    "batch_matmul": gemm("batch_matmul", (3, 8, 13, 12, False, True), dtype="int8"),
    "no steps": gemm("dense", (4, 0, 5), dtype="uint8"),
    "nchw": convolution("conv2d_nchw", (1, 8, 6, 7, 12, 3, 3, 1, 1), dtype="int8"),
    "nchw unsigned": convolution("conv2d_nchw", (2, 5, 8, 7, 9, 2, 3, (2, 1), 1), dtype="uint8"),
    "nchw pointwise": convolution("conv2d_nchw", (2, 12, 4, 6, 16, 1, 1), dtype="int8"),
    "nhwc": convolution("conv2d_nhwc", (1, 8, 6, 7, 12, 3, 3, 2, (0, 1, 1, 2)), dtype="int8"),
    "nhwc groups": convolution("conv2d_nhwc", (1, 16, 5, 6, 32, 3, 3, 1, 1, 1, 2), dtype="int8"),
    "nchw groups": convolution("conv2d_nchw", (1, 16, 5, 6, 32, 3, 3, 1, 1, 2, 2), dtype="uint8"),
    "depthwise": convolution("depthwise_conv2d_nchw", (1, 5, 8, 7, 3, 3, 2, 1), dtype="uint8"),
    "nhwc depthwise": convolution("depthwise_conv2d_nhwc", (1, 8, 7, 6, 3, 3, 1, 1), dtype="int8"),
    "matvec": _named("matvec", 17, 40, "int8"),
    "signals": _named("conv1d_ncw", 2, 8, 19, 12, 3, 1, 1, 1, 1, "uint8"),
    "volumes": _named("conv3d_ncdhw", 1, 4, 5, 6, 5, 8, 2, 3, 2, 1, 1, 1, 1, "int8"),
    "blocks": _named("conv2d_nchwc", 1, 8, 6, 6, 8, 3, 3, 1, 1, 1, 1, "int8", (), False, 4),
    "transposed": _named("conv2d_transpose_nchw", 1, 8, 5, 6, 12, 4, 4, 2, 1, 0, "int8"),
    "no images": convolution("conv2d_nchw", (0, 8, 6, 7, 12, 3, 3), dtype="int8"),
}
# of too few rows for tiles
PLAIN = ("a row", "no steps", "depthwise", "nhwc depthwise", "matvec", "no images")
# operands that a kernel may pack to int8x4 before the contraction, and how many kernels that makes
STORED = {"nchw": 3, "nchw unsigned": 3, "nchw groups": 3, "matmul": 2, "nhwc groups": 1}


def _task(which):
    case = CASES[which]
    return case, whet.create_task(case.name, args=case.args, target=TARGET)


def _exact(case, task):
    """Inputs of all bytes there are, and numpy's sums of them."""
    ends = {"int8": (-128, 128), "uint8": (0, 256)}
    rng = np.random.default_rng(4)
    given = [
        rng.integers(*ends[t.dtype], [int(d) for d in t.shape]).astype(t.dtype)
        for t in task.instantiate()[1][:-1]
    ]
    return given, np.asarray(case.reference(*(x.astype("i8") for x in given)))


@pytest.mark.gpu_matrix(2)
@pytest.mark.parametrize("which", CASES)
def test_in_the_emulator(which, gpu_full):
    case, task = _task(which)
    given, wanted = _exact(case, task)
    for config in drawn(task, 2 if gpu_full else 0):
        emulated(task, config, given, wanted, gpu_full)


@pytest.mark.gpu_matrix(4)
@pytest.mark.parametrize("which", CASES)
def test_one_instruction_for_four_multiplications(which):
    _, task = _task(which)
    s, tensors = task.instantiate()
    assert tensors[-1].dtype == "int32"
    text = whet.build(s, tensors, task.target).get_source("cuda")
    assert ("whet_dp4a(" in text) == (which not in PLAIN)


@pytest.mark.gpu_matrix(1)
@pytest.mark.parametrize("which", STORED)
def test_words_that_a_kernel_before_stores(which, gpu_full):
    case, task = _task(which)
    space = task.config_space
    assert ("words" in space.default) == (STORED[which] > 1)
    if STORED[which] == 1:  # nothing there lies apart but what changes places in registers
        return
    config = space.from_choices({**space.default.as_dict(), "words": "stored"})
    text = whet.build(*task.instantiate(config), task.target).get_source("cuda")
    kernels = text.split("__global__")[1:]
    assert len(kernels) == STORED[which]
    contraction, *before = sorted(kernels, key=lambda k: "whet_dp4a(" not in k)
    assert all("whet_pack(" in k for k in before) and "whet_dp4a(" in contraction
    if which != "matmul":  # whose other factor is copied, its last word with zeros
        assert "whet_pack(" not in contraction
    for one in [config, *(c for c in drawn(task, 4 * gpu_full) if c["words"].val == "stored")]:
        emulated(task, one, *_exact(case, task), gpu_full)


_AHEAD = {
    "matmul": packed(CASES["matmul"]),  # B's bytes along K lie apart
    "dense": packed(CASES["dense"]),  # side by side: a copy
    "nchw": packed(CASES["nchw"]),
    "nchw unsigned": packed(CASES["nchw unsigned"]),
    "nhwc": packed(CASES["nhwc"]),
    "nhwc depthwise": packed(CASES["nhwc depthwise"]),
    "transposed": _named("conv2d_transpose_nchw", 1, 8, 5, 6, 12, 4, 4, 2, 1, 0, "int8", (), True),
}


@pytest.mark.gpu_matrix(2)
@pytest.mark.parametrize("which", _AHEAD)
def test_words_of_weights_that_are_packed_ahead(which, gpu_full):
    """What bytes apart are packed to is made once: no kernel of a call packs them."""
    case = _AHEAD[which]
    task = whet.create_task(case.name, args=case.args, target=TARGET)
    given, wanted = _exact(case, task)
    for config in drawn(task, 1):
        f = whet.build(*task.instantiate(config), task.target)
        compiles(f.get_source("cuda"), gpu_full)
        device = whet.device("cuda-emulator")
        x, w, out = (whet.nd.array(a, device) for a in (*given, np.full(wanted.shape, 77, "int32")))
        with emulator_options(checks=True, order="backwards"):
            made = f.pack_weights(w)
            f(x, made, out)
        np.testing.assert_array_equal(out.numpy(), wanted)
        plain = which in ("dense", "nhwc depthwise")
        assert (made.dtype in ("int8", "uint8")) == plain


@pytest.mark.gpu_matrix(1)
@pytest.mark.parametrize("which", ["chosen", "masked"])
def test_stored_words_of_images_that_another_array_chooses(which, gpu_full):
    X, W = te.placeholder((2, 8, 25), "int8", name="X"), te.placeholder((12, 8), "int8", name="W")
    M, k = te.placeholder((2,), "int32", name="M"), te.reduce_axis((0, 8), name="k")

    def element(n, o, i):
        byte = X[M[n], k, 2 * i] if which == "chosen" else X[n, k, 2 * i]
        if which == "masked":
            byte = te.if_then_else(M[n] > 0, byte, te.const(0, "int8"))
        return te.sum(byte.astype("int32") * W[o, k].astype("int32"), axis=k)

    C = te.compute((2, 12, 13), element, name="C")
    task = whet.create_task(outputs=[C], args=[X, W, M, C], target=TARGET)
    rng = np.random.default_rng(6)
    x, w = (rng.integers(-128, 128, s).astype("int8") for s in ((2, 8, 25), (12, 8)))
    m = np.array([1, 0], "int32")
    read = x[m] if which == "chosen" else x * (m > 0)[:, None, None]
    wanted = np.einsum("nki,ok->noi", read[..., ::2].astype("i8"), w.astype("i8"))
    choices = {**task.config_space.default.as_dict(), "words": "stored"}
    emulated(task, task.config_space.from_choices(choices), (x, w, m), wanted, gpu_full)


def test_large_contractions_prepack_int8x4():
    def default(layout, *sizes):
        args = (*sizes, 3, 3, 1, 1, 1, 1, "int8")
        task = whet.create_task(f"conv2d_{layout}", args=args, target=TARGET)
        return task.config_space.default.as_dict().get("words")

    assert default("nchw", 16, 256, 14, 14, 256) == "stored"
    assert default("nchw", 1, 64, 28, 28, 64) == "copied"
    assert default("nhwc", 16, 256, 14, 14, 256) is None


@pytest.mark.parametrize(
    ("name", "args", "target", "message"),
    [
        (
            "matmul",
            (8, 8, 8, False, False, "int8", ("relu",)),
            TARGET,
            "elements are int32, no floats\n  leave the epilogue out, and compute",
        ),
        (
            "dense",
            (8, 8, 8, "int8"),
            "llvm",
            "dtype 'int8' is not one of float32, float64.*\n  cast",
        ),
        (
            "matvec",
            (8, 8, "int16"),
            TARGET,
            "int16.*\n  .*float16, int8 and uint8 are for GPUs",
        ),
    ],
)
def test_what_cannot_be(name, args, target, message):
    with pytest.raises(ArgumentError, match=message):
        _ = whet.create_task(name, args=args, target=target).config_space
