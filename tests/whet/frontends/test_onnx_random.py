"""Random graphs of random operators, beside onnx's reference implementation."""

import random

import numpy as np
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from whet.compiler.graph.passes import optimized
from whet.compiler.graph.passes.channels_last import images_of, with_channels_last
from whet.frontends.compile import compile
from whet.frontends.onnx import from_onnx

UNARY = (
    "Abs", "Neg", "Relu", "Sigmoid", "Tanh", "Softplus", "Erf", "Floor", "Sin", "HardSwish", "Gelu",
)  # fmt: skip
BINARY = ("Add", "Sub", "Mul", "Max", "Min")
REDUCE = ("ReduceMean", "ReduceMax", "ReduceSum", "ReduceL1")


class Drawn:
    """A random model: values are float32 arrays of small sizes, below 4 in absolute value.

    Attributes:
        model: the model.
        inputs: name -> array.
    """

    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.numbers = np.random.default_rng(seed)
        self.nodes, self.constants, self.inputs = [], {}, {}
        self.shapes = {}
        for k in range(self.rng.randrange(1, 3)):
            shape = tuple(self.rng.randrange(1, 6) for _ in range(self.rng.choice((2, 3, 4, 4))))
            self.inputs[f"x{k}"] = self.array(*shape)
            self.shapes[f"x{k}"] = shape
        for _ in range(self.rng.randrange(2, 14)):
            self.draw()
        made = [v for n in self.nodes for v in n.output]
        outputs = {made[-1], *self.rng.sample(made, min(len(made), self.rng.randrange(1, 3)))}
        info = helper.make_tensor_value_info
        graph = helper.make_graph(
            self.nodes,
            "random",
            [info(n, TensorProto.FLOAT, a.shape) for n, a in self.inputs.items()],
            [info(n, TensorProto.FLOAT, self.shapes[n]) for n in sorted(outputs)],
            [numpy_helper.from_array(a, n) for n, a in self.constants.items()],
        )
        self.model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)])

    def array(self, *shape):
        return self.numbers.uniform(-1, 1, shape).astype("float32")

    def constant(self, array):
        name = f"c{len(self.constants)}"
        self.constants[name] = array
        return name

    def ints(self, *values):
        return self.constant(np.asarray(values, "int64"))

    def add(self, operator, inputs, shape, **attrs):
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, inputs, [name], **attrs))
        self.shapes[name] = tuple(map(int, shape))
        return name

    def value(self):
        """A value, later ones likelier."""
        names = list(self.shapes)
        return names[-1] if self.rng.random() < 0.5 else self.rng.choice(names)

    def bounded(self, name):
        """A value whose elements stay small, so that no error grows."""
        return self.add("Clip", [name, self.constant(np.float32(-4)), self.constant(np.float32(4))],
                        self.shapes[name])  # fmt: skip

    def draw(self):
        x = self.value()
        ways = [self.unary, self.binary, self.reduce, self.moved, self.joined]
        if len(self.shapes[x]) > 1:
            ways.append(self.product)
        if len(self.shapes[x]) == 4:
            ways += [self.convolution] * 3 + [self.pool, self.norm]
        self.rng.choice(ways)(x, self.shapes[x])

    def unary(self, x, shape):
        way = self.rng.choice((*UNARY, "Softmax", "LogSoftmax", "Identity"))
        attrs = {"axis": self.rng.randrange(len(shape))} if "Softmax" in way else {}
        self.add(way, [x], shape, **attrs)

    def binary(self, x, shape):
        alike = [n for n, s in self.shapes.items() if s == shape]
        other = self.rng.choice(alike)
        if self.rng.random() < 0.5:  # broadcast
            own = [d if self.rng.random() < 0.5 else 1 for d in shape][self.rng.randrange(3) :]
            other = self.constant(self.array(*own))
        pair = [x, other] if self.rng.random() < 0.5 else [other, x]
        self.bounded(self.add(self.rng.choice(BINARY), pair, shape))

    def reduce(self, x, shape):
        axes = sorted(self.rng.sample(range(len(shape)), self.rng.randrange(1, max(len(shape), 2))))
        keep = self.rng.random() < 0.5 or len(shape) < 3
        left = [1 if k in axes else d for k, d in enumerate(shape) if keep or k not in axes]
        made = self.add(self.rng.choice(REDUCE), [x, self.ints(*axes)], left, keepdims=int(keep))
        self.bounded(made)

    def moved(self, x, shape):
        way = self.rng.choice(("Transpose", "Reshape", "Slice", "Pad", "Expand", "Tile", "Gather"))
        axis = self.rng.randrange(len(shape))
        if way == "Transpose":
            axes = self.rng.sample(range(len(shape)), len(shape))
            self.add(way, [x], [shape[a] for a in axes], perm=axes)
        elif way == "Reshape":
            k = self.rng.randrange(len(shape))
            wanted = [*shape[:k], int(np.prod(shape[k:]))]
            self.add(way, [x, self.ints(*wanted)], wanted)
        elif way == "Slice":
            step = self.rng.choice((1, 2, -1))
            begin, end = (0, 100) if step > 0 else (-1, -100)
            begin = self.rng.randrange(shape[axis]) if step > 0 else begin
            count = len(range(shape[axis])[slice(begin, None if step < 0 else end, step)])
            given = [self.ints(v) for v in (begin, end, axis, step)]
            self.add(way, [x, *given], (*shape[:axis], count, *shape[axis + 1 :]))
        elif way == "Pad":
            before, after = ([self.rng.randrange(3) for _ in shape] for _ in range(2))
            wanted = [a + d + b for a, d, b in zip(before, shape, after)]
            self.add(way, [x, self.ints(*before, *after)], wanted)
        elif way == "Gather":
            index = np.asarray([self.rng.randrange(-shape[axis], shape[axis]) for _ in range(3)])
            self.add(
                way, [x, self.constant(index)], (*shape[:axis], 3, *shape[axis + 1 :]), axis=axis
            )
        elif len(shape) < 4 and way == "Expand":
            self.add(way, [x, self.ints(2, *[1] * len(shape))], (2, *shape))
        else:
            times = [self.rng.randrange(1, 3) for _ in shape]
            self.add("Tile", [x, self.ints(*times)], [d * t for d, t in zip(shape, times)])

    def joined(self, x, shape):
        axis = self.rng.randrange(len(shape))
        fits = [
            n
            for n, s in self.shapes.items()
            if len(s) == len(shape)
            and all(a == b for k, (a, b) in enumerate(zip(s, shape)) if k != axis)
        ]
        parts = [x, self.rng.choice(fits)]
        size = sum(self.shapes[p][axis] for p in parts)
        self.add("Concat", parts, (*shape[:axis], size, *shape[axis + 1 :]), axis=axis)

    def product(self, x, shape):
        n = self.rng.randrange(1, 7)
        w = self.constant(self.array(shape[-1], n) / np.float32(shape[-1]))
        made = self.add("MatMul", [x, w], (*shape[:-1], n))
        if self.rng.random() < 0.6:
            made = self.add("Add", [made, self.constant(self.array(n))], self.shapes[made])
        if self.rng.random() < 0.3 and len(shape) > 1:  # with another value
            turned = self.add(
                "Transpose", [made], (*shape[:-2], n, shape[-2]),
                perm=[*range(len(shape) - 2), len(shape) - 1, len(shape) - 2],
            )  # fmt: skip
            self.bounded(self.add("MatMul", [made, turned], (*shape[:-1], shape[-2])))

    def convolution(self, x, shape):
        n, ci, h, wide = shape
        k, stride = self.rng.choice(((1, 1), (3, 1), (3, 2), (2, 2)))
        groups = self.rng.choice((1, ci)) if ci > 1 else 1
        co = groups * self.rng.randrange(1, 4)
        pad = k // 2 if k % 2 else 1
        out = [(d + 2 * pad - k) // stride + 1 for d in (h, wide)]
        if min(out) < 1:
            return
        scale = np.float32(k * k * ci // groups)
        w = self.constant(self.array(co, ci // groups, k, k) / scale)
        bias = [self.constant(self.array(co))] * self.rng.randrange(2)
        made = self.add(
            "Conv", [x, w, *bias], (n, co, *out), group=groups, strides=[stride] * 2, pads=[pad] * 4
        )
        if self.rng.random() < 0.5:
            own = [self.constant(np.abs(self.array(co)) + np.float32(0.5)) for _ in range(4)]
            made = self.add("BatchNormalization", [made, *own], self.shapes[made])
        if self.rng.random() < 0.5:
            self.add("Relu", [made], self.shapes[made])

    def pool(self, x, shape):
        n, c, h, wide = shape
        out = [(d - 1) // 2 + 1 for d in (h, wide)]
        way, more = self.rng.choice((("MaxPool", {}), ("AveragePool", {"count_include_pad": 1})))
        self.add(way, [x], (n, c, *out), kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4, **more)

    def norm(self, x, shape):
        own = [self.constant(self.array(shape[1])) for _ in range(2)]
        way = self.rng.choice(("InstanceNormalization", "LayerNormalization"))
        if way == "LayerNormalization":
            own = [self.constant(self.array(shape[3])) for _ in range(2)]
            self.bounded(self.add(way, [x, *own], shape, axis=3, epsilon=0.1))
        else:
            self.bounded(self.add(way, [x, *own], shape, epsilon=0.1))


def in_any_layout(drawn):
    """The graph of a model, some of whose images have the channels last."""
    graph = optimized(from_onnx(drawn.model))
    free = [n for n in graph.nodes if images_of(graph, n) is not None]
    made = with_channels_last(graph, [n for n in free if drawn.rng.random() < 0.7])
    made.check()
    return made


def test_random_models(seeds):
    for seed in seeds(40):
        drawn = Drawn(seed)
        try:
            wanted = ReferenceEvaluator(drawn.model).run(None, drawn.inputs)
            given = in_any_layout(drawn) if seed % 2 else drawn.model
            model = compile(given, target="llvm -num_threads=2")
            model._memory[:] = 0xFF
            made = model(**{v.name: drawn.inputs[v.name] for v in model.inputs})
            for one, want in zip(made if isinstance(made, tuple) else (made,), wanted):
                np.testing.assert_allclose(one, want, rtol=1e-3, atol=1e-4)
        except Exception as error:
            error.add_note(f"seed {seed}\n{from_onnx(drawn.model)}")
            raise
