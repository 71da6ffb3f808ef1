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
    """Both round: where terms cancel, to the largest results' digits, not to their own."""
    found, wanted = fast(*args), plain(*args)
    largest = max(1.0, wanted.abs().max().item()) if wanted.numel() else 1.0
    torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-5 * largest)
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
    assert len(report().compilations) == 3
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
        for _ in range(4):
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


def _of_strides(x):
    return torch.digamma(x.t() * 2).t().view(-1)


def _channels_last(x):
    return torch.digamma(F.relu(x * 2)).permute(0, 2, 3, 1).view(-1, 3)


def _expanded(x):
    return (x[:, :1] * 2).expand(5, 7)


def _every_other(x):
    return torch.digamma((x * 2)[:, ::2]), (x + 1).t()[1:]


def test_strides_of_results():
    """They are PyTorch's: a view that follows is possible, or what the caller sees is the same."""
    x = torch.rand(5, 7) + 1
    image = (torch.rand(2, 3, 4, 5) + 1).to(memory_format=torch.channels_last)
    for f, given in ((_of_strides, x), (_channels_last, image), (_expanded, x), (F.relu, image)):
        _check(_compiled(f), f, given)
    for found, wanted in zip(_compiled(_every_other)(x), _every_other(x)):
        torch.testing.assert_close(found, wanted)
        assert found.stride() == wanted.stride()


class _Scaled(nn.Module):
    factor = 1.25

    def forward(self, x):
        return x * self.factor + x.shape[0]


def test_numbers_of_python(caplog):
    """A float that changes is known to what is compiled; after many of them PyTorch runs it."""

    def f(x, s):
        return F.relu(x * s) + s

    fast, x = _compiled(f), torch.randn(3, 4)
    for s in (1.5, 2.5, 1.5, -0.25, 2.5):
        torch.testing.assert_close(fast(x, s), f(x, s))
    assert not report().stayed and len(report().compilations) == 3
    for k in range(9):
        torch.testing.assert_close(fast(x, k / 7), f(x, k / 7))
    assert "keeps changing" in str(report())
    module = _Scaled()
    fast = _compiled(module, dynamic=True)
    for module.factor in (1.25, 2.25, 3.0):
        _check(fast, module, x)
        _check(fast, module, x[1:])
    whole = torch.arange(5)
    fast = _compiled(f)
    for s in (1.5, 2.5):
        torch.testing.assert_close(fast(whole, s), f(whole, s))


def test_whatever_fails_stays_in_pytorch(monkeypatch):
    """An error of any kind, when a part is built, when it runs, or when a graph is traced."""

    def broken(*args, **more):
        raise TypeError("no such thing")

    class Broken:
        outputs = ()
        run = broken

    x, f = torch.rand(3, 4), lambda x: torch.digamma(torch.relu(x) + 1) * 2
    for where, by in (
        ("part.compile", broken), ("part.compile", lambda *a, **k: Broken()),
        ("partition.Translation", broken), ("backend.aot_module_simplified", broken),
    ):  # fmt: skip
        with monkeypatch.context() as patched:
            patched.setattr(f"whet.frontends.dynamo.{where}", by)
            torch._dynamo.reset()
            fast = _compiled(f)
            _check(fast, f, x)
            _check(fast, f, x)
        assert "no such thing" in str(report())


def test_threads():
    """Each its own sizes and its own module, of one graph, all at once."""
    modules = [_Block() for _ in range(4)]
    call = _compiled(lambda m, x: m(x), dynamic=True)
    wrong, begin = [], threading.Barrier(4)

    def work(k):
        begin.wait()
        try:
            with torch.no_grad():
                for n in (2 + k, 5, 3 + k, 5):
                    _check(call, lambda m, x: m(x), modules[k], torch.randn(n, 9))
        except BaseException as error:
            wrong.append(error)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong, wrong


def test_sizes_are_compiled_where_dynamo_compiles():
    """The first program is there before the first call: dynamo's lock is held."""
    made = []

    def backend(graph, inputs):
        run = whet_backend(graph, inputs, options=OPTIONS)
        made.append(len(report().compilations))
        return run

    module = nn.Linear(4, 3)
    fast = torch.compile(module, backend=backend)
    for n in (2, 3, 5):
        _check(fast, module, torch.randn(n, 4))
    assert made == [1, 1] and len(report().compilations) == 1
