"""Sizes that dynamo leaves open: one program for all of a range, and what is said of others."""

import logging

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from whet.compiler import driver
from whet.frontends.dynamo import backend, open_part, report, reports
from whet.frontends.dynamo.backend import whet_backend

OPTIONS = {"target": "llvm -num_threads=2"}


@pytest.fixture(autouse=True)
def _inference():
    torch._dynamo.reset()
    with torch.no_grad():
        yield


def _compiled(module, dynamic=True, **more):
    return torch.compile(module, backend=whet_backend, options=OPTIONS, dynamic=dynamic, **more)


def _check(fast, plain, *args):
    found, wanted = fast(*args), plain(*args)
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-4)
    for a, b in zip(*([x] if isinstance(x, torch.Tensor) else x for x in (found, wanted))):
        assert a.stride() == b.stride()


class _Attention(nn.Module):
    """A layer of a transformer with a table of 32 places, and its weights transposed at the end."""

    def __init__(self):
        super().__init__()
        self.qkv, self.out = nn.Linear(16, 48), nn.Linear(16, 16)
        self.places = nn.Parameter(torch.randn(32, 16))
        self.requires_grad_(False)

    def forward(self, x):
        n, length, width = x.shape
        h = F.layer_norm(x + self.places[:length], (width,))
        q, k, v = self.qkv(h).reshape(n, length, 3, 2, 8).permute(2, 0, 3, 1, 4)
        p = torch.softmax(q @ k.transpose(-1, -2) / 4, -1)
        y = self.out((p @ v).transpose(1, 2).reshape(n, length, width))
        return x + y, p.transpose(2, 3)


def test_one_build_for_every_size(monkeypatch):
    module = _Attention().eval()
    fast = _compiled(module)
    _check(fast, module, torch.randn(3, 7, 16))
    said = report()
    assert (said.stayed, said.fixed, len(said.compilations)) == ({}, {}, 1)
    assert said.compilations[0].startswith("x.size()[0] from 2 to 64, x.size()[1] from 2 to 32")
    for name in ("build", "compile_module"):
        monkeypatch.setattr(driver, name, None)
    monkeypatch.setattr(backend, "aot_module_simplified", None)
    for shape in ((2, 2), (64, 5), (4, 32), (5, 17), (3, 7)):
        _check(fast, module, torch.randn(*shape, 16))
    assert report() is said and len(said.compilations) == 1


def test_the_second_size_leaves_sizes_open():
    module = nn.Sequential(nn.Linear(5, 6), nn.ReLU()).requires_grad_(False)
    fast = _compiled(module, dynamic=None)
    for n in (3, 4, 9, 60):
        _check(fast, module, torch.randn(n, 5))
    assert [len(r.compilations) for r in reports()[-2:]] == [1, 1]


def test_ranges_grow_and_it_is_said(caplog):
    f = lambda x: torch.relu(x) * 2 + 1  # noqa: E731
    fast = _compiled(f)
    with caplog.at_level(logging.WARNING, "whet.torch"):
        _check(fast, f, torch.randn(3, 5))
        assert not caplog.records
        _check(fast, f, torch.randn(70, 5))
        _check(fast, f, torch.randn(200, 5))
    assert sum("the graph is compiled again" in r.message for r in caplog.records) == 1
    assert "from 2 to 256" in report().compilations[-1]
    _check(fast, f, torch.randn(512, 5))
    assert "from 2 to 1024" in report().compilations[-1]  # the power of two from twice 512 on
    torch._dynamo.reset()
    fast, x = _compiled(f, dynamic=None), torch.randn(3, 5)
    torch._dynamo.mark_dynamic(x, 0, min=2, max=300)
    _check(fast, f, x)
    assert report().compilations == ["x.size()[0] from 2 to 300, at first 3, (3, 5)"]


def test_images_of_any_size_are_one_build():
    module = nn.Sequential(
        nn.Conv2d(3, 4, 3, stride=2), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        nn.Linear(4, 2),
    )  # fmt: skip
    module.requires_grad_(False)
    fast = _compiled(module)
    for n, h, w in ((2, 8, 11), (5, 10, 11), (9, 31, 64)):
        _check(fast, module, torch.randn(n, 3, h, w))
    assert len(report().compilations) == 1 and not report().fixed and not report().stayed


def test_a_pool_leaves_the_batch_open():
    module = nn.Sequential(
        nn.MaxPool2d(2, 3, ceil_mode=True), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        nn.Linear(3, 2),
    )  # fmt: skip
    module.requires_grad_(False)
    fast = _compiled(module)
    for n in (2, 5, 9):
        _check(fast, module, torch.randn(n, 3, 8, 11))
    assert len(report().compilations) == 2 and len(report().fixed) == 2
    assert "each size by itself of args[0].size()[2], args[0].size()[3]" in str(report())
    _check(fast, module, torch.randn(4, 3, 10, 11))
    assert len(report().compilations) == 3 and not report().stayed


def test_what_needs_numbers_stays_in_pytorch():
    f = lambda x: torch.relu(torch.sort(x * 2, 0)[0]) + 1  # noqa: E731
    fast = _compiled(f)
    for shape in ((3, 7), (5, 9), (40, 2)):
        _check(fast, f, torch.randn(*shape))
    assert list(report().stayed) == ["aten.sort.default"] and not report().fixed
    assert "in PyTorch: aten.sort.default: an operator needs sizes that are numbers" in str(
        report()
    )
    made = len(report().compilations)
    _check(fast, f, torch.randn(17, 3))
    assert len(report().compilations) == made


def test_a_part_without_its_sizes_stays_in_pytorch():
    """What is between has sizes of products alone."""
    f = lambda x: torch.cummax((x * 2).reshape(-1, 3), 0)[0].relu().reshape(x.shape)  # noqa: E731
    fast = _compiled(f)
    for shape in ((3, 7, 3), (5, 9, 3)):
        _check(fast, f, torch.randn(*shape))
    assert report().stayed["a part"].endswith("is no size of the part's own inputs")


def test_a_number_that_is_no_size():
    f = lambda x, n: torch.relu(x) * n + x.shape[0]  # noqa: E731
    fast = _compiled(f)
    for n in (3, 4, 9):
        for rows in (3, 6):
            _check(fast, f, torch.randn(rows, 4), n)
    assert "each size by itself" in str(report())


def test_weights_that_change_are_not_traced_again(monkeypatch):
    modules = [nn.Linear(6, 5) for _ in range(2)]
    call = _compiled(lambda m, x: m(x).relu())
    _check(call, lambda m, x: m(x).relu(), modules[0], torch.randn(3, 6))
    monkeypatch.setattr(backend, "aot_module_simplified", None)
    for n in (2, 9):
        for module in modules:
            _check(call, lambda m, x: m(x).relu(), module, torch.randn(n, 6))
            module.weight.mul_(-1)
            _check(call, lambda m, x: m(x).relu(), module, torch.randn(n, 6))


def test_where_no_size_may_stay_open(monkeypatch, caplog):
    """Each set of sizes is compiled once, and that is said."""

    def broken(*args, **more):
        raise TypeError("no such thing")

    f = lambda x: torch.relu(x) + 1  # noqa: E731
    for home, name in ((open_part, "compile_family"), (backend, "OpenGraph")):
        with monkeypatch.context() as patched, caplog.at_level(logging.WARNING, "whet.torch"):
            patched.setattr(home, name, broken)
            torch._dynamo.reset()
            fast = _compiled(f)
            for n in (3, 5, 3):
                _check(fast, f, torch.randn(n, 4))
        assert report().compilations[-1] == "5, 4, (5, 4)" and not report().stayed
        assert "no such thing" in caplog.text
        caplog.clear()


class _Scaled(nn.Module):
    """Floats of Python, which dynamo gives as arguments where all may change."""

    def __init__(self):
        super().__init__()
        self.norm, self.factor = nn.LayerNorm(8, eps=1e-3).requires_grad_(False), 0.75

    def forward(self, x):
        return self.norm(x) * self.factor


def test_floats_of_python_beside_open_sizes():
    module = _Scaled()
    fast = _compiled(module)
    for n in (3, 4, 9):
        _check(fast, module, torch.randn(n, 8))
    assert [len(r.compilations) for r in reports()[-1:]] == [1] and not report().fixed
    for module.factor in (1.25, 2.5):
        for n in (3, 5):
            _check(fast, module, torch.randn(n, 8))


_VIEWS = {
    "flatten": lambda x: (x.flatten(), x.relu()),
    "heads": lambda x: (x.view(x.shape[0], 2, 3).transpose(1, 2)[:, 1], x + 1),
    "last": lambda x: (x.narrow(0, x.shape[0] - 1, 1), x + 1),
    "line": lambda x: (x.view(x.shape[0] * x.shape[1])[3:], x * 2),
    "chunks": lambda x: (x * 2, *x.chunk(2, 1)),
    "chunks alone": lambda x: x.chunk(2, 0),
    "read, too": lambda x: (x.t().relu() @ x, x.t(), x),
    "of a result": lambda x: (y := x * 2, y.narrow(0, x.shape[0] - 1, 1)),
}


@pytest.mark.parametrize("name", _VIEWS)
@pytest.mark.parametrize("dynamic", [True, None])
def test_results_that_are_views_of_arguments(name, dynamic):
    f = _VIEWS[name]
    fast = _compiled(f, dynamic)
    for n in (2, 4, 7):
        x = torch.randn(n + 3, 6)[3:]
        found, wanted = fast(x), f(x)
        for a, b in zip(found, wanted, strict=True):
            torch.testing.assert_close(a, b)  # a product sums in another order
            assert a.stride() == b.stride()
            if b.untyped_storage().data_ptr() == x.untyped_storage().data_ptr():
                assert a.data_ptr() == b.data_ptr()
    assert not report().stayed


def test_views_of_arguments_that_are_written():
    def all_of_it(x):
        return x.add_(1).narrow(0, x.shape[0] - 1, 1), x * 2

    def the_view(x):
        return x.narrow(0, x.shape[0] - 1, 1).add_(1), x * 2

    for f, start in ((all_of_it, 0), (the_view, 0), (the_view, 3)):
        torch._dynamo.reset()
        fast = _compiled(f)
        for n in (2, 5):
            x, same = (torch.arange(60.0).view(10, 6)[start : start + n] for _ in range(2))
            for a, b in zip((*fast(x), x), (*f(same), same), strict=True):
                assert torch.equal(a, b)
