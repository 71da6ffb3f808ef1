"""Random computations, drawn from any source of integers.

``pick(low, high)`` gives an integer of ``low .. high``: hypothesis' draw, or ``random.randint``.
"""

from random_scripts import SCRIPTS

from whet.compiler import te

SIZES = (1, 2, 3, 4, 5, 7, 8, 9, 13, 16, 17)
EDGES = (0, 1, 1, *SIZES)
"""Sizes with those that have nothing, or nothing to repeat, among them."""


DTYPES = ("float32", "int32", "float64", "int64", "int16", "uint8")


LOWEST = {"int8": -100, "uint8": 0, "float16": -2048, "bfloat16": -128}


def _low(dtype):
    """The init value of a maximum; the least number of a type overflows in the next sum."""
    return te.const(LOWEST.get(dtype, -30_000), dtype)


def argmax_of(pick_first):
    """The reduction (index, value) of the greatest value; the smallest index of equal ones."""
    return te.comm_reducer(
        lambda x, y: (
            te.select(pick_first(x, y), x[0], y[0]),
            te.select(pick_first(x, y), x[1], y[1]),
        ),
        lambda index, value: (te.const(-1, index), _low(value)),
        name="argmax",
    )


argmax = argmax_of(
    lambda x, y: te.any(x[1] > y[1], te.all(x[1].equal(y[1]), x[0] < y[0], x[0] >= 0))
)


class Graph:
    """A random computation.

    Attributes:
        inputs, tensors: in the order in which they are made; ``outputs`` are some of them.
        symbols: symbolic size -> number.
        made: the kinds of its stages, by the names of the methods below.
        twins: operation of a script -> tensors of te.compute that are its outputs, for the oracle.
        sizes: what its dimensions are drawn from.
    """

    dtypes = DTYPES

    def __init__(self, pick, dtype=None, symbolic=False, sizes=SIZES):
        self.pick, self.sizes = pick, sizes
        self.dtype = dtype or self._choose(self.dtypes)
        self.inputs, self.tensors, self.made, self.twins = [], [], [], {}
        self.symbols = {}
        self.symbolic = symbolic
        self.tables = set()
        self._input((self._size(), self._size()))
        for _ in range(pick(1, 4)):
            self.tensors += self._stage()
        self.outputs = self._results()

    def _results(self):
        """The outputs: all that the last stage makes, and sometimes what another one makes."""
        ops = [self.tensors[-1].op]
        others = [t.op for t in self.tensors if t.op not in ops]
        if others and self.pick(0, 3) == 0:
            ops.append(self._choose(others))
        return [op.output(k) for op in ops for k in range(op.num_outputs)]

    def _choose(self, things):
        return things[self.pick(0, len(things) - 1)]

    def _size(self):
        n = self._choose(self.sizes)
        if self.symbolic and self.pick(0, 2) == 0:
            if self.symbols and self.pick(0, 1):
                return self._choose(list(self.symbols))
            v = te.size_var(f"n{len(self.symbols)}")
            self.symbols[v] = (0, 1, n)[self.pick(0, 2)]
            return v
        return n

    def _input(self, shape, dtype=None):
        t = te.placeholder(shape, dtype or self.dtype, name=f"I{len(self.inputs)}")
        self.inputs.append(t)
        if dtype is not None:
            self.tables.add(t)
        return t

    def _any(self, rank=None):
        known = [
            t for t in (*self.inputs, *self.tensors) if t not in self.tables and t.dtype != "bool"
        ]
        fits = [t for t in known if rank in (None, len(t.shape))]
        if not fits or (len(self.inputs) < 3 and self.pick(0, 4) == 0):
            return self._input(tuple(self._size() for _ in range(rank or 2)))
        # recent ones more often, so that chains grow long
        return fits[-1] if self.pick(0, 1) else self._choose(fits)

    def kinds(self):
        """The kinds of stages."""
        return (self.elementwise, self.stencil, self.padded, self.reduction, self.transposed,
                self.broadcast, self.reshaped, self.matmul, self.gathered, self.strided,
                self.guarded, self.double, self.several, self.position,
                self.converted, *self.triangles(), *self.recurrences(),
                *self.scripts())  # fmt: skip

    def scripts(self):
        """Kinds of stages whose loops a script writes; none where nobody can schedule them."""
        return (self.scripted,)

    def recurrences(self):
        """Kinds of stages that are computed step by step; none where nobody can schedule them."""
        return (self.recurrence,)

    def triangles(self):
        """Kinds of stages whose extents depend on the element; none where extents are numbers."""
        return (self.triangle,)

    def _stage(self):
        kind = self._choose(self.kinds())
        self.made.append(kind.__name__)
        made = kind(f"T{len(self.tensors)}")
        return list(made) if isinstance(made, (list, tuple)) else [made]

    def elementwise(self, name):
        a = self._any()
        same = [t for t in self.tensors if t.shape is not a.shape and _equal(t.shape, a.shape)]
        b = self._choose(same) if same else a
        c = self.pick(0 if a.dtype.startswith("u") else -2, 3)
        return te.compute(a.shape, lambda *i: a(*i) * c + b(*i), name=name)

    def several(self, name):
        a = self._any()
        other = self._choose(DTYPES[:4]) if "float" not in a.dtype else a.dtype
        return te.compute(
            a.shape, lambda *i: (a(*i) + 1, (a(*i) * 2).astype(other), a(*i) > 1), name=name
        )[: self.pick(2, 3)]

    def position(self, name):
        a = self._any(2)
        k = te.reduce_axis((0, a.shape[1]), name="k")
        where = (None, lambda i: k >= i)[self.pick(0, 1)]
        return te.compute(
            (a.shape[0],),
            lambda i: argmax((k.var, a[i, k]), axis=k, where=where and where(i)),
            name=name,
        )

    def converted(self, name):
        a = self._any()
        floats = ("float32", "float64")
        other = self._choose(floats if "float" in a.dtype else DTYPES)
        if self.pick(0, 2) == 0:
            return te.compute(a.shape, lambda *i: te.select(a(*i) > 1, a(*i), 1), name=name)
        return te.compute(a.shape, lambda *i: a(*i).astype(other), name=name)

    def stencil(self, name):
        a = self._any()
        if any(not hasattr(d, "value") or d.value < 3 for d in a.shape):
            return self.elementwise(name)
        w = [self.pick(1, 3) for _ in a.shape]
        shape = [d.value - x + 1 for d, x in zip(a.shape, w)]

        def body(*i):
            out = a(*i)
            for k in range(len(w)):
                for o in range(1, w[k]):
                    out = out + a(*[x + o if j == k else x for j, x in enumerate(i)])
            return out

        return te.compute(shape, body, name=name)

    def padded(self, name):
        a = self._any()
        p, q = self.pick(0, 2), self.pick(0, 2)
        shape = [d + p + q for d in a.shape]
        if self.pick(0, 1):

            def body(*i):
                inside = te.all(*[te.all(x >= p, x < d + p) for x, d in zip(i, a.shape)])
                return te.if_then_else(inside, a(*[x - p for x in i]), 0)

            return te.compute(shape, body, name=name)
        # same size, edges left out: reads i - 1, i, i + 1

        def around(*i):
            last = i[-1]
            left = te.if_then_else(last >= 1, a(*i[:-1], last - 1), 0)
            right = te.if_then_else(last + 1 < a.shape[-1], a(*i[:-1], last + 1), 0)
            return left + a(*i) * 2 - right

        return te.compute(a.shape, around, name=name)

    def reduction(self, name):
        a = self._any(2)
        which = self.pick(0, 1)
        f = self._choose((te.sum, te.sum, te.max, te.min))
        k = te.reduce_axis((0, a.shape[which]), name="k")
        where = (lambda i: None, lambda i: k != i, lambda i: te.all(i >= k))[
            max(self.pick(-3, 2), 0)
        ]
        init = (None, 3)[max(self.pick(-3, 1), 0)]
        n = a.shape[1 - which]
        return te.compute(
            (n,),
            lambda i: f(a[k, i] if which == 0 else a[i, k], axis=k, where=where(i), init=init),
            name=name,
        )

    def triangle(self, name):
        """A reduction whose range depends on the element."""
        a = self._any(2)
        n, m = a.shape
        if any(not hasattr(d, "value") for d in (n, m)) or m.value < n.value or _empty(n):
            return self.elementwise(name)
        f, kind = self._choose((te.sum, te.max, te.min)), self.pick(0, 2)
        ends = (lambda i: (0, i + 1), lambda i: (i, m), lambda i: (i // 2, te.min(i + 2, m)))[kind]

        def element(i):
            k = te.reduce_axis(ends(i), name="k")
            return f(a[i, k], axis=k, where=k != 1 if self.pick(0, 2) == 0 else None)

        return te.compute((n,), element, name=name)

    def transposed(self, name):
        a = self._any(2)
        return te.compute((a.shape[1], a.shape[0]), lambda i, j: a[j, i] + i * 3 - j, name=name)

    def broadcast(self, name):
        a = self._any(1)
        n = self._size()
        if self.pick(0, 1):
            return te.compute((n, a.shape[0]), lambda i, j: a[j] + i, name=name)
        return te.compute((a.shape[0], n), lambda i, j: a[i] - j, name=name)

    def reshaped(self, name):
        a = self._any(2)
        n, m = a.shape
        if _empty(m):
            return self.elementwise(name)
        if self.pick(0, 1) or not hasattr(m, "value"):
            return te.compute((n * m,), lambda f: a[f // m, f % m], name=name)
        w = self.pick(1, 5)
        total = -(-m.value // w)
        return te.compute(
            (n, total, w),
            lambda i, jo, ji: te.if_then_else(jo * w + ji < m, a[i, jo * w + ji], 1),
            name=name,
        )

    def matmul(self, name):
        a = self._any(2)
        b = self._choose([a, *(t for t in (*self.inputs, *self.tensors) if len(t.shape) == 2)])
        if b.dtype == "bool" or not _equal(a.shape[1:], b.shape[:1]):
            b = self._input((a.shape[1], self._size()))
        k = te.reduce_axis((0, a.shape[1]), name="k")
        return te.compute(
            (a.shape[0], b.shape[1]), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name=name
        )

    def scripted(self, name):
        f, twin, count = self._choose(SCRIPTS)
        given = [self._any(2)]
        if count == 2:
            given.append(self._input((given[0].shape[1], self._size()), given[0].dtype))
            self.tables.discard(given[1])
        if not all(self._is_some(d) for t in given for d in t.shape):
            return self.elementwise(name)
        made = f(*given)
        made = list(made) if isinstance(made, (list, tuple)) else [made]
        self.twins[made[0].op] = twin(name, *given)
        return made

    def _is_some(self, d):
        """True for an extent of a step and more."""
        return self.symbols.get(d, getattr(d, "value", 0)) > 0

    def recurrence(self, name):
        a = self._any(2)
        m, n = a.shape
        begin = self.pick(1, 2)
        if not hasattr(m, "value") or m.value < begin or _empty(n):
            return self.elementwise(name)
        kept = lambda x: x.astype(a.dtype)  # noqa: E731
        before = te.placeholder(a.shape, a.dtype, name=f"{name}_before")
        first = te.compute((begin, n), lambda t, i: kept(a[t, i] - i), name=f"{name}_first")
        back, cell = self.pick(1, begin), before
        if self.pick(0, 1):
            cell = te.compute(
                a.shape, lambda t, i: kept(before[t - back, n - 1 - i] + 1), name=f"{name}_cell"
            )
            back = 0
        k = te.reduce_axis((0, n), name="k")
        bodies = (
            lambda t, i: te.max(kept(cell[t - back, k] + i), axis=k),
            lambda t, i: te.min(cell[t - back, i], kept(te.const(9))) + a[t, i],
            lambda t, i: kept(te.if_then_else(i > 0, cell[t - back, i - 1], a[t, i]) + 2),
        )
        step = te.compute(a.shape, self._choose(bodies), name=f"{name}_step")
        return te.scan(first, step, before, inputs=[a], name=name)

    def gathered(self, name):
        a = self._any()
        if any(not hasattr(d, "value") for d in a.shape):
            return self.transposed(name)
        d, *rest = a.shape
        if _empty(d):
            return self.elementwise(name)
        n = self._choose(self.sizes)
        table = self._input((n,), "int32")
        return te.compute((n, *rest), lambda i, *j: a(table[i] % d, *j), name=name)

    def strided(self, name):
        a = self._any()
        d = a.shape[-1]
        if not hasattr(d, "value"):
            return self.elementwise(name)
        by = self.pick(2, 3)
        size = -(-d.value // by)
        if self.pick(0, 1):
            return te.compute((*a.shape[:-1], size), lambda *i: a(*i[:-1], i[-1] * by), name=name)
        return te.compute(a.shape, lambda *i: a(*i[:-1], d - 1 - i[-1]), name=name)

    def guarded(self, name):
        a = self._any()
        return te.compute(
            a.shape, lambda *i: te.select(i[-1] % 3 == 1, a(*i), a(*i) * 2 - i[0] // 2), name=name
        )

    def double(self, name):
        a = self._any(2)
        i0 = te.reduce_axis((0, 2), name="r0")
        d = a.shape[1]
        if (
            not hasattr(d, "value")
            or d.value < 2
            or not hasattr(a.shape[0], "value")
            or a.shape[0].value < 2
        ):
            return self.elementwise(name)
        i1 = te.reduce_axis((0, 2), name="r1")
        return te.compute(
            (a.shape[0].value - 1, d.value - 1),
            lambda i, j: te.sum(a[i + i0, j + i1], axis=[i0, i1]),
            name=name,
        )


def _empty(d):
    """Known to be nothing: no element has an index, and none can be divided by it."""
    return getattr(d, "value", None) == 0


def _equal(a, b):
    def same(x, y):
        return x is y or (hasattr(x, "value") and hasattr(y, "value") and x.value == y.value)

    return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b))
