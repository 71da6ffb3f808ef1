"""A random instruction for a tile of a stage: its computation, written in another way."""

from whet.compiler import te, tir
from whet.compiler.te.bounds.extents import leaf_extents
from whet.compiler.te.bounds.threads import scope_of
from whet.compiler.te.lang.relations import ROOT, Split
from whet.compiler.tir.expr import Add, Mul, ProducerLoad, Reduce, Var
from whet.compiler.tir.visit.rewrite import Rewriter, changed, nodes, substitute, variables

#: steps of a tile
LARGEST = 64


def tensorized(stage, pick):
    """Tensorize some innermost loops of a stage; False where its form is not one that is drawn."""
    tile = _tile(stage, pick)
    if tile is None:
        return False
    first, extents = tile
    made = _instruction(stage, extents, pick)
    if made is None:
        return False
    stage.tensorize(stage.leaf_iter_vars[first], made)
    return True


def _tile(stage, pick):
    """The place of the first loop of a tile, and the extents of the axes in it; None for none."""
    if stage.attach_type != ROOT or stage.tensorized is not None or len(stage.op.body) > 1:
        return None
    known, leaves = leaf_extents(stage), stage.leaf_iter_vars
    taken = {x.attach_ivar for x in stage.schedule.stages if x.attach_stage is stage}
    fits, extents, steps = [], {}, 1
    for k in reversed(range(len(leaves))):
        leaf = leaves[k]
        axis = _axis(stage, leaf)
        plain = leaf not in stage.iter_var_attrs and leaf not in taken
        if axis is None or axis in extents or not plain or not known[leaf].isdigit():
            break
        extents[axis] = int(known[leaf])
        steps *= extents[axis]
        if steps > LARGEST or steps == 0:
            break
        fits.append((k, dict(extents)))
    return fits[pick(0, len(fits) - 1)] if fits else None


def _axis(stage, leaf):
    """The axis that a loop is, or the inner part of; None for another loop."""
    if any(leaf is a for a in (*stage.op.axis, *stage.op.reduce_axis)):
        return leaf
    of = [r for r in stage.relations if any(leaf is m for m in r.members)]
    if len(of) != 1 or not isinstance(of[0], Split) or of[0].inner is not leaf or of[0].shifts:
        return None
    own = any(of[0].parent is a for a in (*stage.op.axis, *stage.op.reduce_axis))
    return of[0].parent if own else None


def _instruction(stage, extents, pick):
    """An instruction that computes what the stage does on a tile."""
    op = stage.op
    body = op.body[0]
    inner = {a.var: te.reduce_axis((0, n)) if a.iter_type == 2 else None
             for a, n in extents.items()}  # fmt: skip
    loads = [n for n in nodes((body,)) if isinstance(n, ProducerLoad)]
    if not _plain(stage, body, loads, set(inner)):
        return None
    reduced = [a for a in op.reduce_axis if a in extents]
    if op.reduce_axis and not reduced:
        one = te.reduce_axis((0, 1), name="one")
    data = [a for a in op.axis if a in extents] or [None]
    shape = tuple(1 if a is None else extents[a] for a in data)
    axes = [te.reduce_axis((0, extents[a]), name=f"r{k}") for k, a in enumerate(reduced)]
    axes = axes or ([one] if op.reduce_axis else [])

    def compute(*at):
        values = {a.var: v for a, v in zip(data, at) if a is not None}
        values.update({a.var: v.var for a, v in zip(reduced, axes)})
        known = {}

        def load(n):
            if id(n) not in known:
                index = [i for i in n.indices if variables(i) & set(inner)]
                sizes = [extents[a] for i in index for a in extents if a.var is i] or [1]
                t = te.placeholder(sizes, n.dtype, name=f"in{len(known)}")
                known[id(n)] = t(*[substitute(i, values) for i in index] or [0])
            return known[id(n)]

        def turned(n):
            n = rewrite.children(n)
            return type(n)(n.b, n.a, n.dtype) if pick(0, 1) else n

        rewrite = Rewriter({ProducerLoad: load, Add: turned, Mul: turned})
        if not isinstance(body, Reduce):
            return rewrite(body)
        source = tuple(rewrite(x) for x in body.source)
        return changed(body, source=source, axis=tuple(axes), init=())

    out = te.compute(shape, compute, name="tile")
    tensors = [*out.op.input_tensors, out]
    binds = {
        t: tir.decl_buffer(
            t.shape, t.dtype, t.name, strides=[te.var() for _ in t.shape], offset_factor=1
        )
        for t in tensors
    }
    return te.decl_tensor_intrin(out.op, lambda i, o: _statements(out.op, i, o), "tile", binds)


def _plain(stage, body, loads, inner):
    """True for a computation that can be written down as an instruction of its own."""
    stages = [stage, *[stage.schedule.stage_map[n.producer.op] for n in loads]]
    if any(scope_of(x) != "global" or x.attach_type == 2 for x in stages):
        return False
    indices = {id(i) for n in loads for i in n.indices}
    for n in loads:
        for i in n.indices:
            if variables(i) & inner and not isinstance(i, Var):
                return False
        named = [i for i in n.indices if isinstance(i, Var) and i in inner]
        if len(set(named)) != len(named):
            return False
    axes = {a.var for a in (*stage.op.axis, *stage.op.reduce_axis)}
    parts = body.source if isinstance(body, Reduce) else (body,)
    if isinstance(body, Reduce) and (body.init or variables(body.condition)):
        return False

    def outside(n):
        """True if an axis is used but for an index."""
        if isinstance(n, ProducerLoad):
            return any(outside(i) for i in n.indices if id(i) not in indices)
        return (isinstance(n, Var) and n in axes) or any(map(outside, n.parts))

    known = {v for x in parts for v in variables(x)} <= axes
    return known and bool(loads) and not any(map(outside, parts))


def _statements(op, ins, outs):
    """What the instruction does: the body, the first values, one step."""
    buffers, (out,) = dict(zip(op.input_tensors, ins)), outs
    body, at = op.body[0], [a.var for a in op.axis]
    read = Rewriter({ProducerLoad: lambda n: buffers[n.producer].vload(list(n.indices))})

    def loops(made, axes):
        for a in reversed(axes):
            made = tir.For(a.var, 0, a.dom.extent, tir.ForKind.SERIAL, made)
        return made

    if not isinstance(body, Reduce):
        return loops(out.vstore(at, read(body)), op.axis)
    c = body.combiner
    values = {c.lhs[0]: out.vload(at), c.rhs[0]: read(body.source[0])}
    first = loops(out.vstore(at, c.identity[0]), op.axis)
    step = loops(out.vstore(at, substitute(c.result[0], values)), (*op.axis, *op.reduce_axis))
    return tir.SeqStmt([first, step]), first, step
