"""Random schedules for GPUs: kernels of blocks, threads, virtual threads and shared memory.

Loops are bound as people bind them, in any order that a schedule allows: not every kernel is a
sensible one, and some are refused.
"""

import random
import zlib

from random_programs import Graph
from random_schedules import REFUSED

from whet.compiler import te
from whet.compiler.errors import ScheduleError
from whet.compiler.te.bounds.extents import leaf_extents
from whet.compiler.te.lang.relations import INLINE

WIDTHS = {
    "threadIdx.x": (1, 2, 3, 4, 8, 8, 16, 32, 32, 32, 33, 64, 96),
    "threadIdx.y": (1, 2, 2, 3, 4),
    "threadIdx.z": (1, 2),
}
SCOPES = ("", "shared", "shared", "local")


def evenly(seed):
    """``pick(low, high)`` without a preference, by a seed."""
    return random.Random(zlib.crc32(str(seed).encode())).randint


class GpuGraph(Graph):
    """A random computation in the element types that GPUs have, with sums in wider ones."""

    dtypes = ("float32", "float32", "float16", "bfloat16", "float64", "int8", "int32", "uint8",
              "int64", "int16")  # fmt: skip

    def kinds(self):
        """As a graph's, and sums in a wider type than their operands'."""
        return (*super().kinds(), self.reduction, self.matmul, self.widened, self.widened)

    def recurrences(self):
        return ()

    def scripts(self):
        """None: no loop of theirs is bound to threads, and nothing is attached in another's."""
        return ()

    def widened(self, name):
        """A product of matrices, or a sum of squares, whose sum has more bits."""
        a = self._any(2)
        wide = "float32" if a.dtype in ("float16", "bfloat16") else a.dtype
        wide = "int32" if a.dtype in ("int8", "uint8", "int16") else wide
        k = te.reduce_axis((0, a.shape[1]), name="k")
        if self.pick(0, 1):
            b = self._input((self._size(), a.shape[1]), a.dtype)
            self.tables.discard(b)
            return te.compute(
                (a.shape[0], b.shape[0]),
                lambda i, j: te.sum(a[i, k].astype(wide) * b[j, k].astype(wide), axis=k),
                name=name,
            )
        return te.compute(
            (a.shape[0],),
            lambda i: te.sum(a[i, k].astype(wide) * a[i, k].astype(wide), axis=k),
            name=name,
        )


def _loops(stage):
    """The loops over its elements, and of its reduction: a refused ``rfactor`` leaves two."""
    data = list(stage.op.axis)
    return data, [leaf for leaf in stage.leaf_iter_vars if leaf not in data]


class GpuSchedule:
    """A schedule of a graph whose stages that stand alone are kernels.

    Attributes:
        s: the schedule.
        args: the inputs that are used, and the outputs.
        applied: the primitives that were accepted, by name.
        width: tag -> how many threads a block has along it.
    """

    def __init__(self, graph, pick):
        self.pick = pick
        self.s = te.create_schedule(list(dict.fromkeys(t.op for t in graph.outputs)))
        self.applied = set()
        self.width = {tag: self._choose(widths) for tag, widths in WIDTHS.items()}
        self._change_stages()
        for stage in reversed(self._computed()):
            if stage.attach_type != INLINE:
                self._place(stage)
        self.args = [*[t for t in graph.inputs if t.op in self.s.stage_map], *graph.outputs]

    def _choose(self, things):
        return things[self.pick(0, len(things) - 1)]

    def _often(self, of):
        """True in one of ``of`` cases."""
        return self.pick(1, of) == 1

    def _computed(self):
        return [x for x in self.s.stages if isinstance(x.op, te.ComputeOp)]

    def _do(self, call, *args, **options):
        """Apply a primitive; None if it is refused."""
        try:
            made = call(*args, **options)
        except ScheduleError as error:
            assert any(why in str(error) for why in REFUSED), error
            return None
        self.applied.add(call.__name__)
        return made

    # stages

    def _change_stages(self):
        for stage in self._computed():
            if not (stage.is_output or stage.op.reduce_axis) and self._often(3):
                self._do(stage.compute_inline)
            elif stage.op.reduce_axis and self._often(4):
                self._rfactor(stage)
        for stage in self._computed():
            if stage.attach_type != INLINE and not stage.relations and self._often(4):
                made = [stage.op.output(k) for k in range(stage.op.num_outputs)]
                scope = self._choose(("local", "local", "shared"))
                self._do(self.s.cache_write, made if len(made) > 1 else made[0], scope)
        for stage in list(self.s.stages):
            if stage.attach_type != INLINE and self._often(3):
                self._cache_read(stage)

    def _rfactor(self, stage):
        axis = self._choose(stage.op.reduce_axis)
        parts = self._do(stage.split, axis, factor=self._choose((2, 3, 4, 8, 32)))
        at = self.pick(0, len(stage.op.axis)) if self._often(2) else 0
        self._do(self.s.rfactor, stage.op.output(0), self._choose(parts), at)

    def _cache_read(self, stage):
        readers = [x for x in self.s.consumers(stage) if x.attach_type != INLINE]
        if not readers:
            return
        reader = self._choose(readers)
        tensors = [t for t in reader.op.input_tensors if self.s[t] is stage]
        if tensors:
            scope = self._choose(("shared", "shared", "local"))
            self._do(self.s.cache_read, self._choose(tensors), scope, [reader.op])

    # places

    def _place(self, stage):
        parents = [x for x in self.s.consumers(stage) if x.attach_type != INLINE]
        if stage.is_output or not parents or (not stage.scope and self._often(3)):
            if stage.scope in ("shared", "local"):
                self._do(stage.set_scope, "global")
            self._kernel(stage)
            return
        parent = self._choose(parents)
        if parent.attach_stage is not None and self._often(3):
            parent = parent.attach_stage
        self._do(stage.compute_at, parent, self._choose(parent.leaf_iter_vars))
        if not stage.scope:
            scope = self._choose(SCOPES)
            if scope:
                self._do(stage.set_scope, scope)
        self._inside(stage)

    def _kernel(self, stage):
        """The loops of a stage that stands alone."""
        data, reduce = _loops(stage)
        if len(data) > 1 and self._often(3):
            data = [self._do(stage.fuse, *data)]
        tags = [t for t in self.width if t != "threadIdx.z" or self._often(4)]
        sums = self._threads_of_sum(stage, reduce, tags) if reduce and self._often(2) else []
        blocks, virtual, threads, rest = [], [], [], []
        tags_of_blocks = ["blockIdx.x", "blockIdx.y"]
        for axis in reversed(data):
            if self._often(3):
                axis, inner = self._do(stage.split, axis, factor=self.pick(1, 4))
                rest.insert(0, inner)
            if tags and not self._often(4):
                axis, inner = self._do(stage.split, axis, factor=self.width[tags[0]])
                self._bind(stage, inner, tags.pop(0))
                threads.insert(0, inner)
            if self._often(4):
                how = self._choose(("nparts", "factor"))
                axis, inner = self._do(stage.split, axis, **{how: self.pick(2, 3)})
                self._bind(stage, axis if how == "nparts" else inner, "vthread")
                virtual.insert(0, axis if how == "nparts" else inner)
                axis = inner if how == "nparts" else axis
            if tags_of_blocks and not self._often(4):
                self._bind(stage, axis, tags_of_blocks.pop(0))
                blocks.insert(0, axis)
            else:
                rest.insert(0, axis)
        if not blocks and not threads and not sums:
            self._bind(stage, rest[0], "blockIdx.x")
            blocks.append(rest.pop(0))
        if sums:
            order = [*blocks, *virtual, *threads, *rest, *self._mixed([*reduce, *sums])]
        else:
            order = [*blocks, *virtual, *threads, *self._mixed([*rest, *reduce])]
        if self._often(8):
            order = self._mixed(order)
        self._do(stage.reorder, *order)
        self._annotate(stage)

    def _threads_of_sum(self, stage, reduce, tags):
        """Loops of a reduction that are bound to threads; ``reduce`` has what is left."""
        out = []
        for tag in ("threadIdx.x", "threadIdx.y")[: 1 + self._often(4)]:
            if reduce and tag in tags:
                tags.remove(tag)
                k = reduce.pop(self.pick(0, len(reduce) - 1))
                left, inner = self._do(stage.split, k, factor=self.width[tag])
                self._bind(stage, inner, tag)
                reduce.append(left)
                out.append(inner)
        return out

    def _inside(self, stage):
        """The loops of a stage inside another one's."""
        shared = stage.scope.startswith("shared")
        data, reduce = _loops(stage)
        if shared and not self._often(6):
            axis = self._do(stage.fuse, *data) if len(data) > 1 else data[0]
            loops = []
            if self._often(3):
                axis, inner = self._do(stage.split, axis, factor=self._choose((2, 4)))
                self._do(stage.vectorize, inner)
                loops.insert(0, inner)
            tags = list(self.width)[: self.pick(1, 2)]
            sums = self._threads_of_sum(stage, reduce, tags) if reduce and self._often(3) else []
            for tag in tags:
                axis, inner = self._do(stage.split, axis, factor=self.width[tag])
                self._bind(stage, inner, tag)
                loops.insert(0, inner)
            self._do(stage.reorder, axis, *loops, *reduce, *sums)
        elif len(data) > 1 and self._often(3):
            self._do(stage.reorder, *self._mixed([*data, *reduce]))
        if shared and self._often(3):
            self._do(stage.storage_align, self._choose(stage.op.axis), self._choose((2, 4, 32)), 1)
        if shared and self._often(2):
            self._do(stage.double_buffer)
        self._annotate(stage)

    # loops

    def _bind(self, stage, loop, tag):
        known = self.width.get(tag)
        with_extent = known is not None and self._often(2)
        thread = te.thread_axis((0, known), tag) if with_extent else te.thread_axis(tag)
        self._do(stage.bind, loop, thread)

    def _mixed(self, things):
        things = list(things)
        return [things.pop(self.pick(0, len(things) - 1)) for _ in range(len(things))]

    def _annotate(self, stage):
        known = leaf_extents(stage)
        free = [
            a
            for a in stage.leaf_iter_vars
            if known.get(a, "?").isdigit() and int(known[a]) <= 9
            and (a not in stage.iter_var_attrs or stage.iter_var_attrs[a].bind_thread is None)
        ]  # fmt: skip
        if free and self._often(3):
            self._do(stage.unroll, free[0])
        if free and self._often(2):
            self._do(stage.vectorize, free[-1])
        if self._often(4):
            name, value = self._choose(
                (("auto_unroll_max_step", 16), ("unroll_explicit", True), ("min_blocks_per_sm", 2))
            )
            self._do(stage.pragma, stage.leaf_iter_vars[0], name, value)
