"""Open sizes in steps: networks that halve images and put them together again."""

import random
from dataclasses import replace

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import whet
from whet.autotune.models.symbolic_groups import SymbolicGroups
from whet.cli import main
from whet.commands.words import shapes_of
from whet.compiler.errors import ArgumentError
from whet.compiler.graph.symbolic.squares import with_squares

D = whet.dynamic
HALF = {"kernel_shape": [2, 2], "strides": [2, 2]}
TWICE = {"mode": "nearest", "nearest_mode": "floor",
         "coordinate_transformation_mode": "asymmetric"}  # fmt: skip


def weights(*shape):
    drawn = np.random.default_rng(sum(shape)).standard_normal(shape)
    return (drawn / np.sqrt(np.prod(shape[1:]))).astype("float32")


def network(nodes, arrays, shape=("b", 3, "h", "w")):
    """A ``ModelProto`` of nodes, (operator, inputs, outputs, attributes), from x to y."""
    tensor = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node(*n[:3], **(n[3] if len(n) > 3 else {})) for n in nodes],
        "g",
        [tensor("x", TensorProto.FLOAT, shape)],
        [tensor("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.asarray(a), n) for n, a in arrays.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)


def unet(depth=3, channels=4):
    """Images halved ``depth`` times, and as often put together with what they were before."""
    nodes, arrays, kept, x, many = [], {}, [], "x", 3
    for k in range(depth):
        out = channels << k
        arrays[f"d{k}.w"] = weights(out, many, 3, 3)
        nodes += [
            ("Conv", [x, f"d{k}.w"], [f"d{k}"], {"pads": [1] * 4}),
            ("Relu", [f"d{k}"], [f"r{k}"]),
            ("MaxPool", [f"r{k}"], [f"p{k}"], HALF),
        ]
        kept.append((f"r{k}", out))
        x, many = f"p{k}", out
    for k, (other, out) in reversed(list(enumerate(kept))):
        arrays |= {f"u{k}.w": weights(many, out, 2, 2), f"o{k}.w": weights(out, 2 * out, 3, 3)}
        nodes += [("ConvTranspose", [x, f"u{k}.w"], [f"u{k}"], {"strides": [2, 2]}),
                  ("Concat", [other, f"u{k}"], [f"c{k}"], {"axis": 1}),
                  ("Conv", [f"c{k}", f"o{k}.w"], [f"o{k}"], {"pads": [1] * 4})]  # fmt: skip
        x, many = f"o{k}", out
    return network([*nodes, ("Sigmoid", [x], ["y"])], arrays)


def neck():
    """Two scales put together, as detectors have them, and their boxes in one list."""
    return network(
        [("Conv", ["x", "a"], ["b0"], {"pads": [1] * 4, "strides": [2, 2]}),
         ("Sigmoid", ["b0"], ["g"]), ("Mul", ["b0", "g"], ["b"]),
         ("MaxPool", ["b"], ["p"], {"kernel_shape": [5, 5], "pads": [2] * 4}),
         ("Concat", ["b", "p"], ["c"], {"axis": 1}),
         ("Conv", ["c", "d.w"], ["d"], {"strides": [2, 2], "pads": [1] * 4}),
         ("Resize", ["d", "", "twice"], ["u"], TWICE), ("Concat", ["u", "b"], ["e"], {"axis": 1}),
         ("Conv", ["e", "f.w"], ["f"]), ("Conv", ["d", "h.w"], ["h"]),
         ("Reshape", ["f", "flat"], ["fl"]), ("Reshape", ["h", "flat"], ["hl"]),
         ("Concat", ["fl", "hl"], ["y"], {"axis": 2})],
        {"a": weights(8, 3, 3, 3), "d.w": weights(8, 16, 3, 3), "f.w": weights(6, 16, 1, 1),
         "h.w": weights(6, 8, 1, 1), "twice": np.array([1, 1, 2, 2], "float32"),
         "flat": np.array([0, 6, -1])},
    )  # fmt: skip


def focus():
    """Every second pixel in each direction, as channels."""
    cuts = [("Slice", ["x", f"s{k}", "e", "axes", "two"], [f"x{k}"]) for k in range(4)]
    return network(
        [*cuts, ("Concat", [f"x{k}" for k in range(4)], ["c"], {"axis": 1}),
         ("Conv", ["c", "w"], ["y"], {"pads": [1] * 4})],
        {**{f"s{k}": np.array([k >> 1, k & 1]) for k in range(4)}, "e": np.array([1 << 40] * 2),
         "axes": np.array([2, 3]), "two": np.array([2, 2]), "w": weights(8, 12, 3, 3)},
    )  # fmt: skip


NETWORKS = {
    "unet": (unet(), 8),
    "neck": (neck(), 4),
    "focus": (focus(), 2),
    "blocks": (network([("SpaceToDepth", ["x"], ["a"], {"blocksize": 2}),
                        ("Conv", ["a", "w"], ["b"], {"pads": [1] * 4}),
                        ("DepthToSpace", ["b"], ["y"], {"blocksize": 2})],
                       {"w": weights(8, 12, 3, 3)}), 2),
    "same": (network([("Conv", ["x", "w"], ["a"], {"auto_pad": "SAME_UPPER", "strides": [2, 2]}),
                      ("AveragePool", ["a"], ["y"], {**HALF, "auto_pad": "SAME_LOWER"})],
                     {"w": weights(8, 3, 3, 3)}), 4),
}  # fmt: skip


def agrees(model, proto, sizes):
    """Compare a model with the reference at some sizes; its output is poisoned before the run."""
    x = np.random.default_rng(sum(sizes)).standard_normal((sizes[0], 3, *sizes[1:]))
    (wanted,) = ReferenceEvaluator(proto).run(None, {"x": x.astype("float32")})
    out = np.full(wanted.shape, np.nan, "float32")
    model.run([x.astype("float32")], [out])
    np.testing.assert_allclose(out, wanted, rtol=1e-4, atol=1e-5 * np.abs(wanted).max())


@pytest.mark.parametrize("open_sizes", ["hw", "bhw", "w"])
@pytest.mark.parametrize("name", NETWORKS)
def test_sizes_in_steps(name, open_sizes, seeds):
    proto, step = NETWORKS[name]
    rng = random.Random(seeds(1)[0])
    for k in (step, 3 * step):
        every = {"b": D(1, 3), "h": D(2 * k, 9 * k, k), "w": D(3 * k, 11 * k, k)}
        given = {n: r if n in open_sizes else r.low + r.step for n, r in every.items()}
        model = whet.compile(proto, given, f"llvm -num_threads={rng.choice((1, 2))}", cache=False)
        for pick in (min, max, *[rng.choice] * 4):
            own = [range(r.low, r.high + 1, r.step) for r in every.values()]
            agrees(model, proto, [pick(o) if n in open_sizes else given[n]
                                  for n, o in zip(every, own)])  # fmt: skip


def test_odd_sizes_are_a_step_of_two():
    proto = network([("Conv", ["x", "w"], ["y"], {"strides": [2, 2]})], {"w": weights(8, 3, 3, 3)})
    model = whet.compile(proto, {"b": 1, "h": D(3, 41, 2), "w": D(5, 29, 2)}, cache=False)
    for h, w in ((3, 5), (41, 29), (17, 7)):
        agrees(model, proto, (1, h, w))


def padded(mode):
    return network([("Pad", ["x", "p"], ["a"], {"mode": mode}), ("Conv", ["a", "w"], ["y"])],
                   {"w": weights(8, 3, 3, 3), "p": np.array([0, 0, 2, 1, 0, 0, 1, 2])})  # fmt: skip


def pooled(kind, **attrs):
    return network([(kind, ["x"], ["y"], {"strides": [2, 2], **attrs})], {})


ANY_SIZE = {
    **{mode: padded(mode) for mode in ("reflect", "edge", "wrap")},
    "largest, last windows": pooled("MaxPool", kernel_shape=[3, 3], ceil_mode=1),
    "average, last windows": pooled("AveragePool", kernel_shape=[3, 3], ceil_mode=1, pads=[1] * 4),
    "largest, apart": pooled("MaxPool", kernel_shape=[3, 2], dilations=[2, 3], pads=[1] * 4),
    "an image": network([("Conv", ["x", "w"], ["a"], {"pads": [1] * 4}),
                         ("InstanceNormalization", ["a", "s", "t"], ["b"]), ("Relu", ["b"], ["y"])],
                        {"w": weights(8, 3, 3, 3), "s": weights(8, 1)[:, 0], "t": weights(8)}),
    "groups": network([("Conv", ["x", "w"], ["a"], {"pads": [1] * 4}), ("Shape", ["a"], ["all"]),
                       ("Reshape", ["a", "two"], ["b"]),
                       ("InstanceNormalization", ["b", "s", "t"], ["c"]),
                       ("Reshape", ["c", "all"], ["y"])],
                      {"w": weights(8, 3, 3, 3), "s": weights(2), "t": weights(2),
                       "two": np.array([0, 2, -1])}),
    "blocks": network([("Conv", ["x", "w"], ["a"], {"pads": [1] * 4}),
                       ("DepthToSpace", ["a"], ["y"], {"blocksize": 2, "mode": "CRD"})],
                      {"w": weights(8, 3, 3, 3)}),
    **{f"from {begin} by {by}": network(
        [("Slice", ["x", "begin", "end", "axes", "steps"], ["a"]), ("Relu", ["a"], ["y"])],
        {"begin": np.array([begin, begin]), "end": np.array([end, 1 << 40 if by > 0 else end]),
         "axes": np.array([3, 2]), "steps": np.array([by, by])})
       for begin, end, by in ((0, 1 << 40, 2), (1, -1, 3), (-1, -(1 << 40), -1), (-2, 1, -2))},
    **{f"sums along {axis}, {dict(attrs)}": network(
        [("Mul", ["x", "x"], ["a"]), ("CumSum", ["a", "axis"], ["b"], attrs),
         ("Relu", ["b"], ["y"])],
        {"axis": np.array(axis)})
       for axis, attrs in ((1, {}), (2, {"exclusive": 1}), (3, {}), (3, {"reverse": 1}))},
    "the largest": network([("Conv", ["x", "w"], ["a"]),
                            ("TopK", ["a", "k"], ["b", "i"], {"axis": 1}),
                            ("Cast", ["i"], ["j"], {"to": TensorProto.FLOAT}),
                            ("Concat", ["b", "j"], ["y"], {"axis": 1})],
                           {"w": weights(8, 3, 3, 3), "k": np.array([3])}),
    "a shortcut": network([("Conv", ["x", "w"], ["a"], {"pads": [1] * 4, "strides": [2, 2]}),
                             ("Relu", ["a"], ["b"]),
                             ("Conv", ["b", "v"], ["c"], {"pads": [1] * 4, "strides": [2, 2]}),
                             ("Conv", ["b", "s"], ["d"], {"strides": [2, 2]}),
                             ("Add", ["c", "d"], ["y"])],
                            {"w": weights(8, 3, 3, 3), "v": weights(9, 8, 3, 3),
                             "s": weights(9, 8, 1, 1)}),
}  # fmt: skip


@pytest.mark.parametrize("name", ANY_SIZE)
def test_any_size(name, seeds):
    """Operators of open images, odd ones included."""
    proto, rng = ANY_SIZE[name], random.Random(seeds(1)[0])
    low, ranges = 5, {"b": 2, "h": D(5, 40), "w": D(5, 31)}
    model = whet.compile(proto, ranges, "llvm -num_threads=1", cache=False)
    for h, w in ((low, low), (40, 31), *((rng.randint(low, 40), rng.randint(low, 31))
                                         for _ in range(6))):  # fmt: skip
        agrees(model, proto, (2, h, w))


def test_a_pad_that_the_least_size_does_not_have_is_refused():
    with pytest.raises(ArgumentError, match="reflect"):
        whet.compile(padded("reflect"), {"b": 1, "h": D(2, 9), "w": D(3, 9)}, cache=False)


def test_calls_and_words():
    model = whet.compile(unet(1), {"b": 1, "h": D(4, 20, 2), "w": D(8, 24, 4)}, cache=False)
    assert "h from 4 to 20 in steps of 2, w from 8 to 24 in steps of 4" in repr(model)
    x = np.zeros((1, 3, 18, 12), "float32")
    assert model.sizes(x) == {"h": 18, "w": 12}
    assert model(x).shape == (1, 4, 18, 12)
    with pytest.raises(ArgumentError, match=r"(?s)h=5.*h=4, cut, or of h=6, padded"):
        model(np.zeros((1, 3, 5, 8), "float32"))
    with pytest.raises(ArgumentError, match=r"(?s)w=28.*whet.dynamic\(8, 28, 4\)"):
        model(np.zeros((1, 3, 6, 28), "float32"))
    with pytest.raises(ArgumentError, match="in steps of 4"):
        model.calls_at(h=6, w=10)


def test_packages_hold_steps(tmp_path):
    model = whet.compile(unet(2), {"b": 1, "h": D(8, 32, 4), "w": D(8, 24, 4)}, cache=False)
    model.export(tmp_path / "net.whet")
    loaded = whet.load(tmp_path / "net.whet")
    assert {n: (r.low, r.high, r.step) for n, r in loaded.ranges.items()} == {
        "h": (8, 32, 4), "w": (8, 24, 4)
    }  # fmt: skip
    x = np.random.default_rng(0).standard_normal((1, 3, 12, 20)).astype("float32")
    assert loaded(x).tobytes() == model(x).tobytes()
    with pytest.raises(ArgumentError, match="h from 8 to 32 in steps of 4"):
        loaded(x[:, :, :10])


def test_on_a_gpu():
    proto, _ = NETWORKS["unet"]
    ranges = {"b": 1, "h": D(16, 32, 8), "w": D(16, 32, 8)}
    model = whet.compile(proto, ranges, "cuda -arch=sm_80", device="cuda-emulator", cache=False)
    x = np.random.default_rng(0).standard_normal((1, 3, 16, 24)).astype("float32")
    (wanted,) = ReferenceEvaluator(proto).run(None, {"x": x})
    np.testing.assert_allclose(model(x), wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("low", "step"), [(16, 1), (15, 1), (13, 1), (10, 2), (12, 4)])
def test_a_model_of_even_sizes_alone_says_which_steps(low, step):
    wanted = r"(?s)sizes in steps: shapes=\{'h': whet.dynamic\(16, 128, 8\)"
    ranges = {"b": 1, "h": D(low, 128 + (low == 13), step), "w": 32}
    with pytest.raises(ArgumentError, match=wanted):
        whet.compile(unet(), ranges, cache=False)


@pytest.mark.parametrize(
    ("given", "why"),
    [((64, 512, 0), "a step is at least 1"), ((64, 500, 32), r"dynamic\(64, 480, 32\)"),
     ((64, 80, 32), "a smaller step"), ((64, 512, 1.5), "1.5 is no integer")],
)  # fmt: skip
def test_steps_that_are_none(given, why):
    with pytest.raises(ArgumentError, match=why):
        D(*given)


def test_one_step_or_none():
    assert D(64, 64, 32) == 64
    r = D(64, 96, 32)
    assert repr(r) == "whet.dynamic(64, 96, 32)"
    assert [n for n in range(200) if n in r] == [64, 96]


def test_programs_bring_their_steps():
    torch = pytest.importorskip("torch")
    dim = torch.export.Dim

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.down, self.up = (
                torch.nn.Conv2d(3, 8, 3, 2, 1),
                torch.nn.ConvTranspose2d(8, 3, 2, 2),
            )

        def forward(self, x):
            return torch.cat([x, self.up(torch.relu(self.down(x)))], 1)

    net = Net().eval()
    sizes = {
        0: dim("n", min=1, max=4),
        2: 2 * dim("h", min=4, max=16),
        3: 2 * dim("w", min=3, max=9),
    }
    program = torch.export.export(net, (torch.randn(2, 3, 12, 10),), dynamic_shapes={"x": sizes})
    model = whet.compile(program, cache=False)
    assert {n: str(r) for n, r in model.ranges.items()} == {
        "n": "1 to 4", "x[2]": "8 to 32 in steps of 2", "x[3]": "6 to 18 in steps of 2",
    }  # fmt: skip
    for shape in ((1, 3, 8, 18), (4, 3, 32, 6), (3, 3, 22, 12)):
        x = torch.randn(shape)
        np.testing.assert_allclose(model(x.numpy()), net(x).detach(), rtol=1e-4, atol=1e-5)


def test_dynamo_finds_steps():
    torch = pytest.importorskip("torch")
    from whet.frontends.dynamo.report import report

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.down, self.up = (
                torch.nn.Conv2d(3, 8, 3, 1, 1),
                torch.nn.ConvTranspose2d(8, 8, 2, 2),
            )

        def forward(self, x):
            kept = torch.relu(self.down(x))
            return torch.cat([kept, self.up(torch.nn.functional.max_pool2d(kept, 2))], 1)

    torch._dynamo.reset()
    net = Net().eval()
    compiled = torch.compile(net, backend="whet", dynamic=True)
    with torch.no_grad():
        for h, w in ((12, 20), (8, 24), (30, 6)):
            x = torch.randn(1, 3, h, w)
            np.testing.assert_allclose(compiled(x), net(x), rtol=1e-4, atol=1e-5)
    assert "each size by itself" not in str(report()), report()


def test_command_lines(tmp_path, capsys):
    whole = shapes_of(["h=64..512..32", "x=1,3,8..32,40"])
    assert [r.dots for r in (whole["h"], whole["x"][2])] == ["64..512..32", "8..32"]
    file = tmp_path / "net.onnx"
    file.write_bytes(unet(2).SerializeToString())

    def said(*words):
        code = main(words)
        return code, capsys.readouterr().err

    for shape, why in (
        ("h=64..500..32", "steps of 32 from 64 on pass 500"),
        ("h=128..16", "the least first"),
        ("h=1..2..3..4", "in steps of 32"),
    ):
        code, text = said("show", str(file), "--shape", shape)
        assert code == 2 and why in text and "dynamic(" not in text, text
    code, text = said("show", str(file), "--shape", "h=8", "--shape", "h=9")
    assert code == 2 and "'h' has sizes already" in text
    sizes = ["--shape", "b=1", "--shape", "h=8..32", "--shape", "w=8"]
    code, text = said("show", str(file), *sizes)
    assert code == 1 and "--shape h=8..32..4" in text, text
    out = tmp_path / "net.whet"
    words = ["--shape", "b=1", "--shape", "h=8..32..4", "--shape", "w=8", "-o", str(out)]
    assert said("package", str(file), *words)[0] == 0
    assert str(whet.load(out).ranges["h"]) == "8 to 32 in steps of 4"
    code, text = said("bench", str(file), *words[:-2], "--at", "h=10")
    assert code == 2 and "it is between the sizes of --shape h=8..32..4" in text


def halved(times, channels=16):
    """Images halved so often, with 3x3 convolutions of 16 channels between."""
    nodes, arrays, x, many = [], {}, "x", 3
    for k in range(times):
        arrays[f"w{k}"] = weights(channels, many, 3, 3)
        nodes += [
            ("Conv", [x, f"w{k}"], [f"c{k}"], {"pads": [1] * 4}),
            ("Relu", [f"c{k}"], [f"r{k}"]),
            ("MaxPool", [f"r{k}"], [f"p{k}"], HALF),
        ]
        x, many = f"p{k}", channels
    arrays["w"] = weights(channels, many, 3, 3)
    return network([*nodes, ("Conv", [x, "w"], ["y"], {"pads": [1] * 4})], arrays)


@pytest.mark.parametrize(
    ("times", "ranges"),
    [
        (3, {"b": D(1, 8), "h": D(8, 64, 8), "w": 32}),
        (2, {"b": D(2, 5), "h": D(4, 24, 4), "w": 12}),
        (2, {"b": D(2, 5), "h": D(4, 16, 12), "w": 12}),  # as many channels as rows
        (4, {"b": D(1, 2), "h": D(16, 96, 16), "w": 64}),
    ],
)
def test_squares_are_counted_at_every_size(times, ranges):
    """Few sizes fit many forms: rows, columns and images are looked at apart."""
    proto = halved(times)
    model = whet.compile(proto, ranges, "llvm -num_threads=1", cache=False)
    sizes = [[r] if isinstance(r, int) else range(r.low, r.high + 1, r.step)
             for r in ranges.values()]  # fmt: skip
    for h in sizes[1]:
        for b in (sizes[0][0], sizes[0][-1]):
            agrees(model, proto, (b, h, sizes[2][0]))


def test_squares_follow_from_their_rows_and_columns():
    proto, target = halved(1), whet.Target("llvm").canonical()
    ranges = {n: D(8, 40) for n in "hw"}
    sizes = SymbolicGroups(lambda at: whet.from_onnx(proto, {"b": 2, **at}), ranges, target).sizes
    (flat,) = (n for n in sizes.graph.nodes if n.operator == "reshape" and len(n.output.shape) == 4)
    wrong = replace(sizes, shapes={**sizes.shapes, flat.output: (7, 6, 6, 16)})
    assert with_squares(wrong).shapes == sizes.shapes != wrong.shapes
