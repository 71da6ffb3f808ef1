"""Random graphs of float64 with derivatives, and their check by finite differences.

Elements stay away from where a function has a corner: the difference of a max of two numbers that
lie next to each other says nothing about its derivative.
"""

import numpy as np

import whet
from whet.compiler import te

TARGET = "llvm -num_threads=1"
SMOOTH = (te.exp, te.tanh, te.sigmoid, te.erf, te.sin, te.cos, te.atan, te.asinh, te.sinh, te.expm1)
POSITIVE = (te.log, te.sqrt, te.rsqrt, te.log1p, te.log2)

logsumexp = te.comm_reducer(te.logaddexp, lambda t: te.const(-50.0, t), name="logsumexp")
longest = te.comm_reducer(
    lambda x, y: (te.select(x[1] >= y[1], x[0], y[0]), te.max(x[1], y[1])),
    lambda t0, t1: (te.const(-1, t0), te.min_value(t1)),
    name="argmax",
)
product = te.comm_reducer(lambda x, y: x * y, lambda t: te.const(1.0, t), name="product")


class RandomGraph:
    """A graph of a few tensors, each computed from one or two of those before.

    Attributes:
        inputs: placeholders.
        values: numpy's inputs, in their order.
        output: the last tensor.
    """

    def __init__(self, seed, steps=4):
        self.rng = np.random.default_rng(seed)
        self.inputs, self.steps = [], []
        tensor = self._input(tuple(self._extent() for _ in range(self.rng.integers(1, 4))))
        forms = [getattr(self, n) for n in dir(self) if n.startswith("form_")]
        for _ in range(steps):
            form = forms[self.rng.integers(len(forms))]
            made = form(tensor)
            if made is not None:
                self.steps.append(form.__name__[5:])
                tensor = made
        self.output = tensor
        self.values = [self.rng.uniform(0.2, 1.5, self._shape(t)) for t in self.inputs]

    def _extent(self):
        return int(self.rng.integers(1, 6))

    def _shape(self, t):
        return tuple(int(d) for d in t.shape)

    def _input(self, shape):
        t = te.placeholder(shape, "float64", f"X{len(self.inputs)}")
        self.inputs.append(t)
        return t

    def form_unary(self, t):
        f = SMOOTH[self.rng.integers(len(SMOOTH))]
        return te.compute(t.shape, lambda *i: f(t(*i)))

    def form_positive(self, t):
        f = POSITIVE[self.rng.integers(len(POSITIVE))]
        return te.compute(t.shape, lambda *i: f(t(*i) * t(*i) + 0.3))

    def form_binary(self, t):
        other = self._input(self._shape(t))
        kinds = (
            lambda x, y: x + y * x, lambda x, y: x - y, lambda x, y: x * y / (y + 2.0),
            lambda x, y: te.power(te.abs(x) + 0.5, y), te.atan2, te.hypot,
            lambda x, y: te.max(x, y) + te.min(x, y * 3.0),
            lambda x, y: te.select(x > y, x * y, y * y), te.logaddexp,
        )  # fmt: skip
        f = kinds[self.rng.integers(len(kinds))]
        return te.compute(t.shape, lambda *i: f(t(*i), other(*i)))

    def form_product(self, t):
        *lead, n = self._shape(t)
        m = self._extent()
        w = self._input((n, m))
        k = te.reduce_axis((0, n), name="k")
        return te.compute((*lead, m), lambda *i: te.sum(t(*i[:-1], k) * w(k, i[-1]), axis=k))

    def form_window(self, t):
        *lead, n = self._shape(t)
        size, stride, dilation = (int(self.rng.integers(1, 4)) for _ in range(3))
        room = n - dilation * (size - 1)
        if room < 1:
            return None
        w = self._input((size,))
        k = te.reduce_axis((0, size), name="k")
        return te.compute(
            (*lead, (room - 1) // stride + 1),
            lambda *i: te.sum(t(*i[:-1], i[-1] * stride + k * dilation) * w[k], axis=k),
        )

    def form_padded(self, t):
        first, *rest = self._shape(t)
        low, high = (int(self.rng.integers(0, 3)) for _ in range(2))
        return te.compute(
            (first + low + high, *rest),
            lambda i, *j: te.if_then_else(
                te.all(i >= low, i < first + low), te.sin(t(i - low, *j)), 0.5
            ),
        )

    def form_reshaped(self, t):
        shape = self._shape(t)
        total = int(np.prod(shape))
        divisors = [d for d in range(1, total + 1) if total % d == 0]
        cols = divisors[self.rng.integers(len(divisors))]

        def element(i, j):
            flat, at = i * cols + j, []
            for d in reversed(shape):
                at.append(flat % d)
                flat = flat // d
            return t(*reversed(at))

        return te.compute((total // cols, cols), element)

    def form_flipped(self, t):
        shape = self._shape(t)
        order = self.rng.permutation(len(shape))
        back = np.argsort(order)
        n = shape[order[0]]
        return te.compute(
            [shape[d] for d in order], lambda *i: t(*[(n - 1 - i[0], *i[1:])[b] for b in back])
        )

    def form_strided(self, t):
        first, *rest = self._shape(t)
        step = int(self.rng.integers(1, 4))
        begin = int(self.rng.integers(0, first))
        return te.compute(
            ((first - begin - 1) // step + 1, *rest), lambda i, *j: t(i * step + begin, *j)
        )

    def form_repeated(self, t):
        first, *rest = self._shape(t)
        times = int(self.rng.integers(1, 4))
        tiled = bool(self.rng.integers(2))
        return te.compute(
            (first * times, *rest), lambda i, *j: t(i % first if tiled else i // times, *j)
        )

    def form_gathered(self, t):
        first, *rest = self._shape(t)
        places = [int(x) for x in self.rng.integers(0, first, 4)]
        where = te.compute(
            (4,),
            lambda i: te.select(i == 0, places[0], te.select(i < 3, places[1], places[2])),
            name="where",
        )
        return te.compute((4, *rest), lambda i, *j: t(where[i], *j) * t(0, *j))

    def form_reduced(self, t):
        *lead, n = self._shape(t)
        k = te.reduce_axis((0, n), name="k")
        kinds = (te.sum, te.max, te.min, product, logsumexp)
        f = kinds[self.rng.integers(len(kinds))]
        made = te.compute((*lead, 1), lambda *i: f(t(*i[:-1], k) * 1.1, axis=k))
        return te.compute(t.shape, lambda *i: made(*i[:-1], 0) * 0.5 + t(*i))

    def form_masked(self, t):
        *lead, n = self._shape(t)
        k = te.reduce_axis((0, n), name="k")
        return te.compute(
            (*lead, n), lambda *i: te.sum(t(*i[:-1], k) * 0.5, axis=k, where=k <= i[-1])
        )

    def form_best(self, t):
        *lead, n = self._shape(t)
        k = te.reduce_axis((1 if n > 1 else 0, n), name="k")
        _, most = te.compute(
            tuple(lead) or (1,),
            lambda *i: longest((k.var, t(*(i if lead else ()), k) * 2.0), axis=k),
        )
        return te.compute(most.shape, lambda *i: most(*i) + 1.0)

    def form_states(self, t):
        plus, minus = te.compute(t.shape, lambda *i: (t(*i) * 2.0, te.exp(t(*i) * -0.3)))
        return te.compute(t.shape, lambda *i: plus(*i) * minus(*i))


def built(outputs, inputs):
    """A kernel of some outputs, default loops."""
    s = te.create_schedule([t.op for t in outputs])
    return whet.build(s, [*inputs, *outputs], TARGET)


def run(kernel, outputs, values):
    """Its results, in arrays that are not zero before."""
    arrays = [np.full([int(d) for d in t.shape], np.nan) for t in outputs]
    kernel(*[np.ascontiguousarray(v) for v in values], *arrays)
    return arrays


def check(graph, tolerance=2e-5):
    """Compare the derivatives of a graph with differences along a random direction for each input.

    Returns:
        The largest difference, beside the size of the numbers.
    """
    rng = graph.rng
    head = te.placeholder(graph.output.shape, "float64", "H")
    derivatives = te.gradient(graph.output, graph.inputs, head=head)
    forward = built([graph.output], graph.inputs)
    h = rng.standard_normal([int(d) for d in head.shape])
    # an input that nothing reads is no argument of the derivatives
    backward = built(derivatives, [*graph.inputs, head])
    got = run(backward, derivatives, [*graph.values, h])
    worst = 0.0
    for k, (x, d) in enumerate(zip(graph.values, got)):
        assert np.isfinite(d).all(), (graph.steps, graph.inputs[k])
        way = rng.standard_normal(x.shape)
        step = 1e-6

        def along(by, k=k, x=x, way=way):
            values = list(graph.values)
            values[k] = x + by * way
            return (run(forward, [graph.output], values)[0] * h).sum()

        wanted = (along(step) - along(-step)) / (2 * step)
        found = (d * way).sum()
        worst = max(worst, abs(found - wanted) / (1 + abs(wanted)))
    assert worst < tolerance, (graph.steps, worst)
    return worst
