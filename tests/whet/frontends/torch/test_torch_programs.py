"""Exported programs of open sizes: traced once, a model for any of them."""

import random

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.export import Dim

import whet
from whet.compiler.errors import ArgumentError
from whet.frontends.torch import importer

TARGET = "llvm -num_threads=2"


class _Images(nn.Module):
    """Windows of any size, images that are rolled, resized and put into blocks."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, padding=1)
        self.average, self.most = nn.AdaptiveAvgPool2d((3, 2)), nn.AdaptiveMaxPool2d(5)
        self.linear, self.norm = nn.Linear(48, 5), nn.GroupNorm(2, 8)
        self.requires_grad_(False)

    def forward(self, input, scale=2):
        y = self.norm(self.conv(input))
        wide = F.interpolate(F.max_pool2d(y, 2), scale_factor=2.0, mode="bilinear")
        return (
            self.linear(self.average(y).flatten(1)),
            self.most(y),
            torch.roll(y, (-3, 2), (2, 3)) * scale,
            F.pixel_shuffle(wide, 2).mean(dim=2),
        )


RESIZED = {
    "half": lambda x: F.interpolate(x, scale_factor=0.5, mode="bilinear"),
    "half of the nearest": lambda x: F.interpolate(x, scale_factor=0.5),
    "twice and a quarter": lambda x: F.interpolate(x, scale_factor=(2, 0.25), mode="bicubic"),
    "one and a half": lambda x: F.interpolate(x, scale_factor=(1.5, 0.5), mode="bicubic"),
    "three quarters": lambda x: F.interpolate(x, scale_factor=(0.75, 1.15), mode="nearest-exact"),
    "of a half": lambda x: F.interpolate(F.avg_pool2d(x, 2), scale_factor=1.7, mode="bilinear"),
    "half of the exact": lambda x: F.interpolate(x, scale_factor=0.5, mode="nearest-exact"),
    "to a size": lambda x: F.interpolate(x, size=(17, 13), mode="bilinear"),
    "to a size by the nearest": lambda x: F.interpolate(x, size=(17, 13)),
    "corners": lambda x: F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=True),
    "what it was": lambda x: (
        F.interpolate(F.max_pool2d(x, 3, 2, 1), size=x.shape[2:], mode="bilinear") + x
    ),
    "what it was, by cubes": lambda x: F.interpolate(
        F.max_pool2d(x, 3, 3, 1), size=x.shape[2:], mode="bicubic", align_corners=True
    ),
}


@pytest.mark.parametrize("name", RESIZED)
def test_images_resized_by_any_factor(name):
    class Resized(nn.Module):
        def forward(self, x):
            return RESIZED[name](x)

    sizes = {0: Dim("b", min=1, max=3), 2: Dim("h", min=8, max=40), 3: Dim("w", min=8, max=40)}
    program = torch.export.export(Resized(), (torch.randn(2, 3, 19, 24),), dynamic_shapes=(sizes,))
    model = whet.compile(program, target=TARGET, cache=False)
    for b, h, w in ((1, 8, 8), (3, 40, 40), (2, 9, 38), (1, 33, 11), (2, 20, 21)):
        _agrees(model, Resized(), torch.randn(b, 3, h, w))


class _Lengths(nn.Module):
    """Sizes that meet, of slices and repeats."""

    def forward(self, x, y):
        both = torch.cat([x, y[:, 1:]], 1)
        return both.cumsum(1), x.flip(1) * torch.arange(x.shape[1]), both.repeat(1, 2)


def _agrees(model, module, *inputs):
    made, wanted = model(*(x.numpy() for x in inputs)), module(*inputs)
    if isinstance(wanted, torch.Tensor):
        made, wanted = [made], [wanted]
    for found, exact in zip(made, wanted, strict=True):
        np.testing.assert_allclose(found, exact, rtol=1e-4, atol=2e-5)


def test_images_of_any_size(seeds, monkeypatch):
    module = _Images().eval()
    sizes = {0: Dim("b", min=1, max=4), 2: 2 * Dim("h", min=3, max=20)}
    sizes[3] = 2 * Dim("w", min=3, max=24)
    inputs = torch.randn(2, 3, 16, 12), 2
    program = torch.export.export(module, inputs, dynamic_shapes=(sizes, None))
    traced = []
    run = torch.export.ExportedProgram.run_decompositions
    monkeypatch.setattr(
        torch.export.ExportedProgram,
        "run_decompositions",
        lambda self, table: traced.append(self) or run(self, table),
    )
    model = whet.compile(program, target=TARGET, cache=False)
    assert traced == [program]
    assert {n: str(r) for n, r in model.ranges.items()} == {
        "b": "1 to 4", "input[2]": "6 to 40 in steps of 2", "input[3]": "6 to 48 in steps of 2",
    }  # fmt: skip
    rng = random.Random(seeds(1)[0])
    drawn = [(rng.randint(1, 4), 2 * rng.randint(3, 20), 2 * rng.randint(3, 24)) for _ in range(8)]
    for b, h, w in ((1, 6, 6), (4, 40, 48), (3, 6, 48), *drawn):
        _agrees(model, module, torch.randn(b, 3, h, w))


def test_lengths_that_meet():
    module, n, m = _Lengths(), Dim("n", min=1, max=30), Dim("m", min=3, max=20)
    program = torch.export.export(
        module, (torch.randn(2, 5), torch.randn(2, 4)), dynamic_shapes=({1: n}, {1: m})
    )
    model = whet.compile(program, target=TARGET, cache=False)
    for a, b in ((1, 3), (30, 20), (7, 13)):
        _agrees(model, module, torch.randn(2, a), torch.randn(2, b))


def test_a_graph_at_given_sizes():
    module = _Images().eval()
    sizes = {0: Dim("b", min=1, max=4), 2: 2 * Dim("h", min=3, max=20)}
    inputs = torch.randn(2, 3, 16, 12), 2
    program = torch.export.export(module, inputs, dynamic_shapes=(sizes, None))
    x = torch.randn(3, 3, 10, 12)
    graph = whet.from_torch(program, {"input": tuple(x.shape)})
    assert graph.inputs[0].name == "input"
    _agrees(whet.compile(graph, target=TARGET, cache=False), module, x)
    for wrong, why in (
        ((3, 3, 11, 12), r"input\[2\] is 11, and in the program it is 2\*"),
        ((5, 3, 10, 12), r"input\[0\] is 5.* from 1 to 4"),
        ((3, 3, 42, 12), r"input\[2\] is 42.* from 3 to 20"),
        ((3, 3, 10, 13), "has the shape"),
    ):
        with pytest.raises(ArgumentError, match=why):
            whet.from_torch(program, {"input": wrong})


class _Of(nn.Module):
    """A function as a module."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *inputs):
        return self.function(*inputs)


def test_inputs_that_share_a_size():
    module, n = _Of(lambda x, y: (x * 2, y - x[:1])), Dim("n", min=1, max=20)
    inputs = torch.randn(2, 5), torch.randn(3, 5)
    program = torch.export.export(module, inputs, dynamic_shapes=(({1: n}, {1: n}),))
    model = whet.compile(program, target=TARGET, cache=False)
    for k in (1, 7, 20):
        _agrees(model, module, torch.randn(2, k), torch.randn(3, k))
    names = program.graph_signature.user_inputs
    with pytest.raises(ArgumentError, match="is 4, and in the program it is"):
        whet.from_torch(program, {names[0]: (2, 5), names[1]: (3, 4)})


def test_what_a_program_was_traced_for():
    def by_parity(x):
        return x + 1 if x.shape[0] % 2 == 0 else x - 1

    sizes = (({0: Dim.AUTO},),)
    program = torch.export.export(_Of(by_parity), (torch.randn(4, 3),), dynamic_shapes=sizes)
    (name,) = program.graph_signature.user_inputs
    assert whet.from_torch(program, {name: (6, 3)}).outputs[0].shape == (6, 3)
    with pytest.raises(ArgumentError, match=r"traced for sizes of which Eq\(Mod"):
        whet.from_torch(program, {name: (5, 3)})


@pytest.mark.parametrize(
    ("function", "why"),
    [
        (lambda x: x[x > 0], "u0"),
        (lambda x: x * x.sum().item(), "_local_scalar_dense.default .*not supported"),
    ],
)
def test_what_depends_on_data_is_refused(function, why):
    program = torch.export.export(_Of(function), (torch.randn(9),))
    with pytest.raises(ArgumentError, match=why):
        whet.from_torch(program)
    assert importer.is_program(program)


@pytest.mark.parametrize(
    ("function", "least", "why"),
    [
        (lambda x: x.squeeze(0) * 2, 1, "leaves out an axis of 1"),
        (lambda x: F.interpolate(x[None], scale_factor=0.7), 17, "0.7 times another, has no form"),
    ],
)
def test_sizes_that_are_refused(function, least, why):
    sizes = (({0: Dim("n", min=least, max=40)},),)
    given = torch.randn(24, 3) if least == 1 else torch.randn(2, 24, 3)
    if least > 1:
        sizes = (({1: Dim("n", min=least, max=100)},),)
    program = torch.export.export(_Of(function), (given,), dynamic_shapes=sizes)
    with pytest.raises(ArgumentError, match=why):
        whet.compile(program, target=TARGET, cache=False)


def test_an_open_number_is_refused():
    sizes = (({0: Dim("n", min=2, max=40)}, Dim.DYNAMIC),)
    module = _Of(lambda x, k: x * k)
    program = torch.export.export(module, (torch.randn(5), 3), dynamic_shapes=sizes)
    with pytest.raises(ArgumentError, match="it is an open number"):
        whet.compile(program, target=TARGET, cache=False)


@pytest.mark.parametrize("mode", ["nearest", "nearest-exact"])
@pytest.mark.parametrize("size", [(82, 61), (61, 82), (3, 5)])
def test_the_nearest_of_two_that_are_as_near(mode, size):
    """Floats decide in PyTorch."""
    module = _Of(lambda x: F.interpolate(x, size=size, mode=mode)).eval()
    x = torch.randn(1, 2, 2, 2)
    model = whet.compile(module, inputs=(x,), target=TARGET, cache=False)
    np.testing.assert_array_equal(model(x.numpy()), module(x))
