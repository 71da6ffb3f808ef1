"""Random legal schedules of a random computation: up to twelve primitives of every kind."""

import warnings
from itertools import pairwise

from random_scripts import changed_script, scripts_of
from random_tensorize import tensorized

from whet.compiler import te
from whet.compiler.errors import LowerError, ScheduleError
from whet.compiler.te.bounds.extents import leaf_extents
from whet.compiler.te.bounds.infer_bound import Bounds
from whet.compiler.te.lang.relations import AT, INLINE, ROOT
from whet.compiler.te.primitives.groups import moved
from whet.compiler.te.primitives.transform_layout import layout_shape
from whet.compiler.tir.expr import ProducerLoad
from whet.compiler.tir.visit.rewrite import nodes_of

PRIMITIVES = 12
#: what a primitive may refuse although its arguments were picked with care
REFUSED = (
    *("depend on each other", "is bound to", "bound to", "already", "reads it in another way"),
    *("is outside of group", "would be in it in part", "is computed inside group", "no loop"),
    *("no stage is computed", "steps of a te.scan", "computed at the root", "reordered apart"),
    *("is kept in the memory of", "is attached at", "has no dimensions", "no longer a loop"),
    *("its statements say", "depends on the data axes", "no padded rows"),
    *("computed in its memory", "one after the other", "which reads whole tensors"),
    *("its loops are those of the update", "computes one at a time", "keeps all its steps"),
    *("do not stand directly inside each other", "must be neighbours"),
    *("those of a script",),
)
TAGS = ("blockIdx.x", "blockIdx.y", "threadIdx.x", "threadIdx.y", "vthread")


class RandomSchedule:
    """A schedule of a graph with up to ``limit`` primitives.

    Attributes:
        s: the schedule.
        args: what its caller passes: the inputs that are used, some intermediates, the outputs.
        applied: the primitives that were accepted, by name.
    """

    def __init__(self, graph, pick, limit=PRIMITIVES):
        self.pick = pick
        ops = []
        for t in graph.outputs:
            if t.op not in ops:
                ops.append(t.op)
        self.s = te.create_schedule(ops)
        self.applied = []
        for _ in range(pick(0, limit)):
            self._one()
        for _ in range(pick(0, 2)):  # when all loops are there
            self.tensorize()
        for _ in range(pick(0, 2)):  # last, since a loop prefetches what it itself reads
            self.prefetch()
        kept = self._kept()
        self.args = [*[t for t in graph.inputs if t.op in self.s.stage_map], *kept, *graph.outputs]

    def _choose(self, things):
        return things[self.pick(0, len(things) - 1)]

    def _computed(self):
        return [x for x in self.s.stages if isinstance(x.op, te.ComputeOp)]

    def _loops(self):
        """The stages whose loops can be changed."""
        return [x for x in self._computed() if x.attach_type != INLINE and x.leaf_iter_vars]

    def _one(self):
        """Try one primitive."""
        kinds = (self.split, self.split, self.fuse, self.reorder, self.tile, self.vectorize,
                 self.unroll, self.parallel, self.bind, self.pragma, self.compute_at,
                 self.compute_at, self.compute_inline, self.compute_root, self.cache_write,
                 self.cache_read, self.rfactor, self.set_scope, self.storage_align,
                 self.create_group, self.group_at, self.transform_layout,
                 self.rolling_buffer, *[self.script] * 3 * bool(scripts_of(self.s)))  # fmt: skip
        primitive = self._choose(kinds)
        try:
            if primitive():
                self.applied.append(primitive.__name__)
        except ScheduleError as error:
            assert any(why in str(error) for why in REFUSED), error

    def _stage(self):
        stages = self._loops()
        return self._choose(stages) if stages else None

    def _small(self, stage, most):
        """The loops of a known number of steps, at most ``most``."""
        known = leaf_extents(stage)
        fits = [a for a in stage.leaf_iter_vars if known.get(a, "?").isdigit()]
        return [a for a in fits if int(known[a]) <= most]

    # loops

    def split(self):
        stage = self._stage()
        if stage is None or len(stage.leaf_iter_vars) > 6:
            return False
        leaf, size = self._choose(stage.leaf_iter_vars), self.pick(1, 9)
        options = {"factor" if self.pick(0, 3) else "nparts": size}
        if not stage.op.reduce_axis and not self.pick(0, 3):
            options["tail"] = "shift"
        stage.split(leaf, **options)
        return True

    def fuse(self):
        stage = self._stage()
        leaves = stage.leaf_iter_vars if stage else []
        pairs = [(a, b) for a, b in pairwise(leaves) if a.iter_type == b.iter_type]
        if not pairs:
            return False
        stage.fuse(*self._choose(pairs))
        return True

    def reorder(self):
        stage = self._stage()
        if stage is None or len(stage.leaf_iter_vars) < 2:
            return False
        leaves = list(stage.leaf_iter_vars)
        some = [leaves.pop(self.pick(0, len(leaves) - 1)) for _ in range(self.pick(2, len(leaves)))]
        stage.reorder(*some)
        return True

    def tile(self):
        stage = self._stage()
        data = [a for a in stage.leaf_iter_vars if a.iter_type == 0] if stage else []
        if len(data) < 2 or len(stage.leaf_iter_vars) > 5:
            return False
        k = self.pick(0, len(data) - 2)
        stage.tile(data[k], data[k + 1], self.pick(1, 5), self.pick(1, 9))
        return True

    def _annotated(self, name, most):
        stage = self._stage()
        leaves = self._small(stage, most) if stage else []
        if not leaves:
            return False
        getattr(stage, name)(self._choose(leaves))
        return True

    def vectorize(self):
        return self._annotated("vectorize", 64)

    def unroll(self):
        return self._annotated("unroll", 32)

    def parallel(self):
        return self._annotated("parallel", 10**6)

    def bind(self):
        stage = self._stage()
        leaves = [a for a in stage.leaf_iter_vars if a.iter_type == 0] if stage else []
        if not leaves:
            return False
        stage.bind(self._choose(leaves), te.thread_axis(self._choose(TAGS)))
        return True

    def pragma(self):
        stage = self._stage()
        if stage is None:
            return False
        name, value = self._choose(
            (("auto_unroll_max_step", 8), ("unroll_explicit", True), ("a_hint", None))
        )
        stage.pragma(self._choose(stage.leaf_iter_vars), name, value)
        return True

    def prefetch(self):
        """Prefetch what a stage reads, at its outermost loop; not what depends on data."""
        fits = [
            (x, t)
            for x in self._loops()
            for t in x.op.input_tensors
            if self.s[t].attach_type == ROOT and not _gathers(x.op) and x.tensorized != 0
        ]
        if fits:
            stage, tensor = self._choose(fits)
            stage.prefetch(tensor, stage.leaf_iter_vars[0], self.pick(0, 5))
            self.applied.append("prefetch")

    def tensorize(self):
        """Let an instruction compute some innermost loops of a stage."""
        stage = self._stage()
        if stage is not None and tensorized(stage, self.pick):
            self.applied.append("tensorize")

    # scripts

    def script(self):
        """A primitive on a script's loops, or one that puts it, or what it reads, elsewhere."""
        return changed_script(self, self._choose(scripts_of(self.s)))

    # places

    def compute_at(self):
        movable = [x for x in self._computed() if not x.is_output]
        if not movable:
            return False
        stage = self._choose(movable)
        parents = [p for p in self._loops() if p is not stage and self.s.feeds(stage, p)]
        if not parents:
            return False
        parent = self._choose(parents)
        stage.compute_at(parent, self._choose(parent.leaf_iter_vars))
        if self.pick(0, 1) and self.rolling_buffer():
            self.applied.append("rolling_buffer")
        return True

    def compute_inline(self):
        fits = [
            x
            for x in self._computed()
            if not (x.is_output or x.op.reduce_axis or x.relations or x.attach_type == INLINE)
            and not any(y.attach_stage is x for y in self.s.stages)
        ]
        if not fits:
            return False
        self._choose(fits).compute_inline()
        return True

    def compute_root(self):
        fits = [x for x in self._computed() if not x.is_output]
        if not fits:
            return False
        self._choose(fits).compute_root()
        return True

    # new stages

    def cache_write(self):
        fits = [
            x
            for x in self._loops()
            if not x.relations and not any(y.attach_stage is x for y in self.s.stages)
        ]
        if not fits:
            return False
        stage = self._choose(fits)
        tensors = [stage.op.output(k) for k in range(stage.op.num_outputs)]
        scope = self._choose(("global", "local"))
        self.s.cache_write(tensors if len(tensors) > 1 else tensors[0], scope)
        return True

    def cache_read(self):
        read = [x for x in self.s.stages if self.s.consumers(x) and x.attach_type != INLINE]
        read = [x for x in read if not isinstance(x.op, te.ComputeOp) or x.leaf_iter_vars]
        if not read:
            return False
        stage = self._choose(read)
        reader = self._choose(self.s.consumers(stage))
        tensor = self._choose([t for t in reader.op.input_tensors if self.s[t] is stage])
        if reader.attach_type == INLINE:
            return False
        self.s.cache_read(tensor, self._choose(("global", "local", "shared")), [reader.op])
        return True

    def rfactor(self):
        fits = [
            (x, a)
            for x in self._loops()
            for a in x.leaf_iter_vars
            if a.iter_type == 2 and not any(y.attach_stage is x for y in self.s.stages)
        ]
        if not fits:
            return False
        stage, axis = self._choose(fits)
        self.s.rfactor(stage.op.output(0), axis, self.pick(0, len(stage.op.axis)))
        return True

    # memory

    def set_scope(self):
        fits = [x for x in self._loops() if not x.is_output]
        if not fits:
            return False
        self._choose(fits).set_scope(self._choose(("global", "local", "shared")))
        return True

    def storage_align(self):
        fits = [x for x in self._loops() if not x.is_output and x.op.axis]
        if not fits:
            return False
        stage = self._choose(fits)
        stage.storage_align(self._choose(stage.op.axis), self.pick(1, 8), self.pick(0, 7))
        return True

    # groups, layouts

    def create_group(self):
        read = [x for x in self._computed() if not x.is_output]
        if not read:
            return False
        last = self._choose(read)
        first = [x for x in self.s.stages if x is not last and self.s.feeds(x, last)]
        if not first:
            return False
        outputs, inputs = last.op.output(0), self._choose(first).op.output(0)
        with warnings.catch_warnings(action="ignore"):  # what is attached outside comes in
            self.s.create_group([outputs], [inputs], include_inputs=bool(self.pick(0, 1)))
        if self.pick(0, 3) and self.group_at():
            self.applied.append("group_at")
        return True

    def group_at(self):
        if not self.s.groups:
            return False
        group = self._choose(self.s.groups)
        parents = [p for p in self._loops() if any(self.s.feeds(x, p) for x in moved(group))]
        if not parents:
            return False
        parent = self._choose(parents)
        group.compute_at(parent, self._choose(parent.leaf_iter_vars))
        return True

    def transform_layout(self):
        fits = [x for x in self.s.stages if x.op.axis or isinstance(x.op, te.PlaceholderOp)]
        fits = [x for x in fits if not isinstance(x.op, te.HybridOp)]  # which says where it stores
        fits = [x for x in fits if x.attach_type != INLINE and not self._aligned(x)]
        stage = self._choose(fits)
        rank = len(layout_shape(stage, stage.op.output_shape(0)))
        blocks = [self.pick(-6, 5) for _ in range(rank)]
        order = [(k, part) for k in range(rank) for part in ((0, 1) if blocks[k] > 0 else (2,))]
        order = [order.pop(self.pick(0, len(order) - 1)) for _ in range(len(order))]

        def place(*i):
            parts = (lambda x, b: x // b, lambda x, b: x % b, lambda x, b: x)
            out = [parts[part](i[k], max(blocks[k], 1)) for k, part in order]
            return out if self.pick(0, 5) else [*out, te.AXIS_SEPARATOR, 0]

        stage.transform_layout(place)
        return True

    def rolling_buffer(self):
        """Only where it holds by now: most attachments have nothing to roll."""
        some = []
        for k, x in enumerate(self.s.stages):
            if x.attach_type == AT and not x.is_output and isinstance(x.op, te.ComputeOp):
                copy = self.s.copy()
                copy.stages[k].rolls = True
                try:
                    Bounds(copy)
                    some.append(x)
                except LowerError:
                    pass
        if not some:
            return False
        self._choose(some).rolling_buffer()
        return True

    def _kept(self):
        """Some intermediates that are arguments, too."""
        fits = [
            x
            for x in self._computed()
            if x.attach_type == ROOT and not x.is_output and x.op.num_outputs == 1
        ]
        plain = [x for x in fits if x.scope in ("", "global") and self.pick(0, 5) == 0]
        plain = [x for x in plain if not self._aligned(x)]
        return [x.op.output(0) for x in plain]

    def _aligned(self, stage):
        """True if the stage's rows are padded, which a caller's array has no room for."""
        return any(a.dim_align_factor for a in stage.iter_var_attrs.values())


def _gathers(op):
    """True where an index is read from a tensor: it is not known ahead."""
    reads = [n for x in getattr(op, "body", ()) for n in nodes_of(x, ProducerLoad)]
    return any(nodes_of(i, ProducerLoad) for n in reads for i in n.indices)
