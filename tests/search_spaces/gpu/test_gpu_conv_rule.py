"""Convolutions and GEMMs of any graph on GPUs: the template's schedule, and odd operands."""

import re
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from gpu_checks import TARGET
from test_gpu_tiled import emulated

import whet
from whet import te
from whet.compiler import topi
from whet.search_spaces.graph.compute_graph import ComputeGraph
from whet.search_spaces.graph.rule import rule_of
from whet.search_spaces.template import get_template

nn = topi.nn


def _images(layout, dtype="float32", args=(2, 16, 9, 11, 24, 3, 3, 1, 1), then=()):
    """A template's call, and the same convolution as a user writes it."""
    n, ci, h, w, co, kh, kw, strides, padding = args
    first = layout == "nchw"
    x = te.placeholder((n, ci, h, w) if first else (n, h, w, ci), dtype, name="data")
    k = te.placeholder((co, ci, kh, kw) if first else (kh, kw, ci, co), dtype, name="weight")
    b = te.placeholder((co,), dtype, name="bias")
    out = getattr(nn, f"conv2d_{layout}")(x, k, strides, padding, 1)
    if then:
        out = nn.relu(nn.bias_add(out, b, 1 if first else 3))
    inputs = [x, k, b] if then else [x, k]
    return f"conv2d_{layout}", (*args, 1, 1, dtype, then), inputs, out


def _grouped():
    x, k = (
        te.placeholder((1, 32, 14, 14), name="data"),
        te.placeholder((64, 8, 3, 3), name="weight"),
    )
    out = nn.group_conv2d_nchw(x, k, 1, 1, 1, 4)
    return "conv2d_nchw", (1, 32, 14, 14, 64, 3, 3, 1, 1, 1, 4), [x, k], out


def _gemm(name, dtype="float32"):
    batch = (3,) if name == "batch_matmul" else ()
    a = te.placeholder((*batch, 40, 72), dtype, name="A")
    turned = name != "matmul"
    b = te.placeholder((*batch, 56, 72) if turned else (72, 56), dtype, name="B")
    out = {"matmul": topi.matmul, "dense": nn.dense, "batch_matmul": nn.batch_matmul}[name](a, b)
    flags = {"matmul": (False, False), "batch_matmul": (False, True), "dense": ()}[name]
    return name, (*batch, 40, 72, 56, *flags, dtype), [a, b], out


SAME = {
    "nchw": lambda: _images("nchw"),
    "nhwc": lambda: _images("nhwc"),
    "one image, bias and relu": lambda: _images(
        "nchw", args=(1, 64, 14, 14, 64, 3, 3, 1, 1), then=("bias", "relu")
    ),
    "channels last, bias and relu": lambda: _images("nhwc", then=("bias", "relu")),
    "strides": lambda: _images("nchw", args=(1, 3, 30, 31, 18, 7, 7, 2, 3)),
    "pointwise": lambda: _images("nhwc", args=(1, 64, 14, 14, 64, 1, 1, 1, 0)),
    "float16": lambda: _images("nchw", "float16"),
    "channels last of float16": lambda: _images("nhwc", "float16"),
    "groups": _grouped,
    "matmul": lambda: _gemm("matmul"),
    "dense": lambda: _gemm("dense"),
    "batch_matmul": lambda: _gemm("batch_matmul"),
    "matmul of float16": lambda: _gemm("matmul", "float16"),
    "dense of float16": lambda: _gemm("dense", "float16"),
}


def _nameless(text):
    """A text with its names numbered in the order of their first use."""
    seen = {}
    plain = re.sub(r'extern "C"|//.*', "", text)
    return re.sub(r"\b[A-Za-z]\w*\b", lambda m: f"v{seen.setdefault(m.group(), len(seen))}", plain)


@pytest.mark.parametrize("which", SAME)
def test_a_graph_goes_the_templates_way(which):
    name, args, inputs, out = SAME[which]()
    named = whet.create_task(name, args=args, target=TARGET)
    graph = whet.create_task(outputs=[out], args=[*inputs, out], target=TARGET)
    spaces = named.config_space, graph.config_space
    knobs = [{k.name: tuple(k.choices) for k in s.knobs.values()} for s in spaces]
    assert knobs[0] == knobs[1]
    drawn = spaces[0].valid_points.sample(np.random.default_rng(2), 2)
    for choices in (spaces[0].default.as_dict(), *(spaces[0].decode(p).as_dict() for p in drawn)):
        texts = [
            whet.build(*t.instantiate(s.from_choices(choices)), t.target).get_source("cuda")
            for t, s in zip((named, graph), spaces)
        ]
        assert _nameless(texts[0]) == _nameless(texts[1])
    assert str(spaces[0].default) == str(spaces[1].default)


def _written(x_shape, w_shape, pixel, weight, out_shape, ci=16, dtype="float32", before=None):
    """A 3x3 convolution with padding of 1 whose operands are read as functions say."""
    X, W = te.placeholder(x_shape, dtype, name="X"), te.placeholder(w_shape, dtype, name="W")
    x, w = (X, W) if before is None else before(X, W)
    c, ry, rx = (te.reduce_axis((0, n), name=m) for n, m in ((ci, "c"), (3, "ry"), (3, "rx")))

    def element(*index):
        value = pixel(x, c, ry, rx, *index) * weight(w, c, ry, rx, *index)
        return te.sum(value, axis=[c, ry, rx])

    return [X, W], te.compute(out_shape, element, name="conv")


def _first(x, c, ry, rx, n, o, i, j):
    inside = te.all(i + ry >= 1, i + ry < 8, j + rx >= 1, j + rx < 10)
    return te.if_then_else(inside, x[n, c, i + ry - 1, j + rx - 1], te.const(0, x.dtype))


def _last(x, c, ry, rx, n, i, j, o):
    return x[n, i + ry, j + rx, c]


_X, _OUT = (2, 16, 7, 9), (2, 20, 7, 9)
_LAST, _LAST_OUT = (1, 9, 8, 16), (1, 7, 6, 20)


def _computed(X, W):
    x = te.compute(X.shape, lambda *i: X(*i) * 2.0 + 1.0, name="x")
    return x, te.compute(W.shape, lambda *i: te.exp(W(*i)), name="w")


def _turned(X, W):
    return X, te.compute((20, 16, 3, 3), lambda o, c, y, x: W[y, x, c, o], name="oihw")


_FIRST_OIHW = partial(
    _written, _X, (20, 16, 3, 3), _first, lambda w, c, y, x, n, o, i, j: w[o, c, y, x], _OUT
)
_LAST_HWIO = partial(
    _written, _LAST, (3, 3, 16, 20), _last, lambda w, c, y, x, n, i, j, o: w[y, x, c, o], _LAST_OUT
)
ODD = {
    "hwio first": partial(
        _written, _X, (3, 3, 16, 20), _first, lambda w, c, y, x, n, o, i, j: w[y, x, c, o], _OUT
    ),
    "ohwi first": partial(
        _written, _X, (20, 3, 3, 16), _first, lambda w, c, y, x, n, o, i, j: w[o, y, x, c], _OUT
    ),
    "oihw last": partial(
        _written, _LAST, (20, 16, 3, 3), _last,
        lambda w, c, y, x, n, i, j, o: w[o, c, y, x], _LAST_OUT,
    ),
    "a window turned around": partial(
        _written, _X, (20, 16, 3, 3), _first,
        lambda w, c, y, x, n, o, i, j: w[o, c, 2 - y, 2 - x], _OUT,
    ),
    "a part of the weights": partial(
        _written, _X, (41, 33, 3, 3), _first,
        lambda w, c, y, x, n, o, i, j: w[2 * o + 1, 2 * c, y, x], _OUT,
    ),
    "computed operands": partial(_LAST_HWIO, before=_computed),
    "weights turned before": partial(
        _written, _X, (3, 3, 16, 20), _first,
        lambda w, c, y, x, n, o, i, j: w[o, c, y, x], _OUT, before=_turned,
    ),
    "sums of float16": _FIRST_OIHW,
    "sums of doubles": _LAST_HWIO,
}  # fmt: skip
_DTYPE = {"sums of float16": "float16", "sums of doubles": "float64"}
ALGORITHMS = ("implicit", "direct", "winograd2", "winograd4")


@pytest.mark.gpu_matrix(4)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("which", ODD)
def test_odd_operands_in_the_emulator(which, algorithm, gpu_full):
    inputs, out = ODD[which](dtype=_DTYPE.get(which, "float32"))
    groups = ComputeGraph([out], [*inputs, out]).groups
    assert type(rule_of(groups[-1], whet.Target(TARGET))).__name__ == "GpuConvolution"
    rng = np.random.default_rng(1)
    shapes = ([int(d) for d in t.shape] for t in inputs)
    given = [rng.uniform(-1, 1, s).astype(t.dtype) for s, t in zip(shapes, inputs)]
    wide, wide_out = ODD[which](dtype="float64")
    wanted = np.zeros([int(d) for d in out.shape])
    whet.build(te.create_schedule(wide_out.op), [*wide, wide_out], "llvm")(
        *(x.astype("f8") for x in given), wanted
    )
    task = whet.create_task(outputs=[out], args=[*inputs, out], target=TARGET)
    space, rng = task.config_space, np.random.default_rng(3)
    (name,) = (k for k in space.knobs if k.endswith("algorithm"))
    near = {"float16": 4e-3, "float64": 1e-9}.get(out.dtype, 5e-5)
    drawn = (space.decode(p) for p in space.valid_points.sample(rng, 400))
    found = [config for config in drawn if config[name].val == algorithm]
    for config in found[: 2 if gpu_full else 1]:
        emulated(task, config, given, wanted, gpu_full, near)
    assert found


@pytest.mark.gpu_matrix(1)
@pytest.mark.parametrize("dtype", ("float32", "float16"))
def test_a_matrix_times_itself(dtype, gpu_full):
    A, k = te.placeholder((37, 41), dtype, name="A"), te.reduce_axis((0, 41), name="k")
    C = te.compute((37, 37), lambda i, j: te.sum(A[i, k] * A[j, k], axis=k), name="C")
    task = whet.create_task(outputs=[C], args=[A, C], target=TARGET)
    a = np.random.default_rng(4).uniform(-1, 1, (37, 41)).astype(dtype)
    wanted = a.astype("f8") @ a.astype("f8").T
    near = {"float16": 4e-3, "float32": 2e-5}[dtype]
    emulated(task, task.config_space.default, [a], wanted, gpu_full, near)


@pytest.mark.gpu_matrix(2)
@pytest.mark.parametrize("layout", ("nchw", "nhwc"))
def test_a_residual_block_and_a_result_that_is_read_twice(layout):
    """Each convolution has knobs of its own; the first one's result is an output, too."""
    first = layout == "nchw"
    x = te.placeholder((1, 16, 7, 6) if first else (1, 7, 6, 16), name="x")
    v, w = (te.placeholder((16, 16, 3, 3) if first else (3, 3, 16, 16), name=n) for n in ("v", "w"))
    conv = getattr(nn, f"conv2d_{layout}")
    middle = nn.relu(conv(x, v, 1, 1, 1))
    out = nn.relu(topi.add(conv(middle, w, 1, 1, 1), x))
    args = [x, v, w, middle, out]
    task = whet.create_task(outputs=[middle, out], args=args, target=TARGET)
    space, rng = task.config_space, np.random.default_rng(8)
    assert sum(name.endswith("algorithm") for name in space.knobs) == 2
    given = [rng.uniform(-1, 1, [int(d) for d in t.shape]).astype("float32") for t in args[:3]]
    wanted = [np.zeros([int(d) for d in t.shape], "float32") for t in args[3:]]
    whet.build(te.create_schedule([middle.op, out.op]), args, "llvm")(*given, *wanted)
    device = whet.device("cuda-emulator")
    for config in (space.default, *(space.decode(p) for p in space.valid_points.sample(rng, 2))):
        f = whet.build(*task.instantiate(config), task.target)
        held = [whet.nd.array(a, device) for a in (*given, *(np.full_like(a, 77) for a in wanted))]
        f(*held)
        for got, right in zip(held[3:], wanted, strict=True):
            np.testing.assert_allclose(got.numpy(), right, 1e-4, 1e-3)


BEFORE = [
    (
        "matmul",
        (64, 96, 128, False, False, "float32", ("bias", "relu"), False),
        "379e6bdf67abc87a0429a72fbc1dff3c",
    ),
    (
        "dense",
        (9, 33, 17, "float16", ("bias", "relu"), False),
        "05cb1344fbfbc77039f7f35288f12e33",
    ),
    (
        "conv2d_nchw",
        (1, 64, 56, 56, 64, 3, 3, (1, 1), (1, 1), (1, 1), 1, "float32", ("bias", "relu"), False),
        "dd2a4aa623243b046ebeb21f2b4c3b6b",
    ),
    (
        "conv2d_nhwc",
        (2, 16, 7, 9, 24, 3, 3, (1, 1), (1, 1), (1, 1), 1, "float16", ("bias", "relu"), True),
        "fe2dba1ccec348d14b0835aca4ab9fa0",
    ),
    (
        "depthwise_conv2d_nchw",
        (1, 5, 9, 10, 3, 3, 1, 1, 1, 1, "float32", ("bias", "relu"), False),
        "e27c6705a8d8147c71a7da16b6b56a14",
    ),
    (
        "matvec",
        (100, 333, "int8", ()),
        "045bba9d47135c82b5d603014cb1606b",
    ),
]
"""Templates, arguments and the fingerprints that their spaces had as functions for GPUs alone."""


@pytest.mark.parametrize(("name", "args", "fingerprint"), BEFORE)
def test_records_of_functions_for_gpus_alone_apply(name, args, fingerprint):
    assert whet.create_task(name, args=args, target=TARGET).config_space.fingerprint == fingerprint


def test_versions_of_rules_of_gpus():
    """A contraction's rules changed when they became the templates'; others did not."""
    A, B = te.placeholder((64, 64), name="A"), te.placeholder((64, 64), name="B")
    product, rows = topi.matmul(A, B), nn.softmax(A)
    tasks = [
        whet.create_task(outputs=[out], args=[*given, out], target=TARGET)
        for given, out in (([A, B], product), ([A], rows))
    ]
    with whet.Target(TARGET):
        assert [task.template.version_now() for task in tasks] == [6, 5]
        named = [get_template(n).version_now() for n in ("matmul", "conv2d_nhwc", "softmax")]
    assert named == [2, 1, 5001]


def test_one_graph_on_two_gpus():
    """A window that fits the shared memory of one and not of the other, asked for in turns."""
    X, W = te.placeholder((1, 2, 52, 52), name="X"), te.placeholder((2, 1, 50, 50), name="W")
    out = nn.group_conv2d_nchw(X, W, 1, 0, 1, 2)
    graph = ComputeGraph([out], [X, W, out])
    names = [
        type(rule_of(replace(graph.groups[-1], target=target), target)).__name__
        for arch in ("sm_90", "sm_75", "sm_90")
        for target in [whet.Target(f"cuda -arch={arch}")]
    ]
    assert names[0] == names[2] == "GpuConvolution" != names[1]
