"""Images, volumes and sounds of open sizes: convolutions and pools for any of them."""

import random

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import whet
from whet.compiler.errors import ArgumentError
from whet.compiler.target.machine import host

D = whet.dynamic


class Network:
    """A chain of layers as a ``ModelProto``, and what it gives by numpy in float64.

    Args:
        layers: ``("conv", channels, window, stride, groups)``, or an operator with attributes.
        shape: of its input, names for open sizes.
        bias: whether convolutions add one.
    """

    def __init__(self, layers, shape, bias=False, dtype="float32", seed=0):
        self.rng, self.shape, self.dtype = np.random.default_rng(seed), shape, dtype
        self.nodes, self.constants = [], []
        self.rank, channels, x = len(shape) - 2, shape[1], "x"
        for k, (operator, *more) in enumerate(layers):
            y = f"v{k}"
            if operator == "conv":
                out, window, stride, groups = more
                self.conv(x, y, channels, out, window, stride, groups, bias)
                channels = out
            else:
                attrs = more[0] if more else {}
                self.nodes.append(helper.make_node(operator, [x], [y], **attrs))
            x = y
        self.output = x
        self.model = self.of("float32" if dtype == "float32" else "float64")
        self._exact = ReferenceEvaluator(self.of("float64"))

    def conv(self, x, y, channels, out, window, stride, groups, bias):
        shape = (out, channels // groups, *[window] * self.rank)
        w = self.rng.standard_normal(shape) / np.sqrt(np.prod(shape[1:]))
        self.constants.append((f"{y}.w", w))
        inputs = [x, f"{y}.w"]
        if bias:
            self.constants.append((f"{y}.b", self.rng.standard_normal(out)))
            inputs.append(f"{y}.b")
        pads = [window // 2] * self.rank + [(window - 1) // 2] * self.rank
        attrs = {"strides": [stride] * self.rank, "pads": pads, "group": groups}
        self.nodes.append(helper.make_node("Conv", inputs, [y], **attrs))

    def of(self, dtype):
        """The network in a type."""
        kind = TensorProto.FLOAT if dtype == "float32" else TensorProto.DOUBLE
        info = helper.make_tensor_value_info
        graph = helper.make_graph(
            self.nodes,
            "chain",
            [info("x", kind, self.shape)],
            [info(self.output, kind, None)],
            [numpy_helper.from_array(a.astype(dtype), n) for n, a in self.constants],
        )
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)

    def agrees(self, model, **sizes):
        """Compare a model with numpy at some sizes; its output is poisoned before the run."""
        x = self.rng.standard_normal([sizes.get(d, d) for d in self.shape]).astype(self.dtype)
        (wanted,) = self._exact.run(None, {"x": x.astype("float64")})
        out = np.full(wanted.shape, np.nan, self.dtype)
        model.run([x], [out])
        off = np.abs(out - wanted).max() / np.abs(wanted).max()
        assert off < (1e-5 if self.dtype == "float32" else 1e-13), (sizes, off)
        np.testing.assert_array_equal(model(x), out)


NARROW = host.levels()[0]  # runs wherever the tests do
IMAGE = ["b", 3, "h", "w"]
POOL = {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}
CASES = {
    "strides": ([("conv", 32, 3, 2, 1), ("Relu",), ("MaxPool", POOL),
                 ("conv", 24, 3, 1, 1)], IMAGE),
    "averages": ([("conv", 16, 1, 1, 1), ("AveragePool", POOL), ("Sigmoid",)], IMAGE),
    "depthwise": ([("conv", 48, 3, 1, 1), ("conv", 48, 3, 2, 48), ("HardSwish",),
                   ("conv", 20, 1, 1, 1), ("GlobalAveragePool",)], IMAGE),
    "groups": ([("conv", 32, 3, 1, 1), ("conv", 32, 3, 1, 4), ("Elu",)], IMAGE),
    "odd channels": ([("conv", 13, 3, 1, 1), ("Relu",), ("conv", 21, 5, 2, 1)], IMAGE),
    "even windows": ([("conv", 16, 2, 2, 1), ("conv", 12, 4, 3, 1)], IMAGE),
    "sounds": ([("conv", 32, 5, 2, 1), ("Relu",), ("conv", 16, 3, 2, 1)], ["b", 6, "h"]),
    "sounds of few channels": ([("conv", 5, 3, 1, 1), ("Sigmoid",), ("conv", 12, 4, 3, 1),
                               ("Abs",), ("Tanh",), ("MaxPool", {"kernel_shape": [2]})],
                              ["b", 2, "h"]),
    "volumes": ([("conv", 8, 3, 2, 1), ("Relu",), ("conv", 8, 1, 1, 1)], ["b", 2, "h", "w", 5]),
    "valid": ([("conv", 18, 3, 1, 1), ("MaxPool", {"kernel_shape": [2, 2]}), ("Relu",)], IMAGE),
    "few channels": ([("conv", 3, 3, 1, 1), ("Relu",), ("conv", 1, 5, 2, 1)], IMAGE),
    "many weights": ([("conv", 160, 3, 2, 1), ("Relu",), ("conv", 192, 3, 1, 1)], IMAGE),
}  # fmt: skip


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("target", ["llvm -num_threads=1", f"llvm -num_threads=2 -mcpu={NARROW}"])
def test_any_size(name, bias, target, seeds):
    layers, shape = CASES[name]
    network = Network(layers, shape, bias)
    ranges = {d: D(7, 50) for d in shape if d in ("h", "w")}
    model = whet.compile(network.model, {"b": 2, **ranges}, target, cache=False)
    assert all(str(d).startswith(("(", "h", "w")) or isinstance(d, int)
               for d in model.shapes[network.output])  # fmt: skip
    rng = random.Random(seeds(1)[0])
    ends = [{n: 7 for n in ranges}, {n: 50 for n in ranges}]
    for sizes in [*ends, *({n: rng.randint(7, 50) for n in ranges} for _ in range(12))]:
        network.agrees(model, b=2, **sizes)


@pytest.mark.parametrize(("stride", "low"), [(1, 1), (2, 3)])
def test_batches_and_sizes_of_few_pixels(stride, low, seeds):
    layers = [("conv", 16, 3, 1, 1), ("Relu",), ("conv", 9, 3, stride, 1), ("conv", 8, 1, 1, 1)]
    network = Network(layers, IMAGE)
    ranges = {"b": D(1, 4), "h": D(low, 20), "w": D(low, 20)}
    model = whet.compile(network.model, ranges, "llvm -num_threads=2", cache=False)
    rng = random.Random(seeds(1)[0])
    sizes = (low, low + 1, 7, 20)
    for _ in range(25):
        network.agrees(model, b=rng.randint(1, 4), h=rng.choice(sizes), w=rng.choice(sizes))


def test_float64(seeds):
    network = Network([("conv", 24, 3, 2, 1), ("Relu",)], IMAGE, dtype="float64")
    model = whet.compile(network.model, {"b": 1, "h": D(4, 40), "w": D(4, 40)}, cache=False)
    for h, w in ((4, 40), (13, 5), (39, 40)):
        network.agrees(model, b=1, h=h, w=w)


@pytest.mark.parametrize("steps", [3])
def test_random_chains(seeds, steps):
    """Strides, windows, pools and channels that were drawn, at sizes that were drawn."""
    for seed in seeds(4):
        rng = random.Random(seed)
        layers, channels = [], 3
        for _ in range(steps):
            window, stride = rng.randint(1, 5), rng.choice((1, 1, 2, 3))
            kind = rng.choice(("conv", "conv", "depthwise", "MaxPool", "AveragePool", "Relu"))
            if kind == "conv":
                channels = rng.choice((8, 16, 20, 32, 33))
                layers.append(("conv", channels, window, stride, 1))
            elif kind == "depthwise":
                layers.append(("conv", channels, window, stride, channels))
            elif kind == "Relu":
                layers.append((kind,))
            else:
                size = max(window, 2)
                attrs = {
                    "kernel_shape": [size] * 2,
                    "strides": [stride] * 2,
                    "pads": [size // 2] * 4,
                }
                layers.append((kind, attrs))
        network = Network(layers, IMAGE, rng.random() < 0.5, seed=seed)
        low, high = 12, rng.randint(30, 70)
        ranges = {"h": D(low, high), "w": D(low, high + 5)}
        target = f"llvm -num_threads={rng.choice((1, 2))}"
        model = whet.compile(network.model, {"b": 1, **ranges}, target, cache=False)
        for _ in range(6):
            network.agrees(model, b=1, h=rng.randint(low, high), w=rng.randint(low, high + 5))


SINGLE = {
    "strides": [("conv", 20, 4, 3, 1), ("Relu",), ("conv", 16, 3, 3, 1), ("conv", 12, 3, 2, 1)],
    "depthwise": [("conv", 16, 3, 3, 1), ("conv", 16, 5, 3, 16), ("conv", 16, 3, 2, 16)],
    "averages": [("conv", 16, 3, 3, 1), ("MaxPool", POOL), ("AveragePool", POOL)],
    "squares": [("conv", 32, 3, 3, 1), ("MaxPool", POOL), ("MaxPool", POOL),
                ("conv", 32, 3, 1, 1), ("Relu",), ("conv", 33, 3, 1, 1)],
}  # fmt: skip


@pytest.mark.parametrize("name", SINGLE)
def test_images_of_which_a_single_pixel_is_left(name, seeds):
    network = Network(SINGLE[name], IMAGE, seed=seeds(1)[0])
    ranges = {"b": D(1, 3), "h": D(8, 60), "w": D(8, 70)}
    model = whet.compile(network.model, ranges, "llvm -num_threads=2", cache=False)
    for h in (8, 11, 12, 13, 60):
        for w in (8, 11, 12, 13, 70):
            network.agrees(model, b=1 + (h + w) % 3, h=h, w=w)


def drawn(*shape):
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype("float32") / 5


def of_nodes(nodes, arrays):
    """A ``ModelProto`` of nodes, (operator, inputs, outputs, attributes), from an image x to y."""
    tensor = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node(*n[:3], **(n[3] if len(n) > 3 else {})) for n in nodes],
        "g",
        [tensor("x", TensorProto.FLOAT, IMAGE)],
        [tensor("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(a, n) for n, a in arrays.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)


def test_a_range_that_ends_as_a_single_token_says_where_to_begin():
    nodes = [("Conv", ["x", "w"], ["c"], {"strides": [2, 2], "pads": [1] * 4}),
             ("Reshape", ["c", "to"], ["f"]), ("Transpose", ["f"], ["t"], {"perm": [0, 2, 1]}),
             ("MatMul", ["t", "m"], ["y"])]  # fmt: skip
    arrays = {"w": drawn(8, 3, 3, 3), "to": np.array([0, 8, -1]), "m": drawn(8, 8)}
    ranges = {"b": D(1, 3), "h": D(2, 18, 4), "w": D(2, 18, 4)}
    with pytest.raises(ArgumentError, match=r"begin later: .*'h': whet.dynamic\(6, 18, 4"):
        whet.compile(of_nodes(nodes, arrays), ranges, cache=False)


def test_few_sizes_of_many_symbols():
    """As many sizes as a polynomial has terms fit one: of three symbols, ten."""
    nodes = [("Conv", ["x", "v"], ["c"], {"strides": [2, 2], "pads": [1] * 4}),
             ("Conv", ["c", "w"], ["d"], {"strides": [2, 2], "pads": [1] * 4}),
             ("Transpose", ["d"], ["t"], {"perm": [0, 2, 3, 1]}),
             ("Reshape", ["t", "to"], ["f"]), ("MatMul", ["f", "m"], ["y"])]  # fmt: skip
    arrays = {"v": drawn(8, 3, 3, 3), "w": drawn(8, 8, 3, 3), "to": np.array([-1, 8]),
              "m": drawn(8, 8)}  # fmt: skip
    model, ranges = of_nodes(nodes, arrays), {"b": D(1, 3), "h": D(4, 5), "w": D(4, 6)}
    with pytest.raises(ArgumentError, match="is no polynomial of b, h, w"):
        whet.compile(model, ranges, cache=False)
    compiled = whet.compile(model, ranges | {"h": D(4, 13), "w": D(4, 9)}, cache=False)
    for b, h, w in ((1, 4, 4), (3, 13, 9), (2, 5, 8), (3, 8, 5)):
        x = drawn(b, 3, h, w)
        (wanted,) = ReferenceEvaluator(model).run(None, {"x": x})
        np.testing.assert_allclose(compiled(x), wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("mode", ["linear", "cubic", "nearest"])
@pytest.mark.parametrize("scales", [(0.5, 0.5), (1.5, 0.75), (2.0, 1.0)])
def test_resizing_by_any_factor(mode, scales):
    """And to the size that an image was, which is no whole number of times what it is."""
    nodes = [("Resize", ["x", "", "scales"], ["a"], {"mode": mode}),
             ("MaxPool", ["x"], ["p"], POOL), ("Shape", ["x"], ["s"]),
             ("Resize", ["p", "", "", "s"], ["b"], {"mode": "linear"}),
             ("Add", ["b", "x"], ["c"]), ("Resize", ["c", "", "scales"], ["d"], {"mode": mode}),
             ("Add", ["a", "d"], ["y"])]  # fmt: skip
    model = of_nodes(nodes, {"scales": np.array([1, 1, *scales], "float32")})
    sizes = {"b": 2, "h": D(4, 40), "w": D(5, 33)}
    compiled = whet.compile(model, sizes, "llvm -num_threads=2", cache=False)
    for h, w in ((4, 5), (40, 33), (7, 32), (33, 6)):
        x = drawn(2, 3, h, w)
        (wanted,) = ReferenceEvaluator(model).run(None, {"x": x})
        out = np.full(wanted.shape, np.nan, "float32")
        compiled.run([x], [out])
        np.testing.assert_allclose(out, wanted, rtol=1e-4, atol=1e-5)


BRANCHES = {
    "a shortcut that comes first": (
        [("Conv", ["x", "w"], ["a"], {"strides": [2, 2], "pads": [1] * 4}),
         ("Conv", ["a", "s"], ["k"], {"strides": [2, 2]}),
         ("Conv", ["a", "v"], ["b"], {"strides": [2, 2], "pads": [1] * 4}),
         ("Add", ["k", "b"], ["c"]), ("Relu", ["c"], ["y"])],
        {"w": drawn(8, 3, 3, 3), "v": drawn(12, 8, 3, 3), "s": drawn(12, 8, 1, 1)},
    ),
    "a shortcut that comes last": (
        [("Conv", ["x", "w"], ["a"], {"strides": [2, 2], "pads": [1] * 4}),
         ("Conv", ["a", "v"], ["b"], {"strides": [2, 2], "pads": [1] * 4}),
         ("MaxPool", ["x"], ["p"], {"kernel_shape": [3, 3], "strides": [4, 4], "pads": [1] * 4}),
         ("Conv", ["p", "s"], ["k"]), ("Add", ["b", "k"], ["y"])],
        {"w": drawn(8, 3, 3, 3), "v": drawn(12, 8, 3, 3), "s": drawn(12, 3, 1, 1)},
    ),
    "down, up and beside": (
        [("Conv", ["x", "w"], ["a"], {"pads": [1] * 4}),
         ("Conv", ["a", "v"], ["b"], {"strides": [2, 2], "pads": [1] * 4}),
         ("ConvTranspose", ["b", "u"], ["c"], {"strides": [2, 2]}),
         ("Resize", ["b", "", "scales"], ["d"], {"mode": "linear"}),
         ("Resize", ["b", "", "scales"], ["e"], {"mode": "nearest", "nearest_mode": "floor",
                                                "coordinate_transformation_mode": "asymmetric"}),
         ("Add", ["d", "e"], ["f"]), ("Concat", ["c", "f"], ["y"], {"axis": 1})],
        {"w": drawn(8, 3, 3, 3), "v": drawn(12, 8, 3, 3), "u": drawn(12, 5, 2, 2),
         "scales": np.array([1, 1, 2, 2], "float32")},
    ),
    "a gate": (
        [("Conv", ["x", "w"], ["a"], {"pads": [1] * 4}), ("Sigmoid", ["a"], ["g"]),
         ("Mul", ["a", "g"], ["h"]), ("Add", ["h", "x"], ["y"])],
        {"w": drawn(3, 3, 3, 3)},
    ),
    "spread without strides": (
        [("ConvTranspose", ["x", "u"], ["a"], {"pads": [1] * 4}), ("Relu", ["a"], ["y"])],
        {"u": drawn(3, 7, 3, 3)},
    ),
}  # fmt: skip


@pytest.mark.parametrize("open_sizes", ["hw", "bhw", "h", "bw"])
@pytest.mark.parametrize("name", BRANCHES)
def test_branches(name, open_sizes, seeds):
    """Sizes of branches that meet are known to be equal, however each is computed."""
    model = of_nodes(*BRANCHES[name])
    every = {"b": D(1, 3), "h": D(8, 40), "w": D(9, 33)}
    numbers = {"b": 2, "h": 24, "w": 17}
    sizes = {n: r if n in open_sizes else numbers[n] for n, r in every.items()}
    compiled = whet.compile(model, sizes, "llvm -num_threads=2", cache=False)
    exact, rng = ReferenceEvaluator(model), random.Random(seeds(1)[0])
    for _ in range(5):
        b, h, w = (rng.randint(r.low, r.high) if n in open_sizes else numbers[n]
                   for n, r in every.items())  # fmt: skip
        x = drawn(b, 3, h, w)
        (wanted,) = exact.run(None, {"x": x})
        np.testing.assert_allclose(compiled(x), wanted, rtol=1e-4, atol=2e-5)


def test_packages_hold_sizes_that_strides_divide(tmp_path):
    layers, shape = CASES["strides"]
    network = Network(layers, shape, bias=True)
    ranges = {"b": 1, "h": D(7, 50), "w": D(8, 30)}
    model = whet.compile(network.model, ranges, "llvm -num_threads=1", cache=False)
    assert str(model.shapes[network.output][2]) == "(h + 3) // 4"
    model.export(tmp_path / "net.whet")
    loaded = whet.load(tmp_path / "net.whet")
    x = network.rng.standard_normal((1, 3, 33, 29)).astype("float32")
    assert loaded(x).tobytes() == model(x).tobytes()
    with pytest.raises(ArgumentError, match="h from 7 to 50"):
        loaded(np.zeros((1, 3, 51, 29), "float32"))


def test_on_a_gpu():
    layers, shape = CASES["strides"]
    network = Network(layers, shape)
    ranges = {"b": 1, "h": D(7, 20), "w": D(7, 20)}
    model = whet.compile(
        network.model, ranges, "cuda -arch=sm_80", device="cuda-emulator", cache=False
    )
    x = network.rng.standard_normal((1, 3, 13, 10)).astype("float32")
    (wanted,) = network._exact.run(None, {"x": x.astype("float64")})
    np.testing.assert_allclose(model(x), wanted, rtol=1e-4, atol=1e-5)


def test_what_depends_on_the_image_beyond_strides_is_refused():
    pool = {"kernel_shape": [2, 2], "strides": [3, 3], "ceil_mode": 1}
    network = Network([("conv", 8, 3, 1, 1), ("MaxPool", pool)], IMAGE)
    with pytest.raises(ArgumentError, match=r"MaxPool.*\n.*buckets"):
        whet.compile(network.model, {"b": 1, "h": D(7, 50), "w": 9}, cache=False)


@pytest.mark.parametrize(
    ("sizes", "why"),
    [
        ({"h": D(6, 30), "w": 8}, r"at h=7: .*at h=\d+ there is a model, at h=\d+ there is none"),
        ({"h": D(6, 7), "w": 8}, r"at h=7: .*; at h=6 there is a model"),
        ({"h": D(6, 7), "w": 8}, r"(?s)Add \(y\).*buckets, .*of sizes with one"),
    ],
)
def test_a_model_of_even_sizes_alone(sizes, why):
    """No range begins where it would help: each odd size has no model."""
    nodes = [
        ("MaxPool", ["x"], ["a"], {"kernel_shape": [2, 2], "strides": [2, 2]}),
        ("ConvTranspose", ["a", "u"], ["b"], {"strides": [2, 2]}),
        ("Add", ["x", "b"], ["y"], {}),
    ]
    tensor = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node(*n[:3], **n[3]) for n in nodes],
        "g",
        [tensor("x", TensorProto.FLOAT, ["b", 3, "h", "w"])],
        [tensor("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(drawn(3, 3, 2, 2), "u")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    with pytest.raises(ArgumentError, match=why):
        whet.compile(model, {"b": 1, **sizes}, cache=False)
