"""One schedule for one computation: by hand, a template's call, a part of a larger graph."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import whet
from whet import te, topi
from whet.search_spaces.forms.conv import conv_form
from whet.search_spaces.forms.gemm import gemm_form
from whet.search_spaces.graph.compute_graph import ComputeGraph

TARGET = "llvm -mcpu=x86-64-v3 -num_threads=2"
HERE = "llvm -num_threads=2"


def _structure(task: Any, choices: dict | None = None) -> int:
    """What the loops of a task are, whatever their variables are called."""
    space = task.config_space
    config = space.default if choices is None else space.from_choices(choices)
    with task.target:
        schedule, args = task.instantiate(config)
    (func,) = whet.lower(schedule, args).functions.values()
    return whet.tir.analysis.structural_hash(func.body, True)


def _same(template: Any, own: Any, count: int = 6) -> None:
    """Compare the spaces of two tasks, and some of their programs."""
    assert len(own.config_space) == len(template.config_space)
    rng = np.random.default_rng(len(own.config_space))
    for point in template.config_space.valid_points.sample(rng, count):
        choices = template.config_space.decode(point).as_dict()
        assert _structure(template, choices) == _structure(own, choices), choices
    assert template.config_space.default.as_dict() == own.config_space.default.as_dict()


def _placeholders(*shapes: tuple[int, ...]) -> list[Any]:
    names = ("data", "weight", "bias", "more")
    return [te.placeholder(s, name=n) for s, n in zip(shapes, names)]


def _pad_stage(D: Any, h: int, w: int) -> Any:
    return te.compute(
        (*map(int, D.shape[:2]), h + 2, w + 2),
        lambda n, c, y, x: te.if_then_else(
            te.all(y >= 1, y < h + 1, x >= 1, x < w + 1), D[n, c, y - 1, x - 1], 0.0
        ),
        name="P",
    )


@pytest.mark.parametrize("written", ["topi", "stage", "condition", "turned round"])
def test_a_convolution_is_scheduled_alike_however_it_is_written(written: str) -> None:
    D, W, b = _placeholders((1, 8, 10, 13), (24, 8, 3, 3), (24,))
    c, ry, rx = (te.reduce_axis((0, n), name=m) for n, m in ((8, "c"), (3, "ry"), (3, "rx")))
    shape = (1, 24, 10, 13)
    if written == "topi":
        C = topi.nn.conv2d_nchw(D, W, 1, 1, 1)
    elif written == "stage":
        P = _pad_stage(D, 10, 13)
        C = te.compute(
            shape, lambda n, o, y, x: te.sum(P[n, c, y + ry, x + rx] * W[o, c, ry, rx], [c, ry, rx])
        )
    elif written == "condition":

        def pixel(n: Any, y: Any, x: Any) -> Any:
            inside = te.all(x >= 0, x < 13, y >= 0, y < 10)
            return te.if_then_else(inside, D[n, c, y, x], 0.0)

        C = te.compute(
            shape,
            lambda n, o, y, x: te.sum(
                pixel(n, y + ry - 1, x + rx - 1) * W[o, c, ry, rx], [ry, rx, c]
            ),
        )
    else:
        P = _pad_stage(D, 10, 13)
        C = te.compute(
            shape, lambda n, o, y, x: te.sum(W[o, c, ry, rx] * P[n, c, ry + y, rx + x], [rx, c, ry])
        )
    R = te.compute(shape, lambda n, o, y, x: te.max(C[n, o, y, x] + b[o], 0.0))
    own = whet.create_task(outputs=[R], args=[D, W, b, R], target=TARGET)
    args = (1, 8, 10, 13, 24, 3, 3, 1, 1, 1, 1, "float32", ("bias", "relu"))
    _same(whet.create_task("conv2d_nchw", args=args, target=TARGET), own)


def test_channels_last_strided_grouped_dilated() -> None:
    D, W = _placeholders((2, 17, 15, 12), (3, 3, 4, 24))
    for how in ((2, 1, 1, 3), (1, (2, 0, 1, 2), 2, 3)):
        C = topi.nn.conv2d_nhwc(D, W, *how[:3], groups=how[3])
        own = whet.create_task(outputs=[C], args=[D, W, C], target=TARGET)
        args = (2, 12, 17, 15, 24, 3, 3, *how)
        _same(whet.create_task("conv2d_nhwc", args=args, target=TARGET), own, 4)


@pytest.mark.parametrize("layout", ["nchw", "nhwc"])
def test_depthwise(layout: str) -> None:
    if layout == "nchw":
        D, W = _placeholders((1, 20, 14, 11), (20, 2, 3, 3))
        C = topi.nn.depthwise_conv2d_nchw(D, W, 2, 1, 1)
    else:
        D, W = _placeholders((1, 14, 11, 20), (3, 3, 20, 2))
        ry, rx = te.reduce_axis((0, 3)), te.reduce_axis((0, 3))
        P = topi.nn.pad(D, (0, 1, 1, 0), (0, 1, 1, 0))
        C = te.compute(
            (1, 7, 6, 40),
            lambda n, y, x, o: te.sum(
                P[n, 2 * y + ry, 2 * x + rx, o // 2] * W[ry, rx, o // 2, o % 2], [ry, rx]
            ),
        )
    own = whet.create_task(outputs=[C], args=[D, W, C], target=TARGET)
    args = (1, 20, 14, 11, 3, 3, 2, 1, 1, 2)
    _same(whet.create_task(f"depthwise_conv2d_{layout}", args=args, target=TARGET), own)


def test_gemms() -> None:
    A, B = _placeholders((33, 70), (70, 50))
    C = topi.matmul(A, B)
    own = whet.create_task(outputs=[C], args=[A, B, C], target=TARGET)
    _same(whet.create_task("matmul", args=(33, 70, 50), target=TARGET), own)
    D, W, b = _placeholders((9, 40), (30, 40), (30,))
    R = topi.nn.relu(topi.nn.dense(D, W, b))
    own = whet.create_task(outputs=[R], args=[D, W, b, R], target=TARGET)
    args = (9, 40, 30, "float32", ("bias", "relu"))
    _same(whet.create_task("dense", args=args, target=TARGET), own)
    X, Y = _placeholders((3, 20, 30), (3, 40, 30))
    Z = topi.nn.batch_matmul(X, Y)
    own = whet.create_task(outputs=[Z], args=[X, Y, Z], target=TARGET)
    _same(whet.create_task("batch_matmul", args=(3, 20, 30, 40, False, True), target=TARGET), own)


def test_a_group_of_a_larger_graph_has_the_templates_space_under_its_name() -> None:
    D, W, V = _placeholders((1, 8, 10, 13), (24, 8, 3, 3), (16, 24, 3, 3))
    first = topi.nn.relu(topi.nn.conv2d_nchw(D, W, 1, 1, 1))
    second = topi.nn.relu(topi.nn.conv2d_nchw(first, V, 1, 1, 1))
    task = whet.create_task(outputs=[second], args=[D, W, V, second], target=TARGET)
    args = (1, 8, 10, 13, 24, 3, 3, 1, 1, 1, 1, "float32", ("relu",))
    alone = whet.create_task("conv2d_nchw", args=args, target=TARGET).config_space
    prefixes = {name.rpartition(".")[0].partition(".")[0] for name in task.config_space.knobs}
    assert len(prefixes) == 2
    prefix = next(p for p in sorted(prefixes) if f"{p}.algorithm" in task.config_space.knobs)
    for name, knob in alone.knobs.items():
        assert task.config_space.knobs[f"{prefix}.{name}"].choices == knob.choices


def test_what_is_no_convolution() -> None:
    D, W = _placeholders((1, 4, 8, 8), (6, 4, 3, 3))
    c, ry, rx = (te.reduce_axis((0, n)) for n in (4, 3, 3))

    def form(element: Any, shape: tuple = (1, 6, 6, 6)) -> Any:
        return conv_form(te.compute(shape, element).op, [])

    assert form(lambda n, o, y, x: te.sum(D[n, c, y + ry, x + rx] * W[o, c, ry, rx], [c, ry, rx]))
    # a part of the rows, a window that moves along a diagonal, a channel that is turned round
    part = (1, 6, 5, 6)
    assert not form(
        lambda n, o, y, x: te.sum(D[n, c, y + ry, x + rx] * W[o, c, ry, rx], [c, ry, rx]), part
    )
    assert not form(
        lambda n, o, y, x: te.sum(D[n, c, y + ry, x + ry] * W[o, c, ry, rx], [c, ry, rx])
    )
    assert not form(
        lambda n, o, y, x: te.sum(D[n, 3 - c, y + ry, x + rx] * W[o, c, ry, rx], [c, ry, rx])
    )
    # ones around the image, and a condition that is not the image's edge

    def guarded(value: float, first: int) -> Any:
        def element(n: Any, o: Any, y: Any, x: Any) -> Any:
            i = y + ry - 1
            inside = te.all(i >= first, i < 8)
            one = te.if_then_else(inside, D[n, c, i, x + rx], value)
            return te.sum(one * W[o, c, ry, rx], [c, ry, rx])

        return element

    assert form(guarded(0.0, 0), (1, 6, 8, 6))
    assert not form(guarded(1.0, 0), (1, 6, 8, 6))
    assert not form(guarded(0.0, 1), (1, 6, 8, 6))


def test_a_window_that_is_turned_round_is_one_of_other_weights() -> None:
    """A convolution in the sense of signal processing."""
    D, W = _placeholders((1, 4, 9, 8), (6, 4, 3, 3))
    c, ry, rx = (te.reduce_axis((0, n)) for n in (4, 3, 3))
    C = te.compute(
        (1, 6, 7, 6),
        lambda n, o, y, x: te.sum(D[n, c, y + ry, x + rx] * W[o, c, 2 - ry, 2 - rx], [c, ry, rx]),
    )
    task = whet.create_task(outputs=[C], args=[D, W, C], target=HERE)
    assert "algorithm" in task.config_space.knobs
    rng = np.random.default_rng(0)
    d, w = rng.standard_normal((1, 4, 9, 8), "f"), rng.standard_normal((6, 4, 3, 3), "f")
    right = sum(
        np.einsum("ncyx,oc->noyx", d[:, :, i : i + 7, j : j + 6].astype("d"), w[:, :, 2 - i, 2 - j])
        for i in range(3)
        for j in range(3)
    )
    for point in task.config_space.valid_points.sample(rng, 5):
        s, args = task.instantiate(task.config_space.decode(point))
        out = np.full((1, 6, 7, 6), np.nan, "f")
        whet.build(s, args, task.target)(d, w, out)
        np.testing.assert_allclose(out, right, atol=3e-4)


def _einsum(text: str, **sizes: int) -> tuple[list[Any], Any]:
    """The operands, and the sum of their products."""
    left, right = text.split("->")[0].split(",")
    names = text.split("->")[1]
    a, b = (te.placeholder([sizes[x] for x in s], name=n) for s, n in ((left, "a"), (right, "b")))
    summed = [x for x in dict.fromkeys(left + right) if x not in names]
    steps = {x: te.reduce_axis((0, sizes[x]), name=x) for x in summed}

    def element(*index: Any) -> Any:
        at = dict(zip(names, index)) | steps
        return te.sum(a(*(at[x] for x in left)) * b(*(at[x] for x in right)), [*steps.values()])

    return [a, b], te.compute([sizes[x] for x in names], element, name="c")


@pytest.mark.parametrize(
    "text",
    [
        "bsk,kn->bsn",
        "bsk,nk->bsn",
        "bhst,bhtd->bshd",
        "bsk,khd->bshd",
        "bsk,hkd->bshd",
        "ij,kj->ki",
        "iab,baj->ij",
        "k,kj->j",
        "xik,xkj->ixj",
    ],
)
def test_contractions_of_several_axes_are_gemms(text: str) -> None:
    """Batch, N, M and K by their axes; right whatever the config is."""
    sizes = {x: 3 + (7 * k) % 5 for k, x in enumerate("bshtdknijaxb")}
    inputs, C = _einsum(text, **sizes)
    form = gemm_form(C.op)
    assert form is not None, text
    g = form.size
    assert g.multiplications == np.prod([sizes[x] for x in set(text) - set(",->")])
    task = whet.create_task(outputs=[C], args=[*inputs, C], target=HERE)
    rng = np.random.default_rng(1)
    given = [rng.standard_normal([int(d) for d in t.shape]).astype("f") for t in inputs]
    right = np.einsum(text, *(x.astype("d") for x in given))
    space = task.config_space
    for config in [space.default, *map(space.decode, space.valid_points.sample(rng, 5))]:
        s, args = task.instantiate(config)
        out = np.full(right.shape, np.nan, "f")
        whet.build(s, args, task.target)(*given, out)
        np.testing.assert_allclose(out, right, atol=1e-4, err_msg=str(config))


@pytest.mark.parametrize(
    ("text", "sizes"),
    [
        ("bc,cba->ba", {"b": 1, "c": 9, "a": 7}),
        ("cb,ac->cb", {"b": 6, "c": 1, "a": 5}),
        ("bik,bkj->bij", {"b": 1, "i": 9, "k": 20, "j": 1}),
        ("bik,bkj->bij", {"b": 1, "i": 1, "k": 20, "j": 9}),
        ("bik,bjk->bij", {"b": 1, "i": 9, "k": 20, "j": 1}),
    ],
    ids=str,
)
def test_axes_of_one_step(text: str, sizes: dict) -> None:
    inputs, C = _einsum(text, **sizes)
    task = whet.create_task(outputs=[C], args=[*inputs, C], target=HERE)
    rng = np.random.default_rng(4)
    given = [rng.standard_normal([int(d) for d in t.shape]).astype("f") for t in inputs]
    right = np.einsum(text, *(x.astype("d") for x in given))
    space = task.config_space
    for config in [space.default, *map(space.decode, space.valid_points.sample(rng, 4))]:
        s, args = task.instantiate(config)
        out = np.full(right.shape, np.nan, "f")
        whet.build(s, args, task.target)(*given, out)
        np.testing.assert_allclose(out, right, atol=1e-4, err_msg=str(config))


@pytest.mark.parametrize("operand", ["data", "weight", "both"])
def test_what_prepares_an_operand(operand: str) -> None:
    """Cheap and costly producers, computed in copies or stored, of GEMMs and convolutions."""
    rng = np.random.default_rng(2)
    for gemm in (True, False):
        shapes = ((9, 20), (20, 33)) if gemm else ((1, 6, 9, 8), (10, 6, 3, 3))
        D, W = _placeholders(*shapes)
        d = topi.add(topi.exp(D), 1.0) if operand != "weight" else D
        w = topi.add(topi.multiply(W, 2.0), 1.0) if operand != "data" else W
        C = topi.matmul(d, w) if gemm else topi.nn.conv2d_nchw(d, w, 1, 1, 1)
        task = whet.create_task(outputs=[C], args=[D, W, C], target=HERE)
        given = [rng.standard_normal(s).astype("f") for s in shapes]
        x, v = (g.astype("d") for g in given)
        x = np.exp(x) + 1 if operand != "weight" else x
        v = v * 2 + 1 if operand != "data" else v
        if gemm:
            right = x @ v
        else:
            p = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
            right = sum(
                np.einsum("ncyx,oc->noyx", p[:, :, i : i + 9, j : j + 8], v[:, :, i, j])
                for i in range(3)
                for j in range(3)
            )
        space = task.config_space
        for config in [space.default, *map(space.decode, space.valid_points.sample(rng, 6))]:
            s, args = task.instantiate(config)
            out = np.full(right.shape, np.nan, "f")
            whet.build(s, args, task.target)(*given, out)
            np.testing.assert_allclose(out, right, rtol=2e-4, atol=2e-3, err_msg=str(config))


def test_one_image_read_by_two_convolutions_keeps_its_zeros() -> None:
    """A stage of zeros that another stage reads as well is not seen through."""
    D, W, V = _placeholders((1, 4, 8, 8), (6, 4, 3, 3), (6, 4, 3, 3))
    P = topi.nn.pad(D, (0, 0, 1, 1))
    both = topi.add(topi.nn.conv2d_nchw(P, W, 1, 0, 1), topi.nn.conv2d_nchw(P, V, 1, 0, 1))
    graph = ComputeGraph([both], [D, W, V, both])
    assert len(graph.groups) >= 2
    task = whet.create_task(outputs=[both], args=[D, W, V, both], target=HERE)
    rng = np.random.default_rng(3)
    d, w, v = (rng.standard_normal(s).astype("f") for s in ((1, 4, 8, 8), *[(6, 4, 3, 3)] * 2))
    p = np.pad(d.astype("d"), ((0, 0), (0, 0), (1, 1), (1, 1)))
    right = sum(
        np.einsum("ncyx,oc->noyx", p[:, :, i : i + 8, j : j + 8], (w + v)[:, :, i, j])
        for i in range(3)
        for j in range(3)
    )
    space = task.config_space
    for config in [space.default, *map(space.decode, space.valid_points.sample(rng, 4))]:
        s, args = task.instantiate(config)
        out = np.full(right.shape, np.nan, "f")
        whet.build(s, args, task.target)(d, w, v, out)
        np.testing.assert_allclose(out, right, atol=3e-4, err_msg=str(config))
