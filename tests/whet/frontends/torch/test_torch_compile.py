"""``torch.compile(..., backend="whet")``: the numbers of eager PyTorch, whatever is called how."""

import gc
import logging
import threading
import weakref

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from whet.frontends.dynamo import frozen, report
from whet.frontends.dynamo.backend import whet_backend

OPTIONS = {"target": "llvm -num_threads=2"}


@pytest.fixture(autouse=True)
def _inference():
    torch._dynamo.reset()
    with torch.no_grad():
        yield


def _compiled(module, **more):
    return torch.compile(module, backend=whet_backend, options=OPTIONS, **more)


def _check(fast, plain, *args):
    found, wanted = fast(*args), plain(*args)
    torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-5)
    assert found.stride() == wanted.stride()


class _Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(9, 9)

    def forward(self, x):
        return torch.relu(self.linear(x))


def test_modules_with_the_same_code():
    """dynamo has one graph for them, to which their weights are given."""
    x, modules = torch.randn(3, 9), [_Block() for _ in range(3)]
    for _ in range(2):
        for module in modules:
            _check(_compiled(module), module, x)
    call = _compiled(lambda m, x: m(x))
    for module in modules * 2:
        _check(call, lambda m, x: m(x), module, x)
    net = nn.Sequential(*modules)
    wanted = net(x)
    for block in net:
        block.compile(backend=whet_backend, options=OPTIONS)
    torch.testing.assert_close(net(x), wanted, rtol=1e-5, atol=1e-5)


def test_square_weights_that_are_turned():
    """Shape and address do not tell a matrix from its transpose, nor a view from a weight."""
    w = nn.Parameter(torch.randn(5, 5))
    for f in (lambda x, w: x @ w + x @ w.t(), lambda x, w: torch.digamma(x).view(5, 5) @ w):
        fast = _compiled(f)
        for x in (w.detach().view(5, 5).t(), torch.rand(5, 5), w.detach()):
            found, wanted = fast(x, w), f(x, w)
            torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-4, equal_nan=True)


def _new_parameter(w, module):
    module.weight = nn.Parameter(torch.randn_like(w))


def _new_data(w, module):
    w.data = torch.randn_like(w)


def _turned(w, module):
    w.data = w.data.t()


@pytest.mark.parametrize(
    "write",
    [
        _new_parameter, _new_data, _turned, lambda w, m: w.mul_(2), lambda w, m: w.data.mul_(2),
        lambda w, m: w.detach().numpy().__imul__(2),
    ],
)  # fmt: skip
@pytest.mark.parametrize("size", [7, 70])
def test_weights_that_change(write, size):
    """Twice: dynamo compiles itself again the first time. Then they are inputs."""
    module, x = nn.Linear(size, size), torch.randn(3, size)
    fast = _compiled(module)
    _check(fast, module, x)
    for _ in range(5):
        write(module.weight, module)
        _check(fast, module, x)


def test_inference_tensors():
    """Nothing counts their writes: they are no constants."""
    with torch.inference_mode():
        module, x = nn.Linear(7, 7), torch.randn(3, 7)
        fast = _compiled(module)
        _check(fast, module, x)
        for _ in range(3):
            module.weight[1, 1] += 1
            _check(fast, module, x)
    other = nn.Linear(7, 7)
    call = _compiled(lambda m, x: m(x))
    _check(call, lambda m, x: m(x), other, torch.randn(3, 7))
    _check(call, lambda m, x: m(x), module, torch.randn(3, 7))


def test_a_weight_that_changes_often_is_an_input(caplog):
    module, x = nn.Linear(7, 5), torch.randn(3, 7)
    fast = _compiled(module)
    with caplog.at_level(logging.WARNING, "whet.torch"):
        for _ in range(9):
            _check(fast, module, x)
            module.weight.mul_(1.1)
    assert len(report().compilations) == 4 and "an input from now on" in caplog.text


def test_a_module_that_is_gone_leaves_nothing():
    """And many modules share one program to which weights are given."""
    call, x = _compiled(lambda m, x: m(x)), torch.randn(3, 9)
    kept, gone = _Block(), []
    seen = weakref.WeakSet()
    made = frozen._Held.__init__

    def held(self, x):
        made(self, x)
        seen.add(self)

    frozen._Held.__init__ = held
    try:
        for k in range(4):
            module = _Block()
            _check(call, lambda m, x: m(x), module, x)
            gone.append(weakref.ref(module.linear.weight))
        _check(call, lambda m, x: m(x), kept, x)
        del module
        gc.collect()
        assert not any(ref() is not None for ref in gone) and len(seen) == 2
    finally:
        frozen._Held.__init__ = made


def test_many_modules(monkeypatch):
    monkeypatch.setattr("whet.frontends.dynamo.backend._MOST_PROGRAMS", 3)
    call, x = _compiled(lambda m, x: m(x)), torch.randn(3, 9)
    modules = [_Block() for _ in range(7)]
    for module in modules * 2:
        _check(call, lambda m, x: m(x), module, x)
    assert len(report().compilations) == 4
