"""Winograd: exact matrices, right convolutions in both layouts, errors within bounds."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from cpu_gemm_checks import ONE, TWO
from cpu_image_checks import check

import whet
from whet.compiler import te
from whet.compiler.errors import ArgumentError
from whet.compiler.target import Target
from whet.compiler.topi.algebra.winograd_matrices import combined, winograd_matrices
from whet.compiler.topi.nn.epilogue import Epilogue
from whet.compiler.topi.nn.winograd import conv2d_winograd
from whet.search_spaces.forms.conv import conv_form
from whet.search_spaces.forms.conv_shape import ConvShape
from whet.search_spaces.knobs.prefixed import Prefixed
from whet.search_spaces.operators.conv_arguments import conv_shape
from whet.search_spaces.operators.conv_graphs import sums
from whet.search_spaces.rules.cpu.conv import winograd
from whet.search_spaces.rules.cpu.conv.weights import Storing
from whet.search_spaces.rules.threads import define_threads
from whet.search_spaces.template import template
from whet.search_spaces.template.config_scope import get_config


@template("winograd_alone", version=1)
def winograd_alone(
    layout: str,
    N: int,
    CI: int,
    H: int,
    W: int,
    CO: int,
    padding: Any = 1,
    algorithms: tuple = ("winograd2", "winograd4"),
    dtype: str = "float32",
    epilogue: tuple = (),
    packed: bool = False,
) -> tuple[Any, list]:
    """A convolution whose algorithms are Winograd's alone."""
    shape = conv_shape("winograd_alone", layout, N, CI, (H, W), CO, (3, 3), 1, padding, dtype=dtype)
    cfg, target = Prefixed(get_config()), Target.current()
    cfg.define_knob("algorithm", algorithms)
    space = winograd.space(shape, target)
    space.define(cfg, space.first)
    threads = define_threads(cfg, target, shape.flop)
    data = te.placeholder(shape.data_shape, dtype, name="data")
    weight = te.placeholder(shape.weight_shape, dtype, name="weight")
    graph = sums(shape, data, weight if layout == "NCHW" else lambda o, c, *at: weight(*at, c, o))
    form = conv_form(graph.op, [])
    assert form is not None
    w = winograd.Winograd.of(cfg, form.operands(graph.op), "conv", target)
    out, extras = Epilogue.of(epilogue).apply(w.conv, shape.channel_axis)
    s = te.create_schedule(out.op)
    if epilogue:
        s[w.conv].compute_inline()
    w.schedule(s, Storing(s[out], packed, threads, 8))
    return s, [data, weight, *extras, out]


def _reference(padding: Any) -> Any:
    top, left, bottom, right = (padding,) * 4 if isinstance(padding, int) else padding

    def of(x: np.ndarray, w: np.ndarray) -> np.ndarray:
        p = np.pad(x, ((0, 0), (top, bottom), (left, right), (0, 0)))
        oh, ow = p.shape[1] - 2, p.shape[2] - 2
        return sum(p[:, i : i + oh, j : j + ow] @ w[i, j] for i in range(3) for j in range(3))

    return of


def _check(args: tuple, *, target: str = ONE, **options: Any) -> None:
    task = whet.create_task("winograd_alone", args=args, target=target)
    of = _reference(args[6] if len(args) > 6 else 1)

    def reference(x: np.ndarray, w: np.ndarray) -> np.ndarray:
        if args[0] == "NHWC":
            return of(x, w)
        return np.moveaxis(of(np.moveaxis(x, 1, -1), w.transpose(2, 3, 1, 0)), -1, 1)

    check(task, reference, args[0] == "NHWC", **{"near": 5e-5, **options})


@pytest.mark.parametrize("m, r", [(1, 1), (1, 3), (2, 3), (4, 3), (6, 3), (3, 2), (2, 5)])
def test_matrices_compute_the_convolution_exactly(m: int, r: int) -> None:
    matrices = winograd_matrices(m, r)
    data = [Fraction(3 * k * k - 7 * k + 2, 5) for k in range(m + r - 1)]
    taps = [Fraction(k * k - 2, 3) for k in range(r)]

    def times(matrix: Any, values: list) -> list:
        return [sum(a * b for a, b in zip(row, values)) for row in matrix]

    products = [a * b for a, b in zip(times(matrices.g, taps), times(matrices.bt, data))]
    right = [sum(data[i + k] * taps[k] for k in range(r)) for i in range(m)]
    assert times(matrices.at, products) == right


def test_points_of_ones_own() -> None:
    mine = winograd_matrices(2, 3, points=(0, "1/2", 3))
    assert mine.at == ((1, 1, 1, 0), (0, Fraction(1, 2), 3, 1))


class _Counted:
    """A number that counts the sums it takes part in."""

    def __init__(self, value: Fraction, count: list[int]) -> None:
        self.value, self.count = value, count

    def _sum(self, value: Fraction) -> _Counted:
        self.count[0] += 1
        return _Counted(value, self.count)

    def __add__(self, other: _Counted) -> _Counted:
        return self._sum(self.value + other.value)

    def __sub__(self, other: _Counted) -> _Counted:
        return self._sum(self.value - other.value)

    def __mul__(self, factor: float) -> _Counted:
        return _Counted(self.value * Fraction(factor), self.count)


@pytest.mark.parametrize("m, sums", [(2, (4, 4)), (4, (12, 10)), (6, (24, 20))])
def test_sums_are_shared_by_points_of_either_sign(m: int, sums: tuple[int, int]) -> None:
    matrices = winograd_matrices(m)
    for matrix, most in zip((matrices.bt, matrices.at), sums):
        count = [0]
        given = [Fraction(k * k + 1, 4) for k in range(len(matrix[0]))]
        out = combined(matrix, [_Counted(x, count) for x in given])
        assert [x.value for x in out] == [sum(a * b for a, b in zip(r, given)) for r in matrix]
        assert count[0] <= most


@pytest.mark.parametrize(
    "args",
    [
        ("NHWC", 1, 16, 12, 12, 16),
        ("NHWC", 2, 5, 7, 10, 9),
        ("NHWC", 1, 1, 3, 3, 1, 0),
        ("NHWC", 1, 9, 6, 5, 20, (0, 1, 2, 0)),
        ("NCHW", 2, 5, 6, 9, 7),
        ("NCHW", 1, 1, 1, 1, 1),
    ],
    ids=str,
)
def test_sizes(args: tuple) -> None:
    _check(args, count=2)


@pytest.mark.parametrize("layout", ["NHWC", "NCHW"])
def test_epilogue_and_packed_weights(layout: str) -> None:
    steps = ("bias", "residual", "relu")
    algorithms = ("winograd2",)
    args = (layout, 1, 8, 9, 9, 12, 1, algorithms, "float32", steps, True)
    _check(args, epilogue=steps, packed=True, count=0)


@pytest.mark.parametrize("target", [TWO, "llvm -mcpu=x86-64 -num-threads=1", "c"])
def test_targets(target: str) -> None:
    _check(("NHWC", 1, 8, 11, 9, 8), target=target, count=0)


def test_double() -> None:
    _check(("NHWC", 1, 6, 9, 8, 5, 1, ("winograd4",), "float64"), count=0, near=1e-12)


def test_threads_have_blocks_of_their_own() -> None:
    args = ("NHWC", 1, 8, 24, 24, 8)
    space = whet.create_task("winograd_alone", args=args, target=TWO).config_space
    assert space.default.choice("parallel") is not None


def _shape(**changes: Any) -> ConvShape:
    given = {"window": (3, 3), "strides": 1, "dilation": 1, "groups": 1, "batch": 1, **changes}
    return conv_shape(
        "conv", given.get("layout", "NHWC"), given["batch"], 16, (14, 14), 16, given["window"],
        given["strides"], 1, given["dilation"], given["groups"],
    )  # fmt: skip


def test_what_winograd_can_compute() -> None:
    assert winograd.variants(_shape()) == [2, 4]
    for changes in (
        {"window": (1, 3)},
        {"strides": 2},
        {"dilation": 2},
        {"groups": 4},
        {"batch": 0},
    ):
        assert winograd.variants(_shape(**changes)) == []


@pytest.mark.parametrize("m", winograd.VARIANTS)
def test_errors_are_within_what_a_measurement_admits(m: int) -> None:
    """Beside float64, by the rule that candidates are compared with: well inside it."""
    rng = np.random.default_rng(0)
    args = ("NHWC", 1, 256, 14, 14, 32, 1, (f"winograd{m}",))
    task = whet.create_task("winograd_alone", args=args, target=ONE)
    s, tensors = task.instantiate()
    f = whet.build(s, tensors, task.target)
    x = rng.uniform(-1, 1, (1, 14, 14, 256)).astype("float32")
    w = rng.uniform(-1, 1, (3, 3, 256, 32)).astype("float32")
    out = np.full((1, 14, 14, 32), np.nan, "float32")
    f(x, w, out)
    right = _reference(1)(x.astype("float64"), w.astype("float64"))
    bound = 1e-4 * np.abs(right) + 1e-4 * np.sqrt(np.mean(right**2))
    assert (np.abs(out - right) < bound / 2).all()


@pytest.mark.parametrize(
    "call, words",
    [
        (lambda: winograd_matrices(0), "at least one result"),
        (lambda: winograd_matrices(2, 3, (0, 1, 1)), "3 different ones are needed"),
        (lambda: winograd_matrices(8), "9 different ones are needed"),
        (lambda: _stages("NCWH"), "the layout 'NCWH' is unknown"),
        (lambda: _stages("NHWC", window=(3, 1)), "it needs a 3x3 window"),
        (lambda: _stages("NHWC", channels=3), "it needs a 3x3 window over the channels"),
        (lambda: _stages("NHWC", image=2), "the window is larger than the padded image"),
    ],
)
def test_what_cannot_be(call: Any, words: str) -> None:
    with pytest.raises(ArgumentError, match=words):
        call()


def _stages(
    layout: str, window: tuple[int, int] = (3, 3), channels: int = 4, image: int = 6
) -> Any:
    data = te.placeholder((1, image, image, 4), name="data")
    weight = te.placeholder((*window, channels, 8), name="weight")
    return conv2d_winograd(data, weight, 2, layout=layout)
