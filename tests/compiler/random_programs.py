"""Random computations and random schedules of them, drawn from any source of integers.

``pick(low, high)`` gives an integer of ``low .. high``: hypothesis' draw, or ``random.randint``.
"""

from whet.compiler import te
from whet.compiler.errors import ScheduleError

SIZES = (1, 2, 3, 4, 5, 7, 8, 9, 13, 16, 17)


class Graph:
    """A random computation: ``inputs``, and ``tensors`` in order, the last one the output."""

    def __init__(self, pick, dtype=None, symbolic=False):
        self.pick = pick
        self.dtype = dtype or ("float32", "int32", "float64", "int64")[pick(0, 3)]
        self.inputs, self.tensors = [], []
        self.symbols = {}
        self.symbolic = symbolic
        self.tables = set()
        self._input((self._size(), self._size()))
        for _ in range(pick(1, 4)):
            self.tensors.append(self._stage())
        self.output = self.tensors[-1]

    def _choose(self, things):
        return things[self.pick(0, len(things) - 1)]

    def _size(self):
        n = self._choose(SIZES)
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
        known = [t for t in (*self.inputs, *self.tensors) if t not in self.tables]
        fits = [t for t in known if rank in (None, len(t.shape))]
        if not fits or (len(self.inputs) < 3 and self.pick(0, 4) == 0):
            return self._input(tuple(self._size() for _ in range(rank or 2)))
        # recent ones more often, so that chains grow long
        return fits[-1] if self.pick(0, 1) else self._choose(fits)

    def _stage(self):
        kinds = (self.elementwise, self.stencil, self.padded, self.reduction, self.transposed,
                 self.broadcast, self.reshaped, self.matmul, self.gathered, self.strided,
                 self.guarded, self.double)  # fmt: skip
        return self._choose(kinds)(f"T{len(self.tensors)}")

    def elementwise(self, name):
        a = self._any()
        same = [t for t in self.tensors if t.shape is not a.shape and _equal(t.shape, a.shape)]
        b = self._choose(same) if same else a
        c = self.pick(-2, 3)
        return te.compute(a.shape, lambda *i: a(*i) * c + b(*i), name=name)

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
        b = self._choose([t for t in (*self.inputs, *self.tensors) if len(t.shape) == 2])
        if not _equal(a.shape[1:], b.shape[:1]):
            b = self._input((a.shape[1], self._size()))
        k = te.reduce_axis((0, a.shape[1]), name="k")
        return te.compute(
            (a.shape[0], b.shape[1]), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name=name
        )

    def gathered(self, name):
        a = self._any()
        if any(not hasattr(d, "value") for d in a.shape):
            return self.transposed(name)
        n = self._choose(SIZES)
        table = self._input((n,), "int32")
        rest = a.shape[1:]
        d = a.shape[0]
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


def _equal(a, b):
    def same(x, y):
        return x is y or (hasattr(x, "value") and hasattr(y, "value") and x.value == y.value)

    return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b))


def schedule(graph, pick, parallel=True):
    """A random schedule of a graph, and the tensors that its caller passes."""
    s = te.create_schedule(graph.output.op)
    extra = []
    for t in list(graph.tensors):
        if t.op in s.stage_map and pick(0, 5) == 0:
            s.cache_write(t, ("global", "local")[pick(0, 1)])
    for stage in list(s.stages):
        readers = s.consumers(stage)
        if readers and pick(0, 5) == 0:
            reader = readers[pick(0, len(readers) - 1)]
            s.cache_read(te.Tensor(stage.op, 0), ("global", "local")[pick(0, 1)], [reader.op])
    done = []
    for stage in reversed(s.stages):
        if not isinstance(stage.op, te.ComputeOp):
            continue
        place(s, stage, done, pick, extra)
        if stage.attach_type != "inline":
            loops(stage, pick, parallel)
            done.append(stage)
    used = [t for t in graph.inputs if t.op in s.stage_map]
    return s, [*used, *extra, graph.output]


def place(s, stage, done, pick, extra):
    """Attach a stage somewhere."""
    if stage.is_output:
        return
    how = pick(0, 5)
    if how == 0 and not stage.op.reduce_axis:
        stage.compute_inline()
    elif how >= 3:
        parents = [p for p in done if s.feeds(stage, p) and p.leaf_iter_vars]
        if parents:
            parent = parents[pick(0, len(parents) - 1)]
            leaf = parent.leaf_iter_vars[pick(0, len(parent.leaf_iter_vars) - 1)]
            stage.compute_at(parent, leaf)
            return
    if stage.attach_type == "root" and stage.op.num_outputs == 1 and pick(0, 3) == 0:
        extra.append(te.Tensor(stage.op, 0))


def loops(stage, pick, parallel):
    """Transform the loops of a stage."""
    for _ in range(pick(0, 4)):
        leaves = stage.leaf_iter_vars
        if not leaves:
            return
        k = pick(0, len(leaves) - 1)
        what = pick(0, 3)
        if what <= 1 and len(leaves) < 7:
            size = pick(1, 9)
            if pick(0, 3):
                stage.split(leaves[k], factor=size)
            else:
                stage.split(leaves[k], nparts=size)
        elif what == 2 and k + 1 < len(leaves):
            if leaves[k].iter_type == leaves[k + 1].iter_type:
                stage.fuse(leaves[k], leaves[k + 1])
        else:
            j = pick(0, len(leaves) - 1)
            if j != k:
                stage.reorder(leaves[max(j, k)], leaves[min(j, k)])
    constant = _constant_leaves(stage)
    for leaf in list(stage.leaf_iter_vars):
        kind = pick(0, 7)
        try:
            if kind == 0 and leaf in constant and constant[leaf] <= 32:
                stage.unroll(leaf)
            elif kind in (1, 2) and leaf in constant and constant[leaf] <= 64:
                stage.vectorize(leaf)
            elif kind == 3 and parallel:
                stage.parallel(leaf)
        except ScheduleError as error:
            assert "depend on each other" in str(error)


def _constant_leaves(stage):
    from whet.compiler.te.bound import leaf_extents

    return {a: int(t) for a, t in leaf_extents(stage).items() if t.lstrip("-").isdigit()}
