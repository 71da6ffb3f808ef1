"""Random programs full of mistakes: any value anywhere, any primitive on any axis.

Whatever is asked, only our own errors may come back.
"""

import numpy as np

from whet.compiler import driver, te, tir
from whet.compiler.errors import WhetError
from whet.compiler.passes.context import PassContext
from whet.compiler.target import Target


def _doubled(a):
    b = output_tensor(a.shape, a.dtype)  # noqa: F821
    for i in range(a.shape[0]):
        b[i] = a[i] * 2.0
    return b


def _wrong(a, n):
    b = output_tensor((n,), "float32")  # noqa: F821
    while n:
        b[a] += 1
    return a


class Mistakes:
    """One random program; ``log`` has a line for each call made."""

    def __init__(self, rng):
        self.rng = rng
        self.log = []
        self.axes = [te.reduce_axis((0, 4), name="k"), te.thread_axis("threadIdx.x")]
        self.tensors = [te.placeholder((4, 6), name="P"), te.placeholder((5,), "int32", name="Q")]
        self.vars = [te.var("v"), te.size_var("n"), te.var("f", "float32")]
        self.schedules = []
        self.modules = []
        self.intrins = []

    def odd(self):
        """Any value at all."""
        r = self.rng
        return r.choice(
            [
                lambda: None,
                lambda: r.choice([0, 1, -1, 3, 7, 2**31, 2**63, 2**70, -(2**40)]),
                lambda: r.choice([1.5, float("nan"), float("inf"), 4.0]),
                lambda: r.choice(["", "i", "float32", "float33", "threadIdx.x", "shared", "é\n"]),
                lambda: r.choice([(), [], {}, (1, 2), [3], (0, 4), (4, 0), ((1,),), set()]),
                lambda: r.choice([True, False, np.int64(3), np.float32(2), np.arange(3), object()]),
                lambda: r.choice([lambda *i: i, lambda *i: 1.0, lambda *i: None, b"bytes", 1j]),
                self.axis,
                self.tensor,
                lambda: r.choice(self.vars),
                lambda: r.choice([te.const(3), te.const(1.5), te.const(True), self.vars[0] + 1]),
                self.schedule,
                self.stage,
            ]
        )()

    def axis(self):
        """An axis, perhaps of another stage."""
        return self.rng.choice(self.axes)

    def tensor(self):
        """A tensor, perhaps of another graph."""
        return self.rng.choice(self.tensors)

    def schedule(self):
        """A schedule, made if there is none."""
        if not self.schedules or self.rng.random() < 0.2:
            ops = [self.tensor().op for _ in range(self.rng.choice([1, 1, 1, 2]))]
            self.schedules.append(te.create_schedule(ops))
        return self.schedules[-1]

    def stage(self):
        """A stage of a schedule."""
        return self.rng.choice(self.schedule().stages)

    def maybe(self, good):
        """A value of ``good``, mostly; sometimes anything."""
        return good() if self.rng.random() < 0.88 else self.odd()

    def step(self):
        """One call; its error, if it raised one of ours."""
        call = self.rng.choice(
            (self.language, self.language, self.primitive, self.primitive, self.primitive,
             self.lowering, self.around)
        )  # fmt: skip
        try:
            call()
        except WhetError as error:
            text = str(error)
            assert text.strip(), f"an empty {type(error).__name__}"
            return error
        return None

    def do(self, what, function, /, *args, **options):
        self.log.append(f"{what}({', '.join(_short(a) for a in args)} {_short(options)})")
        return function(*args, **options)

    # the language

    def language(self):
        r = self.rng
        size = lambda: r.choice([1, 3, 8, self.vars[1]])  # noqa: E731
        shape = lambda: tuple(self.maybe(size) for _ in range(r.choice([0, 1, 2, 2])))  # noqa: E731
        kind = r.choice(
            ("placeholder", "compute", "reduce", "axis", "thread", "index", "math", "reducer",
             "extern", "var", "scan", "gradient", "hybrid", "intrin", "blocks")
        )  # fmt: skip
        if kind == "placeholder":
            dtype = self.maybe(lambda: r.choice(["float32", "int32", "bool", "float16", "uint8"]))
            name = self.maybe(lambda: "T")
            self.tensors.append(
                self.do(kind, te.placeholder, self.maybe(shape), dtype=dtype, name=name)
            )
        elif kind == "compute":
            self._compute(self.maybe(shape))
        elif kind == "reduce":
            a, axis = self.tensor(), self.maybe(lambda: self.axes[0])
            f = r.choice([te.sum, te.max, te.min])
            where = r.choice([None, self.odd()])
            where = where if r.random() < 0.3 else None

            def body(*i):
                inside = (*i, axis)[: a.ndim] if r.random() < 0.8 else i
                return f(a(*inside), axis=axis, where=where)

            self._made(self.do("compute sum", te.compute, self.maybe(shape), body, name="R"))
        elif kind == "axis":
            dom = self.maybe(lambda: (0, r.choice([1, 4, 6])))
            self.axes.append(self.do("reduce_axis", te.reduce_axis, dom, name="k"))
        elif kind == "thread":
            tag = lambda: r.choice(["threadIdx.y", "blockIdx.x", "vthread"])  # noqa: E731
            self.axes.append(self.do("thread_axis", te.thread_axis, self.maybe(tag)))
        elif kind == "index":
            self.do("index", lambda t, i: t[i], self.tensor(), self.odd())
        elif kind == "math":
            name = r.choice(["exp", "floor", "power", "fmod", "popcount", "if_then_else", "all"])
            count = {"power": 2, "fmod": 2, "if_then_else": 3, "all": 2}.get(name, 1)
            self.do(name, getattr(te, name), *[self.odd() for _ in range(count)])
        elif kind == "reducer":
            identity = r.choice([lambda t: te.const(0, t), lambda *t: self.odd()])
            combine = r.choice([lambda x, y: x + y, lambda x, y: self.odd()])
            made = self.do(kind, te.comm_reducer, self.maybe(lambda: combine), identity)
            self.do("reducer()", made, self.odd(), axis=self.odd())
        elif kind == "extern":
            inputs = self.maybe(lambda: [self.tensor()])
            body = self.maybe(lambda: lambda ins, outs: self.odd())
            self._made(self.do(kind, te.extern, self.maybe(shape), inputs, body, name="E"))
        elif kind == "var":
            name, dtype = self.maybe(lambda: "x"), self.maybe(lambda: "int32")
            self.do(kind, r.choice([te.var, te.size_var]), name, dtype)
        else:
            self._other(kind)

    def _other(self, kind):
        """Recurrences, gradients, scripts, intrinsics and functions of blocks."""
        r = self.rng
        if kind == "scan":
            given = [self.maybe(self.tensor) for _ in range(3)]
            many = [self.maybe(lambda t=t: [t]) if r.random() < 0.3 else t for t in given]
            self._made(self.do(kind, te.scan, *many, name="S"))
        elif kind == "gradient":
            inputs = self.maybe(lambda: [self.tensor()])
            head = self.maybe(lambda: None)
            for t in self.do(kind, te.gradient, self.maybe(self.tensor), inputs, head) or ():
                self.tensors.append(t)
        elif kind == "hybrid":
            script = self.maybe(lambda: r.choice((_doubled, _wrong)))
            made = self.do("hybrid.script", te.hybrid.script, script)
            # without a tensor it runs as Python, whose own errors are right
            more = [self.maybe(self.tensor)] if r.random() < 0.3 else []
            self._made(self.do(kind, made, self.tensor(), *more))
        elif kind == "intrin":
            function = self.maybe(lambda: lambda ins, outs: self.odd())
            op = self.maybe(lambda: self.tensor().op)
            self.intrins.append(self.do(kind, te.decl_tensor_intrin, op, function))
        elif kind == "blocks":
            self._blocks(self.maybe(lambda: [self.tensor(), self.tensor()]))

    def _blocks(self, args):
        """A function of blocks, and a primitive on it."""
        r = self.rng
        func = self.do("create_prim_func", te.create_prim_func, args)
        s = self.do("tir.Schedule", tir.Schedule, self.maybe(lambda: func))
        block = self.do("get_block", s.get_block, self.maybe(lambda: self.tensor().name))
        loops = self.do("get_loops", s.get_loops, self.maybe(lambda: block))
        loop = lambda: self.maybe(lambda: r.choice(loops) if loops else block)  # noqa: E731
        calls = {
            "split": lambda: s.split(loop(), self.maybe(lambda: [None, r.choice([1, 2, 3])])),
            "fuse": lambda: s.fuse(loop(), loop()),
            "reorder": lambda: s.reorder(loop(), loop()),
            "vectorize": lambda: s.vectorize(loop()),
            "bind": lambda: s.bind(loop(), self.maybe(lambda: "threadIdx.x")),
            "compute_at": lambda: s.compute_at(self.maybe(lambda: block), loop()),
            "reverse_compute_at": lambda: s.reverse_compute_at(self.maybe(lambda: block), loop()),
            "compute_inline": lambda: s.compute_inline(self.maybe(lambda: block)),
            "cache_read": lambda: s.cache_read(
                self.maybe(lambda: block), self.maybe(lambda: 0), self.maybe(lambda: "local")
            ),
            "cache_write": lambda: s.cache_write(
                self.maybe(lambda: block), self.maybe(lambda: 0), self.maybe(lambda: "local")
            ),
            "rfactor": lambda: s.rfactor(loop(), self.maybe(lambda: 0)),
            "decompose_reduction": lambda: s.decompose_reduction(self.maybe(lambda: block), loop()),
            "transform_layout": lambda: s.transform_layout(
                self.maybe(lambda: block), self.maybe(lambda: ("write", 0)), self._map()
            ),
            "sample_perfect_tile": lambda: s.sample_perfect_tile(loop(), self.maybe(lambda: 2)),
        }
        name = r.choice([*calls])
        self.do(f"blocks.{name}", calls[name])
        self.modules.append(self.do("lower blocks", driver.lower, s.mod))

    def _map(self):
        r = self.rng
        maps = (
            lambda *i: i[::-1],
            lambda *i: [*i[:-1], i[-1] // 2, i[-1] % 2],
            lambda *i: [te.AXIS_SEPARATOR, *i],
            lambda *i: [*i, self.odd()],
            lambda *i: self.odd(),
        )
        return self.maybe(lambda: r.choice(maps))

    def _made(self, result):
        for t in result if isinstance(result, (list, tuple)) else [result]:
            self.tensors.append(t)
            self.axes += [*t.op.axis, *t.op.reduce_axis]

    def _compute(self, shape):
        r, a, b = self.rng, self.tensor(), self.tensor()

        def body(*i):
            x = a(*[self.rng.choice([*i, 0, self.axis()]) for _ in range(a.ndim)]) if i else 1.0
            if r.random() < 0.3 and i:
                return x * b(*[r.choice(i) for _ in range(b.ndim)])
            return x if r.random() < 0.8 else self.odd()

        function = self.maybe(lambda: body)
        self._made(self.do("compute", te.compute, shape, function, name=r.choice(["C", "D"])))

    # schedules

    def primitive(self):
        r, s = self.rng, self.schedule()
        stage = self.do("s[...]", lambda k: s[k], self.maybe(lambda: r.choice(s.stages).op))
        leaf = lambda: r.choice(stage.leaf_iter_vars or self.axes)  # noqa: E731
        axis = lambda: self.maybe(leaf)  # noqa: E731
        size = lambda: self.maybe(lambda: r.choice([1, 2, 3, 8]))  # noqa: E731
        parent = lambda: self.maybe(lambda: r.choice(s.stages))  # noqa: E731
        scope = lambda: self.maybe(lambda: r.choice(["local", "shared", "global"]))  # noqa: E731
        calls = {
            "split": lambda: stage.split(axis(), size()),
            "nparts": lambda: stage.split(axis(), nparts=size()),
            "fuse": lambda: stage.fuse(*[axis() for _ in range(r.choice([0, 1, 2, 2, 3]))]),
            "reorder": lambda: stage.reorder(*[axis() for _ in range(r.choice([0, 1, 2, 3]))]),
            "tile": lambda: stage.tile(axis(), axis(), size(), size()),
            "vectorize": lambda: stage.vectorize(axis()),
            "unroll": lambda: stage.unroll(axis()),
            "parallel": lambda: stage.parallel(axis(), self.maybe(lambda: None)),
            "bind": lambda: stage.bind(axis(), self.maybe(self.axis)),
            "pragma": lambda: stage.pragma(axis(), self.maybe(lambda: "hint"), self.odd()),
            "tensorize": lambda: stage.tensorize(
                axis(), self.maybe(lambda: r.choice(self.intrins) if self.intrins else None)
            ),
            "prefetch": lambda: stage.prefetch(self.maybe(self.tensor), axis(), size()),
            "compute_at": lambda: stage.compute_at(parent(), self.maybe(self.axis)),
            "compute_inline": stage.compute_inline,
            "compute_root": stage.compute_root,
            "compute_ahead": stage.compute_ahead,
            "set_scope": lambda: stage.set_scope(scope()),
            "storage_align": lambda: stage.storage_align(axis(), size(), size()),
            "set_store_predicate": lambda: stage.set_store_predicate(self.odd()),
            "env_threads": lambda: stage.env_threads(self.odd()),
            "double_buffer": stage.double_buffer,
            "store_nontemporal": stage.store_nontemporal,
            "cache_write": lambda: s.cache_write(self.maybe(self.tensor), scope()),
            "cache_read": lambda: s.cache_read(
                self.maybe(self.tensor), scope(), self.maybe(lambda: [self.tensor()])
            ),
            "rfactor": lambda: s.rfactor(self.maybe(self.tensor), axis(), self.odd()),
            "transform_layout": lambda: stage.transform_layout(self._map()),
            "rolling_buffer": stage.rolling_buffer,
            "create_group": lambda: s.create_group(
                self.maybe(self.tensor),
                self.maybe(lambda: [self.tensor()]),
                self.maybe(lambda: r.choice([False, True])),
            ),
            "create_schedule": lambda: te.create_schedule(self.odd()),
        }
        name = r.choice(["split", *calls])
        self.do(f"{stage.op.name}.{name}", calls[name])

    # lowering

    def lowering(self):
        r = self.rng
        inputs = self.maybe(self.schedule)
        right = lambda: [*self.tensors[:2], self.tensor()]  # noqa: E731
        args = self.maybe(right if r.random() < 0.5 else lambda: self._arguments(inputs))
        function = r.choice((driver.lower, driver.lower, driver.build))
        self.modules.append(self.do(function.__name__, function, inputs, args))

    def _arguments(self, s):
        """All that a schedule reads from and writes to outside."""
        if not isinstance(s, te.Schedule):
            return self.odd()
        inputs = [x.op for x in s.stages if isinstance(x.op, te.PlaceholderOp)]
        made = [x.op for x in s.stages if x.is_output and x.op not in inputs]
        return [op.output(k) for op in (*inputs, *made) for k in range(op.num_outputs)]

    def around(self):
        """Mistakes around a program: targets, contexts, buffers, hand-made loops."""
        r = self.rng
        calls = (
            lambda: Target(self.odd()),
            lambda: PassContext(config=self.odd()),
            lambda: PassContext(disabled_pass=self.odd()),
            lambda: tir.decl_buffer(self.odd(), self.maybe(lambda: "float32")),
            lambda: tir.const(self.odd(), self.maybe(lambda: "int8")),
            lambda: driver.build(r.choice([*self.modules, self.odd()]), target=self.odd()),
            lambda: driver.lower(r.choice([*self.modules, self.odd()])),
            lambda: self.tensor().op.output(self.odd()),
            lambda: self.vars[0] + self.odd(),
            lambda: self.vars[2] // self.odd(),
        )
        self.do("around", r.choice(calls))


def _short(x):
    try:
        text = repr(x)
    except Exception as error:
        text = f"<{type(x).__name__}: no repr, {error}>"
    return text if len(text) < 60 else text[:57] + "..."
