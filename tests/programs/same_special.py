"""Programs by hand in the corpus: what entries check, what callers give, what is computed ahead."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from same_entry import ARM, CUDA, LLVM, C, Entry, Texts, data, module_text, program

Made = tuple[Any, list[Any], dict[str, Any]]


def symbolic_sum(n_type: str = "int32", lanes: int = 8) -> Made:
    """A size that the arrays give, vectors and threads."""
    from whet import te

    n = te.var("n", n_type)
    a, b = te.placeholder((n,), name="A"), te.placeholder((n,), name="B")
    c = te.compute((n,), lambda i: a[i] + b[i] * 2.0, name="C")
    s = te.create_schedule(c.op)
    outer, inner = s[c].split(c.op.axis[0], factor=lanes)
    s[c].vectorize(inner)
    s[c].parallel(outer)
    return s, [a, b, c], {"name": "symbolic_sum"}


def symbolic_product() -> Made:
    """Three sizes, one of which is an argument, too."""
    from whet import te

    n, m, k = te.size_var("n"), te.size_var("m"), te.var("k", "int64")
    a, b = te.placeholder((n, k), name="A"), te.placeholder((k, m), name="B")
    r = te.reduce_axis((0, k), name="r")
    c = te.compute((n, m), lambda i, j: te.sum(a[i, r] * b[r, j], axis=r), name="C")
    s = te.create_schedule(c.op)
    io, jo, ii, ji = s[c].tile(*c.op.axis, 4, 8)
    s[c].reorder(io, jo, r, ii, ji)
    s[c].vectorize(ji)
    s[c].unroll(ii)
    return s, [k, a, b, c], {"name": "symbolic_product"}


def strided(fixed: bool) -> Made:
    """Strides of the caller's, or ones that follow from a size, and an offset."""
    from whet import te, tir

    n = te.var("n")
    a = te.placeholder((n, 4), name="A")
    b = te.compute((n, 4), lambda i, j: a[i, j] + 1.0, name="B")
    strides = [n * 2, 1] if fixed else [te.var("s0"), te.var("s1")]
    held = tir.decl_buffer((n, 4), "float32", "A_buffer", strides=strides)
    return te.create_schedule(b.op), [a, b], {"binds": {a: held}, "name": "steps"}


def ahead() -> Made:
    """Weights that are turned ahead of the calls."""
    from whet import te

    w, x = te.placeholder((40, 24), name="W"), te.placeholder((40,), name="X")
    p = te.compute((24, 40), lambda j, i: w[i, j], name="P")
    k = te.reduce_axis((0, 40), name="k")
    y = te.compute((24,), lambda j: te.sum(p[j, k] * x[k], axis=k), name="Y")
    s = te.create_schedule(y.op)
    s[p].compute_ahead()
    return s, [w, x, y], {"name": "product"}


def packed_call() -> Made:
    """A registered function between two stages."""
    from whet import te, tir

    a, b = te.placeholder((33, 17), name="A"), te.placeholder((17, 21), name="B")
    c = te.extern(
        (33, 21), [a, b],
        lambda i, o: tir.call_packed("tvm.contrib.cblas.matmul", i[0], i[1], o[0], False, False),
        name="C",
    )  # fmt: skip
    d = te.compute((33, 21), lambda i, j: c[i, j] + 1.0, name="D")
    return te.create_schedule(d.op), [a, b, d], {"name": "with_packed"}


def scalars() -> Made:
    """Arguments of every kind, numbers among them, given to a function."""
    from whet import te, tir

    k, x, y = te.var("k", "int32"), te.var("x", "float16"), te.var("y", "bfloat16")
    a = te.placeholder((2, 3), "int8", name="A")
    out = te.extern(
        (4,), [a],
        lambda i, o: tir.call_packed(
            "test.see", i[0], k + 1, x, y, tir.const(True), "text", -2.5, o[0]
        ),
        dtype="uint16",
    )  # fmt: skip
    return te.create_schedule(out.op), [a, k, x, y, out], {"name": "scalars"}


def by_hand() -> Made:
    """Loop IR by hand, with the numbers that functions return."""
    from whet import te, tir

    def body(ins: Any, outs: Any) -> Any:
        ib = tir.ir_builder.create()
        o = ib.buffer_ptr(outs[0])
        with ib.for_range(0, 5, name="i") as i:
            twice = tir.call_packed("test.twice", i)
            o[i] = tir.Cast("float32", twice) + 1.0
        return ib.get()

    out = te.extern((5,), [], body, dtype="float32", name="E")
    return te.create_schedule(out.op), [out], {"name": "by_hand"}


def workspace() -> Made:
    """A large intermediate, and one that is attached to a loop of threads."""
    from whet import te

    a = te.placeholder((300, 200), name="A")
    b = te.compute((300, 200), lambda i, j: te.exp(a[i, j]), name="B")
    c = te.compute((299, 200), lambda i, j: b[i, j] + b[i + 1, j], name="C")
    k = te.reduce_axis((0, 200), name="k")
    d = te.compute((299,), lambda i: te.sum(c[i, k], axis=k), name="D")
    s = te.create_schedule(d.op)
    outer, _ = s[d].split(d.op.axis[0], factor=16)
    s[d].parallel(outer)
    s[c].compute_at(s[d], outer)
    return s, [a, d], {"name": "workspace"}


def two_results() -> Made:
    """A reduction of pairs, whose parts are factored out."""
    from whet import te

    a = te.placeholder((9, 130), name="A")
    k = te.reduce_axis((0, 130), name="k")
    largest = te.comm_reducer(
        lambda x, y: (
            te.select(x[1] >= y[1], x[0], y[0]), te.select(x[1] >= y[1], x[1], y[1])
        ),
        lambda i, v: (te.const(-1, i), te.min_value(v)),
        name="largest",
    )  # fmt: skip
    index, value = te.compute((9,), lambda i: largest((k, a[i, k]), axis=k), name="T")
    return te.create_schedule(index.op), [a, index, value], {"name": "largest"}


def _applied(te: Any, x: Any, name: str, function: Callable[[Any], Any]) -> Any:
    """A function of each element."""
    return te.compute(x.shape, lambda *i: function(x(*i)), name=name)


def functions(dtype: str) -> Made:
    """Mathematical functions, in vectors."""
    from whet import te

    x = te.placeholder((4, 64), dtype, name="x")
    names = ("exp", "log", "tanh", "sqrt", "sigmoid", "sin", "cos", "floor", "erf", "rsqrt")
    parts = [_applied(te, x, n, getattr(te, n)) for n in names]
    s = te.create_schedule([p.op for p in parts])
    for p in parts:
        s[p].vectorize(s[p].split(p.op.axis[1], factor=8)[1])
    return s, [x, *parts], {"name": "functions"}


def conversions(target_type: str) -> Made:
    """Elements of all types as those of one."""
    from whet import te

    types = (
        "int8",
        "uint8",
        "int16",
        "int32",
        "int64",
        "float16",
        "bfloat16",
        "float32",
        "float64",
    )
    inputs = [te.placeholder((33,), t, name=f"x_{t}") for t in types]
    outs = [_applied(te, x, f"y_{x.dtype}", lambda e: (e + e).astype(target_type)) for x in inputs]
    s = te.create_schedule([t.op for t in outs])
    for t in outs:
        s[t].vectorize(s[t].split(t.op.axis[0], factor=4)[1])
    return s, [*inputs, *outs], {"name": "conversions"}


def empty() -> Made:
    """No elements, and a sum of none."""
    from whet import te

    a = te.placeholder((3, 0), name="A")
    k = te.reduce_axis((0, 0), name="k")
    b = te.compute((3,), lambda i: te.sum(a[i, k], axis=k), name="B")
    return te.create_schedule(b.op), [a, b], {"name": "nothing"}


def shared_product(dtype: str = "float32") -> Made:
    """A product for a GPU: shared memory, two buffers, registers."""
    from whet import te

    a, b = te.placeholder((70, 64), dtype, name="A"), te.placeholder((64, 90), dtype, name="B")
    k = te.reduce_axis((0, 64), name="k")
    c = te.compute((70, 90), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    s = te.create_schedule(c.op)
    local = s.cache_write(c, "local")
    copies = [s.cache_read(t, "shared", [local]) for t in (a, b)]
    by, bx, ii, ji = s[c].tile(*s[c].op.axis, 16, 32)
    ty, ii = s[c].split(ii, nparts=8)
    tx, ji = s[c].split(ji, nparts=8)
    s[c].reorder(by, bx, ty, tx, ii, ji)
    for loop, tag in ((by, "blockIdx.y"), (bx, "blockIdx.x")):
        s[c].bind(loop, te.thread_axis(tag))
    s[c].bind(ty, te.thread_axis((0, 8), "threadIdx.y"))
    s[c].bind(tx, te.thread_axis((0, 8), "threadIdx.x"))
    s[local].compute_at(s[c], tx)
    ko, _ = s[local].split(s[local].op.reduce_axis[0], factor=8)
    s[local].reorder(ko, *[x for x in s[local].leaf_iter_vars if x is not ko])
    for copy in copies:
        s[copy].compute_at(s[local], ko)
        fused = s[copy].fuse(*s[copy].op.axis)
        _, inner = s[copy].split(fused, factor=64)
        y, x = s[copy].split(inner, factor=8)
        s[copy].bind(y, te.thread_axis((0, 8), "threadIdx.y"))
        s[copy].bind(x, te.thread_axis((0, 8), "threadIdx.x"))
        s[copy].double_buffer()
    return s, [a, b, c], {"name": "shared_product"}


def threads_sum(n: int) -> Made:
    """A sum across the threads of a block, and an unknown number of rows."""
    from whet import te

    rows = te.size_var("rows")
    a = te.placeholder((rows, n), name="A")
    k = te.reduce_axis((0, n), name="k")
    b = te.compute((rows,), lambda i: te.sum(a[i, k], axis=k), name="B")
    s = te.create_schedule(b.op)
    _, inner = s[b].split(b.op.reduce_axis[0], factor=min(n, 64))
    s[b].bind(inner, te.thread_axis("threadIdx.x"))
    s[b].bind(b.op.axis[0], te.thread_axis("blockIdx.x"))
    return s, [a, b], {"name": "threads_sum"}


CPUS = (LLVM["v2"], LLVM["v3"], LLVM["v4"], ARM, C)
GPUS = tuple(CUDA.values())
CASES: dict[str, tuple[Callable[[], Made], tuple[str, ...]]] = {
    "symbolic sum": (symbolic_sum, CPUS),
    "symbolic sum of int64": (partial(symbolic_sum, "int64", 4), CPUS),
    "symbolic product": (symbolic_product, CPUS),
    "strides": (partial(strided, False), CPUS),
    "strides of a size": (partial(strided, True), CPUS),
    "ahead": (ahead, CPUS),
    "packed call": (packed_call, (LLVM["v3"], C)),
    "scalars": (scalars, (LLVM["v3"], C)),
    "by hand": (by_hand, (LLVM["v3"], C)),
    "workspace": (workspace, CPUS),
    "two results": (two_results, CPUS),
    "empty": (empty, CPUS),
    **{f"functions {t}": (partial(functions, t), CPUS) for t in ("float32", "float64", "float16")},
    **{
        f"conversions to {t}": (partial(conversions, t), (LLVM["v3"], LLVM["v4"], C))
        for t in ("int8", "int64", "uint8", "float16", "bfloat16", "float32", "float64", "bool")
    },
    "shared product": (shared_product, GPUS),
    "shared product of halves": (partial(shared_product, "float16"), GPUS),
    **{f"threads sum {n}": (partial(threads_sum, n), GPUS) for n in (16, 32, 100, 1000)},
}


def texts(name: str) -> Texts:
    """A case's trace, and its programs."""
    make, targets = CASES[name]
    for target in targets:
        schedule, args, options = make()
        if target == targets[0]:
            yield "trace", str(schedule.trace)
        yield from program(schedule, args, target, **options)


def modules() -> Texts:
    """Several functions in one module; code of a GPU and its host's; debugging's options."""
    import whet

    lowered = []
    for make in (symbolic_sum, ahead, workspace):
        schedule, args, options = make()
        with whet.Target(LLVM["v3"]):
            lowered.append(whet.lower(schedule, args, **options))
    yield "llvm", module_text(whet.build(lowered, target=LLVM["v3"]), LLVM["v3"])
    schedule, args, options = shared_product()
    target = whet.Target(GPUS[0], host=LLVM["v4"])
    module = whet.build(schedule, args, target, name=options["name"])
    yield "host", module.get_source()
    yield "device", module.get_source("cuda")
    for option in ("tir.instrument_bound_checkers", "tir.disable_vectorize", "tir.disable_assert"):
        schedule, args, options = symbolic_product()
        with whet.transform.PassContext(config={option: True}), whet.Target(LLVM["v3"]):
            yield option, str(whet.lower(schedule, args, **options))
            yield (
                f"{option} llvm",
                module_text(
                    whet.build(schedule, args, LLVM["v3"], name=options["name"]), LLVM["v3"]
                ),
            )


def public() -> Texts:
    """The public names with their parameters."""
    import inspect

    import whet

    spaces = ("te", "tir", "topi", "autotvm", "runtime", "transform", "instrument", "arith", "nd")
    rooms = ("autotune", "db", "measure", "search_spaces", "target", "ir", "driver", "testing")
    for space in ("", *spaces, *rooms):
        module = getattr(whet, space) if space else whet
        names = {}
        for name in sorted(getattr(module, "__all__", None) or dir(module)):
            if not name.startswith("_") and not inspect.ismodule(getattr(module, name, None)):
                try:
                    parameters = inspect.signature(getattr(module, name)).parameters.values()
                    names[name] = [f"{p.kind.name} {p.name}" for p in parameters]
                except (TypeError, ValueError, AttributeError):
                    names[name] = ["?"]
        yield f"whet.{space}".rstrip("."), data(names)


def entries() -> Iterator[Entry]:
    """All cases."""
    for k, name in enumerate(CASES):
        yield Entry(f"special/{name}", partial(texts, name))
        if k % 3 == 0:
            yield Entry(f"quick special/{name}", partial(texts, name), quick=True)
    yield Entry("modules", modules)
    yield Entry("public", public)
    yield Entry("quick public", public, quick=True)
