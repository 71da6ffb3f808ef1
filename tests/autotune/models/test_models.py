"""Compiled models beside numpy in float64."""

import gc
import threading

import numpy as np
import pytest

import whet
from whet.autotune.models.compiled import compiled
from whet.compiler.errors import ArgumentError
from whet.compiler.graph import GraphBuilder
from whet.compiler.graph.passes import optimized

TARGET = "llvm -num_threads=2"
WINDOW = {"strides": [1, 1], "padding": [1] * 4, "dilation": [1, 1]}


def built(graph, target=TARGET):
    return compiled(optimized(graph), whet.Target(target).canonical())


def drawn(seed):
    rng = np.random.default_rng(seed)
    return lambda *shape: rng.standard_normal(shape).astype("float32")


def convolved(x, w):
    """Of 3x3 windows with zeros around, in float64."""
    n, _, h, wide = x.shape
    padded = np.pad(x.astype("float64"), ((0, 0), (0, 0), (1, 1), (1, 1)))
    out = np.zeros((n, w.shape[0], h, wide))
    for i in range(3):
        for j in range(3):
            part = padded[:, :, i : i + h, j : j + wide]
            out += np.einsum("nchw,oc->nohw", part, w[:, :, i, j].astype("float64"))
    return out


def network(of, channels=5):
    """Two convolutions with a batch norm and a residual, a pool, a product, a softmax."""
    g = GraphBuilder()
    x = g.input("x", (2, channels, 7, 9), "float32")
    w1, w2, w3 = of(channels, channels, 3, 3), of(channels, channels, 3, 3), of(11, channels)
    stats = [np.abs(of(channels)) + 0.5 for _ in range(4)]
    y = g.add("conv", [x, g.constant(w1)], **WINDOW)
    y = g.add("batch_norm", [y, *map(g.constant, stats)], epsilon=1e-5)
    y = g.add("relu", [y])
    z = g.add("conv", [y, g.constant(w2)], **WINDOW)
    y = g.add("relu", [g.add("add", [z, x])])
    y = g.add("reshape", [g.add("global_pool", [y], kind="avg")], shape=(2, channels))
    y = g.add("gemm", [y, g.constant(w3)], transpose_b=True)
    graph = g.graph([g.add("softmax", [y], axis=1)])

    def reference(a):
        scale, bias, mean, variance = (s.astype("float64").reshape(-1, 1, 1) for s in stats)
        b = (convolved(a, w1) - mean) / np.sqrt(variance + 1e-5) * scale + bias
        b = np.maximum(convolved(np.maximum(b, 0), w2) + a, 0).mean((2, 3)) @ w3.T
        e = np.exp(b - b.max(1, keepdims=True))
        return e / e.sum(1, keepdims=True)

    return graph, reference


def test_a_network(seeds):
    for seed in seeds(4):
        of = drawn(seed)
        graph, reference = network(of, channels=1 + seed % 7)
        model = built(graph)
        for _ in range(2):  # what lies in the arena from before does not matter
            x = of(*graph.inputs[0].shape)
            model._memory[:] = 0xFF
            np.testing.assert_allclose(model(x), reference(x), rtol=2e-4, atol=1e-6)


def test_calls_say_what_they_are():
    model = built(network(drawn(0))[0])
    assert [c.name for c in model.calls] == [
        "conv_relu", "conv_add_relu", "global_pool", "gemm", "softmax",
    ]  # fmt: skip
    assert model.arena.least <= model.arena.size <= 1.15 * model.arena.least
    assert all(c.flop > 0 and c.moved > 0 and c.tuned_by is None for c in model.calls)


def test_values_between_kernels_are_seen():
    graph, reference = network(drawn(2))
    model = built(graph)
    x = drawn(3)(*graph.inputs[0].shape)
    values = model.dump(x)
    assert [c.outputs for c in model.calls] == [(name,) for name in values]
    np.testing.assert_array_equal(values[graph.outputs[0].name], model(x))
    np.testing.assert_allclose(values["softmax"], reference(x), rtol=2e-4, atol=1e-6)
    pooled = values["global_pool"]
    assert pooled.shape == (2, 5, 1, 1)
    before = values[model.calls[1].outputs[0]]
    np.testing.assert_allclose(before.mean((2, 3)), pooled[..., 0, 0], rtol=1e-4)


def test_a_profile_has_every_call():
    graph, _ = network(drawn(2))
    model = built(graph)
    found = model.profile(drawn(3)(*graph.inputs[0].shape), rounds=3)
    assert [call for call, _ in found] == list(model.calls)
    assert all(0 < seconds < 10 for _, seconds in found)


def test_equal_groups_share_a_kernel():
    g = GraphBuilder()
    x = g.input("x", (6, 16), "float32")
    of = drawn(1)
    weights = [of(16, 16) for _ in range(4)]
    y = x
    for w in weights:
        y = g.add("relu", [g.add("matmul", [y, g.constant(w)])])
    model = built(g.graph([y]))
    assert len(model.calls) == 4 and len(model._kernels) == 1
    a = of(6, 16)
    wanted = a.astype("float64")
    for w in weights:
        wanted = np.maximum(wanted @ w, 0)
    np.testing.assert_allclose(model(a), wanted, rtol=1e-4, atol=1e-4)


def test_several_inputs_and_outputs_by_name():
    g = GraphBuilder()
    a, b = g.input("a", (3, 1), "float64"), g.input("b", (4,), "int32")
    total = g.add("add", [a, g.add("cast", [b], dtype="float64")], "total")
    model = built(g.graph([total, g.add("identity", [a])]))
    x, y = np.arange(3.0).reshape(3, 1), np.arange(4, dtype="int32")
    for made in (model(x, y), model(b=y, a=x), model(x, b=y)):
        np.testing.assert_array_equal(made[0], x + y)
        np.testing.assert_array_equal(made[1], x)


def test_values_may_have_any_name():
    g = GraphBuilder()
    names = ("arena", "constants", "gpu_0/data:0", "class", "")
    values = [g.input(name, (2,), "float32") for name in names]
    model = built(g.graph([g.add("sum_of", [*values, g.constant(np.float32([1, 2]))], "model")]))
    given = [np.float32([k, 10 * k]) for k in range(len(names))]
    np.testing.assert_array_equal(model(*given), [11, 102])


def test_run_fills_arrays_that_are_there():
    graph, reference = network(drawn(3))
    model = built(graph)
    x, out = drawn(4)(*graph.inputs[0].shape), np.full(graph.outputs[0].shape, np.nan, "float32")
    model.run([x], [out])
    np.testing.assert_allclose(out, reference(x), rtol=2e-4, atol=1e-6)


def test_arrays_that_are_not_compact():
    graph, reference = network(drawn(5))
    model = built(graph)
    wide = drawn(6)(*graph.inputs[0].shape[:3], 18)
    np.testing.assert_allclose(
        model(wide[..., ::2]), reference(wide[..., ::2]), rtol=2e-4, atol=1e-6
    )


@pytest.mark.parametrize(
    ("args", "named", "why"),
    [
        ((), {}, "it takes 1: x"),
        ((np.zeros((2, 5, 7, 9), "float32"),) * 2, {}, "it takes 1: x"),
        ((np.zeros((2, 5, 7, 8), "float32"),), {}, r"float32\[2, 5, 7, 8\], the input %x"),
        ((np.zeros((2, 5, 7, 9)),), {}, "the array is float64"),
        ((), {"y": np.zeros(1)}, "it has no such input"),
    ],
)
def test_what_does_not_fit_is_refused(args, named, why):
    model = built(network(drawn(0))[0])
    with pytest.raises(ArgumentError, match=why):
        model(*args, **named)


def test_models_of_equal_kernels_live_apart():
    """The first model's code goes; the second one's, of the same names, stays."""
    graph, reference = network(drawn(7))
    first, second = built(graph), built(graph)
    x = drawn(8)(*graph.inputs[0].shape)
    wanted = first(x)
    del first
    gc.collect()
    np.testing.assert_array_equal(second(x), wanted)
    np.testing.assert_allclose(wanted, reference(x), rtol=2e-4, atol=1e-6)


def test_two_models_in_two_threads():
    graph, reference = network(drawn(9))
    models = [built(graph) for _ in range(2)]
    arrays = [drawn(k)(*graph.inputs[0].shape) for k in range(2)]
    wrong = []

    def work(k):
        for _ in range(50):
            if not np.allclose(models[k](arrays[k]), wanted[k], rtol=2e-4, atol=1e-6):
                wrong.append(k)

    wanted = [reference(a) for a in arrays]
    threads = [threading.Thread(target=work, args=(k,)) for k in range(2)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_one_model_in_several_threads():
    """Each call has an arena of its own: one that all shared would be wrong at once."""
    graph, reference = network(drawn(11))
    model = built(graph)
    arrays = [drawn(k)(*graph.inputs[0].shape) for k in range(3)]
    wanted = [model(a).tobytes() for a in arrays]
    np.testing.assert_allclose(model(arrays[0]), reference(arrays[0]), rtol=2e-4, atol=1e-6)
    inside, all_inside = [], threading.Barrier(3)
    function = model._function

    def meeting(*args):
        all_inside.wait(60)  # all three have taken their arenas
        inside.append(args[-1].ctypes.data)
        args[-1][:] = 0xFF
        all_inside.wait(60)
        function(*args)

    found = {}
    model._function = meeting
    threads = [
        threading.Thread(target=lambda k=k: found.update({k: model(arrays[k]).tobytes()}))
        for k in range(3)
    ]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert [found[k] for k in range(3)] == wanted
    assert len(set(inside)) == 3 and len(model._free) == 3
    model._function = function
    assert model(arrays[1]).tobytes() == wanted[1] and len(model._free) == 3


def test_a_call_that_fails_gives_its_arena_back():
    graph, _ = network(drawn(12))
    model = built(graph)
    out = np.empty(graph.outputs[0].shape, "float32")
    for _ in range(3):
        with pytest.raises(ArgumentError):
            model.run([np.empty(3, "float32")], [out])
    assert len(model._free) == 1


def test_a_model_without_kernels():
    g = GraphBuilder()
    x = g.input("x", (2, 3), "float32")
    made = built(g.graph([g.add("reshape", [x], shape=(6,))]))
    a = drawn(0)(2, 3)
    np.testing.assert_array_equal(made(a), a.reshape(6))


def test_empty_and_single_elements():
    g = GraphBuilder()
    x, y = g.input("x", (0, 3), "float32"), g.input("y", (), "float32")
    model = built(g.graph([g.add("exp", [x]), g.add("add", [y, y])]))
    empty, twice = model(np.zeros((0, 3), "float32"), np.float32(1.5))
    assert empty.shape == (0, 3) and twice == 3


def test_a_log_gives_the_configs(tmp_path):
    """Kernels of a model take what a search has found for their groups."""
    from whet.autotune.models.kernels import group_tasks

    graph = optimized(network(drawn(0))[0])
    target = whet.Target(TARGET).canonical()
    tasks = [g.task for g in group_tasks(graph, target) if g.group.name == "conv_relu"]
    log = tmp_path / "whet.db"
    found = whet.tune(tasks[0], trials=3, log=str(log), progress=False)
    assert found.best is not None
    with pytest.warns(UserWarning, match="have no record that applies"), whet.apply_best(str(log)):
        model = compiled(graph, target)
    said = {c.name: c.tuned_by.how for c in model.calls}
    assert said.pop("conv_relu") == "exact" and set(said.values()) == {"default"}


def test_inputs_are_only_read():
    graph, reference = network(drawn(4))
    model = built(graph)
    x = drawn(5)(*graph.inputs[0].shape)
    x.flags.writeable = False
    np.testing.assert_allclose(model(x), reference(x), rtol=2e-4, atol=1e-6)


def test_models_are_compiled_in_several_threads():
    made = {}

    def work(k):
        graph, reference = network(drawn(k), channels=2 + k)
        x = drawn(10 + k)(*graph.inputs[0].shape)
        made[k] = np.abs(built(graph)(x) - reference(x)).max()

    threads = [threading.Thread(target=work, args=(k,)) for k in range(3)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(made) == 3 and max(made.values()) < 1e-4


@pytest.mark.parametrize("read", [(0,), (1,), (0, 1)])
def test_outputs_that_nobody_reads(read):
    """One operation sorts: it stores values and places, whoever reads them."""
    g = GraphBuilder()
    x = g.input("x", (5, 9), "float32")
    both = g.add_all("top_k", [x], k=3, axis=1, largest=True)
    model = built(g.graph([both[k] for k in read]))
    a = drawn(len(read))(5, 9)
    places = np.argsort(-a, 1, kind="stable")[:, :3]
    right = [np.take_along_axis(a, places, 1), places]
    found = model(a)
    found = [found] if isinstance(found, np.ndarray) else found
    for one, k in zip(found, read, strict=True):
        np.testing.assert_array_equal(one, right[k])


def test_weights_of_transposed_convolutions_are_packed_when_they_are_built(seeds):
    """In the order in which they are multiplied, phase by phase."""
    for seed in seeds(1):
        of = drawn(seed)
        g = GraphBuilder()
        channels = 33 + seed % 5
        x, w = g.input("x", (1, 8, 48, 48), "float32"), of(8, channels, 4, 4)
        window = {"strides": [2, 2], "padding": [1, 1], "output_padding": [0, 0]}
        model = built(g.graph([g.add("conv_transpose", [x, g.constant(w)], **window)]))
        (kernel,) = model._kernels.values()
        taken = kernel.artifact.signatures[0].params[1]
        assert tuple(int(str(n)) for n in taken.shape) != w.shape
        array, full = of(1, 8, 48, 48), np.zeros((1, channels, 98, 98))
        for i in range(4):
            for j in range(4):
                part = np.einsum("ncyx,co->noyx", array.astype("float64"), w[:, :, i, j])
                full[:, :, i : i + 96 : 2, j : j + 96 : 2] += part
        np.testing.assert_allclose(model(array), full[:, :, 1:-1, 1:-1], rtol=1e-4, atol=1e-4)
