"""Hybrid scripts as stages of random computations, each with a twin of te.compute for the oracle.

A loop is *free* where its steps may run in any order: others may be split and unrolled only.
"""

from itertools import pairwise

from whet.compiler import te

script = te.hybrid.script


@script
def chosen(a):
    c = output_tensor(a.shape, a.dtype)
    for i in range(a.shape[0]):
        for j in range(a.shape[1]):
            t = a[i, j] * 2
            if j >= i:
                c[i, j] = t + a[i, j]
            else:
                c[i, j] = t
    return c


@script
def running(a):
    c = output_tensor(a.shape, a.dtype)
    for i in range(a.shape[0]):
        c[i, 0] = a[i, 0]
        for k in range(1, a.shape[1]):
            c[i, k] = c[i, k - 1] + a[i, k]
    return c


@script
def largest(a):
    c = output_tensor((a.shape[1],), a.dtype)
    d = output_tensor((a.shape[1], a.shape[0]), a.dtype)
    for i in range(a.shape[1]):
        c[i] = a[0, i]
        for k in range(1, a.shape[0]):
            c[i] = max(c[i], a[k, i])
    for m in range(a.shape[1]):
        for n in range(a.shape[0]):
            d[m, n] = a[n, m] - c[m]
    return c, d


@script
def product(a, b):
    c = output_tensor((a.shape[0], b.shape[1]), a.dtype)
    for i in range(a.shape[0]):
        for j in range(b.shape[1]):
            c[i, j] = a[i, 0] * b[0, j]
            for k in range(1, a.shape[1]):
                if i != k:
                    c[i, j] += a[i, k] * b[k, j]
    return c


def _chosen(name, a):
    def element(i, j):
        return te.if_then_else(j >= i, a[i, j] * 2 + a[i, j], a[i, j] * 2)

    return (te.compute(a.shape, element, name=name),)


def _running(name, a):
    k = te.reduce_axis((0, a.shape[1]), name="k")
    return (te.compute(a.shape, lambda i, j: te.sum(a[i, k], axis=k, where=k.var <= j), name=name),)


def _largest(name, a):
    n, m = a.shape
    k = te.reduce_axis((0, n), name="k")
    most = te.compute((m,), lambda i: te.max(a[k, i], axis=k), name=name)
    return most, te.compute((m, n), lambda i, j: a[j, i] - most[i], name=f"{name}_d")


def _product(name, a, b):
    k = te.reduce_axis((0, a.shape[1]), name="k")

    def element(i, j):
        where = te.any(k.var.equal(0), k.var != i)
        return te.sum(a[i, k] * b[k, j], axis=k, where=where)

    return (te.compute((a.shape[0], b.shape[1]), element, name=name),)


#: script, its twin, how many matrices it takes
SCRIPTS = (
    (chosen, _chosen, 1),
    (running, _running, 1),
    (largest, _largest, 1),
    (product, _product, 2),
)
FREE = {"i", "j", "m", "n"}
"""The loops whose steps may run in any order, by their names in all scripts."""


def scripts_of(s):
    """The stages of a schedule that are scripts."""
    return [x for x in s.stages if isinstance(x.op, te.HybridOp)]


def _free(stage):
    """The loops of a script whose steps may run in any order, by the names of their parts."""

    def names(leaf):
        return set(leaf.var.name.split("_")) - {"outer", "inner", "fused"}

    return [a for a in stage.leaf_iter_vars if names(a) <= FREE]


def changed_script(made, stage):
    """Try one primitive on a script; true if there was one to try.

    Args:
        made: the random schedule. stage: of the script.
    """
    leaves, free = stage.leaf_iter_vars, _free(stage)
    kind = made._choose(("split", "fuse", "reorder", "annotate", "attach", "host", "root"))
    if kind == "split" and len(leaves) < 8:
        stage.split(made._choose(leaves), **{made._choose(("factor", "nparts")): made.pick(1, 7)})
    elif kind == "fuse" and len(free) > 1:
        stage.fuse(*made._choose(list(pairwise(free))))
    elif kind == "reorder" and len(free) > 1:
        stage.reorder(*reversed(made._choose(list(pairwise(free)))))
    elif kind == "annotate" and free:
        how = made._choose(("vectorize", "unroll", "parallel"))
        small = [a for a in made._small(stage, 64) if a in set(free)]
        if not small:
            return False
        getattr(stage, how)(made._choose(small))
    elif kind == "attach" and not stage.is_output:
        parents = [p for p in made._loops() if made.s.feeds(stage, p)]
        if not parents:
            return False
        parent = made._choose(parents)
        stage.compute_at(parent, made._choose(parent.leaf_iter_vars))
    elif kind == "host":
        movable = [x for x in made._computed() if not x.is_output and made.s.feeds(x, stage)]
        if not movable:
            return False
        made._choose(movable).compute_at(stage, made._choose(leaves))
    elif kind == "root" and not stage.is_output:
        stage.compute_root()
    else:
        return False
    return True
