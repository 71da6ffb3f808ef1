"""Networks and modules of PyTorch, exported and by ``torch.compile``."""

import logging

import numpy as np
import pytest
import torch
from torch import nn

import whet
from whet.bench.networks import NETWORKS, network
from whet.compiler.errors import ArgumentError
from whet.frontends.dynamo import report
from whet.frontends.dynamo.backend import register, whet_backend
from whet.frontends.torch.digest import digest_of

TARGET = "llvm -num_threads=2"
TINY = {
    "resnet50": {"size": 35, "width": 4, "depths": (1, 2), "classes": 9},
    "mobilenet_v2": {"size": 33, "width": 0.25, "rows": 2, "classes": 9},
    "mobilenet_v3_large": {"size": 33, "width": 0.25, "rows": 4, "classes": 9},
    "efficientnet_b0": {"size": 33, "width": 0.25, "rows": 2, "classes": 9},
    "unet": {"size": 16, "width": 3, "depth": 1},
    "bert_base": {"tokens": 9, "width": 10, "depth": 1, "heads": 2, "words": 50},
    "gpt2_step": {"past": 5, "width": 10, "depth": 1, "heads": 2, "words": 50},
    "vit_base": {"size": 32, "width": 10, "depth": 1, "heads": 2, "classes": 9},
    "lstm": {"tokens": 3, "width": 5, "depth": 1, "words": 50},
}


def _listed(made):
    return list(made) if isinstance(made, (list, tuple)) else [made]


def _compiled(module, **more):
    torch._dynamo.reset()
    return torch.compile(module, backend=whet_backend, options={"target": TARGET}, **more)


def test_networks(seeds):
    """Some that are drawn: ``--draws 9`` draws them all."""
    names = list(NETWORKS)
    for seed in seeds(2):
        if names:
            name = names.pop(seed % len(names))
            print(name)
            _check_network(name, seed)


def _check_network(name, seed):
    """Beside PyTorch in float64; its own float32 says how much rounding there is."""
    made = network(name, seed=seed % 1000, batch=1, **TINY[name])
    model = whet.compile(torch.export.export(made.module, made.inputs), target=TARGET)
    out = [np.full(v.shape, np.nan, v.dtype) for v in model.outputs]
    model.run([x.numpy() for x in made.inputs], out)
    plain = _listed(made.module(*made.inputs))
    wide = [x.double() if x.is_floating_point() else x for x in made.inputs]
    wanted = _listed(made.module.double()(*wide))
    assert len(out) == len(wanted)
    for found, own, exact in zip(out, plain, wanted):
        scale = float(exact.abs().max())
        error = np.abs(found - exact.numpy()).max() / scale
        assert error <= 4 * float((own - exact).abs().max()) / scale + 2e-6


class _Parts(nn.Module):
    """Something in the middle that is not supported; outputs in a nest."""

    def __init__(self):
        super().__init__()
        self.first, self.norm = nn.Linear(5, 7), nn.BatchNorm1d(7)
        self.last = nn.Linear(7, 3)

    def forward(self, x):
        y = torch.relu(self.norm(self.first(x)))
        z = torch.cummax(y, 1)[0]
        return {"out": self.last(z), "more": [y, x.shape[0]]}


def _same(found, wanted):
    assert found["more"][1] == wanted["more"][1]
    for a, b in ((found["out"], wanted["out"]), (found["more"][0], wanted["more"][0])):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-5)


def test_what_is_not_supported_stays(caplog):
    """And there is one program for all sizes, which is said; changed weights are seen."""
    module = _Parts().eval()
    run = _compiled(module)
    with torch.no_grad(), caplog.at_level(logging.INFO, "whet.torch"):
        for batch in (4, 6, 6, 9, 6):
            x = torch.randn(batch, 5)
            _same(run(x), module(x))
        assert report().stayed == {"aten.cummax.default": "the operator is not supported"}
        assert len(report().parts) == 2 and "cummax" in str(report())
        assert [c.split(",")[0] for c in report().compilations] == ["x.size()[0] from 2 to 64"]
        assert "compiled again" not in caplog.text
        module.first.weight.mul_(2)
        _same(run(x), module(x))
        assert "a parameter or a buffer has changed" in caplog.text
    with torch.inference_mode():
        _same(run(x), module(x))


class _Buffered(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("count", torch.zeros(3))

    def forward(self, x):
        self.count.add_(1)
        return x * self.count


def test_a_buffer_that_changes():
    """torch.compile writes it back; an exported program is refused."""
    module, other = _Buffered(), _Buffered()
    run = _compiled(module)
    x = torch.randn(2, 3)
    with torch.no_grad():
        for _ in range(3):
            torch.testing.assert_close(run(x), other(x))
    torch.testing.assert_close(module.count, other.count)
    with pytest.raises(ArgumentError, match="'count': the program changes it"):
        whet.from_torch(torch.export.export(other, (x,)))


def test_gradients_stay_in_pytorch():
    """And the backend is known by its name."""
    register()
    register()
    torch._dynamo.reset()
    module = nn.Linear(5, 3)
    run = torch.compile(module, backend="whet")
    with torch.enable_grad():  # which benchmarks switch off for their process
        run(torch.randn(2, 5)).sum().backward()
    assert module.weight.grad is not None
    assert "gradients are asked for" in str(report())


def test_results_and_views():
    """Results that are inputs, constants, views of one another, or of no elements computed."""

    class Odd(nn.Module):
        def forward(self, x, k: int):
            y = x.transpose(0, 1)[::2]
            return x, y, y.contiguous() + k, y, torch.arange(3)

    run, x = _compiled(Odd()), torch.randn(4, 6)[:, 1:4]
    with torch.no_grad():
        for found, wanted in zip(run(x, 2), Odd()(x, 2)):
            torch.testing.assert_close(found, wanted)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_a_module_with_its_inputs(dtype):
    module, x = nn.Linear(5, 3, dtype=dtype).eval(), torch.randn(2, 5, dtype=dtype)
    found = whet.compile(module, inputs=(x,), target=TARGET)(x)
    wanted = module.double()(x.double()).detach()
    scale = 4 * torch.finfo(dtype).eps
    np.testing.assert_allclose(
        np.asarray(found, np.float64), wanted.numpy(), rtol=scale, atol=scale
    )


def test_open_sizes():
    module, x = nn.Linear(5, 3), torch.randn(4, 5)
    batch = torch.export.Dim("batch", min=2, max=64)
    program = torch.export.export(module, (x,), dynamic_shapes=({0: batch},))
    with pytest.raises(ArgumentError, match="sizes are fixed when a model is compiled"):
        whet.from_torch(program)
    graph = whet.from_torch(program, shapes={"input": (7, 5)})
    assert graph.inputs[0].shape == (7, 5) and graph.outputs[0].shape == (7, 3)
    with pytest.raises(ArgumentError, match="its inputs are input"):
        whet.from_torch(program, shapes={"x": (7, 5)})

    with pytest.raises(ArgumentError, match="no dict of names and shapes"):
        whet.compile(program, shapes=[{"input": (7, 5)}])
    for wrong, why in ((5, "no shape"), ((7, "a"), "no shape"), ((7, 6), "has the shape"),
                       ((7,), "has the shape"), ((99, 5), r"\[0\] is 99.* 2 to 64")):  # fmt: skip
        with pytest.raises(ArgumentError, match=why):
            whet.from_torch(program, shapes={"input": wrong})
    static = torch.export.export(module, (x,))
    with pytest.raises(ArgumentError, match="has the shape"):
        whet.compile(static, shapes={"input": (7, 5)})


def test_arrays_that_a_model_is_given():
    """Their bytes in another order, tensors with gradients, and what is no array."""
    module, x = nn.Linear(5, 3), torch.randn(4, 5)
    model, wanted = whet.compile(module, inputs=(x,), target=TARGET), module(x).detach().numpy()
    plain = x.numpy()
    for given in (plain.astype(">f4"), x.clone().requires_grad_(), plain.tolist(), x.t().t()):
        array = np.array(given, np.float32) if isinstance(given, list) else given
        np.testing.assert_allclose(model(array), wanted, rtol=1e-5, atol=1e-5)
    for wrong in (torch.empty(4, 5, device="meta"), [[1], [1, 2]], x.to_sparse(), "x", None):
        with pytest.raises(ArgumentError):
            model(wrong)


def test_a_constant_is_the_parameter_itself():
    module = nn.Linear(33, 17)
    graph = whet.from_torch(torch.export.export(module, (torch.randn(2, 33),)))
    arrays = [a.ctypes.data for a in graph.constants.values()]
    assert module.weight.data_ptr() in arrays and module.bias.data_ptr() in arrays


def test_errors():
    module, x = nn.Linear(5, 3), torch.randn(4, 5)
    with pytest.raises(ArgumentError, match="it is no ExportedProgram"):
        whet.from_torch(module)
    with pytest.raises(ArgumentError, match="no example inputs"):
        whet.compile(module)
    for wrong in (3, {"x": x}):
        with pytest.raises(ArgumentError, match="no tuple of what the module takes"):
            whet.compile(module, inputs=wrong)
    with pytest.raises(ArgumentError, match=r"torch\.export cannot export it"):
        whet.compile(module, inputs=(torch.randn(2, 4),))
    with pytest.raises(ArgumentError, match="on meta: compiled models take tensors in the CPU's"):
        whet.frontends.torch.operators.arrays.as_array(torch.empty(2, device="meta"))
    program = torch.export.export(nn.Dropout(), (x,))
    with pytest.raises(ArgumentError, match=r"aten\.\w+\.default .*random|training mode"):
        whet.from_torch(program)
    complex64 = torch.randn(2, 5, dtype=torch.complex64)
    with pytest.raises(ArgumentError, match="complex64"):
        whet.from_torch(torch.export.export(nn.Tanh(), (complex64,)))
    with torch.no_grad(), pytest.raises(Exception, match="there is no such option"):
        torch.compile(module, backend=whet_backend, options={"tarket": 1})(x)
    model = whet.compile(module, inputs=(x,), target=TARGET)
    with pytest.raises(ArgumentError, match="float64"):
        model(x.double())


class _Beside(nn.Module):
    """A buffer that nothing reads."""

    def __init__(self, buffer):
        super().__init__()
        self.register_buffer("buffer", buffer)

    def forward(self, x):
        return x + 1


@pytest.mark.parametrize(
    "buffer",
    [
        torch.ones(3, dtype=torch.complex64).conj(),
        torch.ones(3, dtype=torch.complex64).conj().imag,
        torch.eye(3).to_sparse(),
        torch.ones(3, device="meta"),
    ],
    ids=["conjugated", "negated", "sparse", "meta"],
)
def test_weights_without_bytes_in_order_have_no_digest(buffer, tmp_path):
    program = torch.export.export(_Beside(buffer), (torch.ones(3),))
    assert digest_of(program) is None
    try:
        found = whet.compile(program, target=TARGET, cache=tmp_path)(np.ones(3, "float32"))
    except ArgumentError as error:
        assert len(str(error).splitlines()) > 1
    else:
        np.testing.assert_array_equal(found, 2 * np.ones(3))
