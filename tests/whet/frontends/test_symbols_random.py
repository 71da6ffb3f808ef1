"""Random graphs whose first axis is a symbol, beside onnx's reference implementation."""

import random

import numpy as np
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import whet

TARGET = "llvm -num_threads=2"
UNARY = ("Abs", "Neg", "Relu", "Sigmoid", "Tanh", "Erf", "Sin")
N = "n"


class Drawn:
    """A random model of float32 values; sizes are numbers, or "n" for the symbol."""

    def __init__(self, seed):
        self.rng, self.numbers = random.Random(seed), np.random.default_rng(seed)
        self.nodes, self.constants, self.shapes = [], [], {"x": [N, 6, 4]}
        for _ in range(self.rng.randrange(4, 9)):
            x = self.rng.choice([list(self.shapes)[-1], self.rng.choice(list(self.shapes))])
            ways = [self.unary, self.binary, self.turned, self.joined, self.part, self.reduced]
            ways += [self.weighed, self.merged, self.squared, self.scores, self.placed]
            self.rng.choice(ways)(x, self.shapes[x])
        made = [v for n in self.nodes for v in n.output if v in self.shapes]
        self.outputs = sorted({made[-1], self.rng.choice(made)})
        info = helper.make_tensor_value_info
        graph = helper.make_graph(
            self.nodes,
            "random",
            [info("x", TensorProto.FLOAT, [N, 6, 4])],
            [info(o, TensorProto.FLOAT, None) for o in self.outputs],
            self.constants,
        )
        self.model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)])

    def constant(self, array):
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(array, name))
        return name

    def ints(self, *values):
        return self.constant(np.asarray(values, "int64"))

    def drawn(self, *shape):
        return self.constant(self.numbers.uniform(-1, 1, shape).astype("float32"))

    def add(self, operator, inputs, shape=None, **attrs):
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, inputs, [name], **attrs))
        if shape is not None:
            self.shapes[name] = list(shape)
        return name

    def unary(self, x, shape):
        if self.rng.random() < 0.4:
            self.add("Softmax", [x], shape, axis=self.rng.randrange(len(shape)))
        else:
            self.add(self.rng.choice(UNARY), [x], shape)

    def binary(self, x, shape):
        alike = [v for v, s in self.shapes.items() if s == shape]
        other = self.rng.choice(alike)
        if self.rng.random() < 0.5:
            other = self.drawn(*(1 if d == N or self.rng.random() < 0.5 else d for d in shape))
        self.add(self.rng.choice(("Add", "Sub", "Max", "Min")), [x, other], shape)

    def turned(self, x, shape):
        axes = self.rng.sample(range(len(shape)), len(shape))
        self.add("Transpose", [x], [shape[a] for a in axes], perm=axes)

    def joined(self, x, shape):
        axis = self.rng.choice([k for k, d in enumerate(shape) if d != N])
        self.add("Concat", [x, x], [2 * d if k == axis else d for k, d in enumerate(shape)],
                 axis=axis)  # fmt: skip

    def part(self, x, shape):
        axis = self.rng.choice([k for k, d in enumerate(shape) if d != N])
        begin = self.rng.randrange(shape[axis])
        given = [self.ints(v) for v in (begin, 1 << 62, axis)]
        left = [d - begin if k == axis else d for k, d in enumerate(shape)]
        self.add("Slice", [x, *given], left)

    def reduced(self, x, shape):
        axis = self.rng.randrange(len(shape))
        left = [1 if k == axis else d for k, d in enumerate(shape)]
        way = self.rng.choice(("ReduceMax", "ReduceMean", "ReduceMin"))
        v = self.add(way, [x, self.ints(axis)], left, keepdims=1)
        if N not in left:
            self.shapes.pop(v)
            self.add("Mul", [x, v], shape)

    def weighed(self, x, shape):
        if shape[-1] != N and len(shape) > 1:
            self.add("MatMul", [x, self.drawn(shape[-1], 5)], [*shape[:-1], 5])

    def scores(self, x, shape):
        """Rows beside rows, as attention has them: two axes are the symbol's."""
        if len(shape) == 3 and shape.count(N) == 1:
            a = shape.index(N)
            axes = [k for k in range(3) if k != a]
            t = self.add("Transpose", [x], None, perm=[axes[0], a, axes[1]])
            u = self.add("Transpose", [x], None, perm=[axes[0], axes[1], a])
            product = self.add("MatMul", [t, u])
            p = self.add("Softmax", [product], None, axis=-1)
            self.add("MatMul", [p, t], [shape[axes[0]], N, shape[axes[1]]])

    def merged(self, x, shape):
        """A reshape by the sizes of its operand, as exporters write it."""
        if shape[0] == N and len(shape) == 3:
            sizes = self.add("Shape", [x])
            first = self.add("Gather", [sizes, self.ints(0)], None)
            wanted = self.add("Concat", [first, self.ints(-1)], None, axis=0)
            self.add("Reshape", [x, wanted], [N, shape[1] * shape[2]])

    def squared(self, x, shape):
        """All rows in one axis, and back."""
        if len(shape) == 3 and N not in shape[1:]:
            flat = self.add("Reshape", [x, self.ints(-1, shape[2])])
            w = self.add("MatMul", [flat, self.drawn(shape[2], shape[2])])
            sizes = self.add("Shape", [x])
            self.add("Reshape", [w, sizes], shape)

    def placed(self, x, shape):
        """A table of which as many rows are added as there are."""
        if shape[0] == N and len(shape) == 2:
            sizes = self.add("Shape", [x])
            first = self.add("Gather", [sizes, self.ints(0)], None)
            part = self.add("Slice", [self.drawn(40, shape[1]), self.ints(0), first, self.ints(0)])
            self.add("Add", [x, part], shape)


def test_random_graphs_with_a_symbol(seeds):
    for seed in seeds(3):
        drawn = Drawn(seed)
        reference = ReferenceEvaluator(drawn.model)
        most = drawn.rng.choice((5, 21, 37))
        model = whet.compile(drawn.model, {N: whet.dynamic(1, most)}, TARGET, cache=False)
        for n in {1, 2, most, drawn.rng.randint(1, most)}:
            x = drawn.numbers.uniform(-1, 1, (n, 6, 4)).astype("float32")
            exact = dict(zip(drawn.outputs, reference.run(None, {"x": x})))
            out = [np.full(a.shape, np.nan, "float32") for a in exact.values()]
            model._memory[:] = 255
            model.run([x], out)
            for (name, wanted), found in zip(exact.items(), out):
                np.testing.assert_allclose(
                    found, wanted, rtol=2e-4, atol=2e-4, err_msg=f"seed {seed} n={n} {name}"
                )
