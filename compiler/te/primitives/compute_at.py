"""Where a stage is computed: on its own, inside a loop of a reader, in its readers, or ahead."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from whet.compiler.errors import ScheduleError
from whet.compiler.te.lang.relations import AHEAD, AT, INLINE, ROOT, IterVarAttr, Relation
from whet.compiler.te.lang.tensor import ComputeOp, Operation, PlaceholderOp
from whet.compiler.tir import expr as e
from whet.compiler.tir import stmt as s

if TYPE_CHECKING:
    from whet.compiler.te.schedule import Schedule
    from whet.compiler.te.stage import Stage


class Placed:
    """The part of a stage that says where it is computed; :class:`te.Stage` is the whole."""

    schedule: Schedule
    op: Operation
    is_output: bool
    leaf_iter_vars: list[e.IterVar]
    all_iter_vars: list[e.IterVar]
    relations: list[Relation]
    iter_var_attrs: dict[e.IterVar, IterVarAttr]
    attach_type: int
    attach_stage: Stage | None
    attach_ivar: e.IterVar | None

    @property
    def _stage(self) -> Stage:
        return cast("Stage", self)

    def compute_at(self, parent: Stage, scope: e.IterVar) -> None:
        """Compute this stage inside the loop ``scope`` of ``parent``, as much as is needed there.

        >>> A = te.placeholder((18,), name="A")
        >>> T = te.compute((18,), lambda i: A[i] * 2.0, name="T")
        >>> U = te.compute((16,), lambda i: T[i] + T[i + 2], name="U")
        >>> s = te.create_schedule(U.op)
        >>> print(lower(s, [A, U]))
        def main(A: float32[18], U: float32[16]):
            T = allocate([18], "float32", "global")
            for i in range(18):
                T[i] = A[i] * float32(2.0)
            for i_1 in range(16):
                U[i_1] = T[i_1] + T[i_1 + 2]
        >>> outer, inner = s[U].split(U.op.axis[0], factor=4)
        >>> s[T].compute_at(s[U], outer)
        >>> print(lower(s, [A, U]))
        def main(A: float32[18], U: float32[16]):
            for i_outer in range(4):
                T = allocate([6], "float32", "global")
                for i in range(6):
                    T[i] = A[i + i_outer * 4] * float32(2.0)
                for i_inner in range(4):
                    U[i_outer * 4 + i_inner] = T[i_inner] + T[i_inner + 2]

        Raises:
            ScheduleError: if ``scope`` is no loop of ``parent``, or ``parent`` does not read this
                stage.
        """
        if not isinstance(parent, Placed):
            raise ScheduleError(
                f"compute_at({self.op.name}, {parent!r}, {axis_name(scope)})",
                f"a {type(parent).__name__} is not a stage",
                "name the stage: s[tensor]",
            )
        asked = f"compute_at({self.op.name}, {parent.op.name}, {axis_name(scope)})"
        if parent.schedule is not self.schedule or parent is self:
            raise ScheduleError(asked, "the parent must be another stage of the same schedule")
        self._computed(asked)
        parent._scheduled(asked)
        parent._leaf(scope, asked)
        if self.is_output:
            raise ScheduleError(
                asked, f"{self.op.name} is an output, which is computed at the root", self._loops
            )
        if not self.schedule.feeds(self._stage, parent):
            readers = ", ".join(s.op.name for s in self.schedule.consumers(self._stage)) or "none"
            raise ScheduleError(
                asked,
                f"{parent.op.name} does not consume {self.op.name}",
                f"stages that read {self.op.name}: {readers}",
            )
        self.attach_type, self.attach_stage, self.attach_ivar = AT, parent, scope
        self.schedule.record("compute_at", self._stage, (parent, scope), {}, ())

    def compute_inline(self) -> None:
        """Put the computation into whatever reads it.

        >>> A = te.placeholder((18,), name="A")
        >>> T = te.compute((18,), lambda i: A[i] * 2.0, name="T")
        >>> U = te.compute((16,), lambda i: T[i] + T[i + 2], name="U")
        >>> s = te.create_schedule(U.op)
        >>> print(lower(s, [A, U]))
        def main(A: float32[18], U: float32[16]):
            T = allocate([18], "float32", "global")
            for i in range(18):
                T[i] = A[i] * float32(2.0)
            for i_1 in range(16):
                U[i_1] = T[i_1] + T[i_1 + 2]
        >>> s[T].compute_inline()
        >>> print(lower(s, [A, U]))
        def main(A: float32[18], U: float32[16]):
            for i in range(16):
                U[i] = A[i] * float32(2.0) + A[i + 2] * float32(2.0)

        Raises:
            ScheduleError: for an input, an output or a reduction.
        """
        asked = f"compute_inline({self.op.name})"
        self._computed(asked)
        if not isinstance(self.op, ComputeOp):
            raise ScheduleError(asked, f"{self.op.name} has no expression to put elsewhere")
        if self.op.reduce_axis:
            raise ScheduleError(asked, "a reduction cannot be inlined", "use compute_at")
        if self.is_output:
            raise ScheduleError(asked, f"{self.op.name} is an output and must be stored")
        self.attach_type, self.attach_stage, self.attach_ivar = INLINE, None, None
        self.schedule.record("compute_inline", self._stage, (), {}, ())

    def compute_root(self) -> None:
        """Compute this stage on its own, before whatever reads it: undo attaching and inlining.

        >>> A = te.placeholder((18,), name="A")
        >>> T = te.compute((18,), lambda i: A[i] * 2.0, name="T")
        >>> U = te.compute((16,), lambda i: T[i] + T[i + 2], name="U")
        >>> s = te.create_schedule(U.op)
        >>> print(lower(s, [A, U]))
        def main(A: float32[18], U: float32[16]):
            T = allocate([18], "float32", "global")
            for i in range(18):
                T[i] = A[i] * float32(2.0)
            for i_1 in range(16):
                U[i_1] = T[i_1] + T[i_1 + 2]
        >>> s[T].compute_inline()
        >>> s[T].compute_root()
        >>> print(lower(s, [A, U]))
        def main(A: float32[18], U: float32[16]):
            T = allocate([18], "float32", "global")
            for i in range(18):
                T[i] = A[i] * float32(2.0)
            for i_1 in range(16):
                U[i_1] = T[i_1] + T[i_1 + 2]

        Raises:
            ScheduleError: for an input.
        """
        self._computed(f"compute_root({self.op.name})")
        self.attach_type, self.attach_stage, self.attach_ivar = ROOT, None, None
        self.schedule.record("compute_root", self._stage, (), {}, ())

    def compute_ahead(self) -> None:
        """Compute this stage once, ahead of the kernel's calls, which take its result as an input.

        For what is made of weights alone, such as a packed layout: what does not change from call
        to call. The stage, and what is computed for it alone, becomes a function of its own, named
        like the kernel with ``_ahead``; in the kernel's arguments the stage stands where the input
        stood that it is computed from (the first of several). ``Module.pack_weights`` calls it.

        >>> W = te.placeholder((8, 3), name="W")
        >>> x = te.placeholder((3, 8), name="x")
        >>> P = te.compute((3, 8), lambda i, j: W[j, i], name="P")
        >>> y = te.compute((3, 8), lambda i, j: P[i, j] * x[i, j], name="y")
        >>> s = te.create_schedule(y.op)
        >>> print(lower(s, [W, x, y]))
        def main(W: float32[24], x: float32[24], y: float32[24]):
            P = allocate([24], "float32", "global")
            for i in range(3):
                for j in range(8):
                    P[i * 8 + j] = W[j * 3 + i]
            for i_1 in range(3):
                for j_1 in range(8):
                    y[i_1 * 8 + j_1] = P[i_1 * 8 + j_1] * x[i_1 * 8 + j_1]
        >>> s[P].compute_ahead()
        >>> print(lower(s, [W, x, y]))
        def main(P: float32[24], x: float32[24], y: float32[24]):
            for i in range(3):
                for j in range(8):
                    y[i * 8 + j] = P[i * 8 + j] * x[i * 8 + j]
        <BLANKLINE>
        def main_ahead(W: float32[24], P: float32[24]):
            for i in range(3):
                for j in range(8):
                    P[i * 8 + j] = W[j * 3 + i]

        The kernel's calls are what is measured: neither a cost nor a count of operations holds what
        is computed ahead.

        Raises:
            ScheduleError: for an input, an output, or several results at once; for a stage that is
                computed from no input, from another that is computed ahead, or from an input that
                the kernel or another stage computed ahead reads, too.
        """
        self._computed(f"compute_ahead({self.op.name})")
        from whet.compiler.te.primitives.prepack import ahead_stages, check_ahead

        check_ahead(self.schedule, [*ahead_stages(self.schedule), self._stage])
        self.attach_type, self.attach_stage, self.attach_ivar = AHEAD, None, None
        self.schedule.record("compute_ahead", self._stage, (), {}, ())

    # what is checked, and what errors show

    def _computed(self, asked: str) -> None:
        """An error for an input, which nothing computes."""
        if isinstance(self.op, PlaceholderOp):
            raise ScheduleError(asked, f"{self.op.name} is an input and is not computed")

    def _scheduled(self, asked: str) -> None:
        """An error for what has no loops of its own: inputs and what was inlined."""
        self._computed(asked)
        if self.attach_type == INLINE:
            raise ScheduleError(
                asked,
                f"{self.op.name} is inlined: it has no loops of its own",
                "compute_root or compute_at gives it some",
            )

    def _attr(self, axis: e.IterVar) -> IterVarAttr:
        """What was said of an axis so far."""
        known = self.iter_var_attrs.get(axis)
        return known if known is not None else IterVarAttr(axis.iter_type)

    def _plain_leaf(self, axis: e.IterVar, asked: str, pragmas: bool = False) -> int:
        """The place of a loop of which nothing was said yet, since that would be lost.

        pragmas: whether the loop keeps those it has.
        """
        self._scheduled(asked)
        place = self._leaf(axis, asked)
        attr = self.iter_var_attrs.get(axis)
        if attr is None:
            return place
        if attr.bind_thread is not None:
            said = f"bound to {attr.bind_thread.thread_tag}"
        elif attr.kind != s.SERIAL:
            said = attr.kind
        else:
            lost = attr.pragma_keys and not pragmas
            said = f"under pragma {attr.pragma_keys[0]}" if lost else ""
        if said:
            raise ScheduleError(
                asked,
                f"{axis_name(axis)} is {said} already",
                lambda: f"make the loops first, then say how they run\n{self._loops()}",
            )
        return place

    def _leaf(self, axis: e.IterVar, asked: str) -> int:
        """The place of a loop; an error when the axis is no loop of this stage."""
        if isinstance(axis, e.IterVar):
            for k, leaf in enumerate(self.leaf_iter_vars):
                if leaf is axis:
                    return k
        if isinstance(axis, e.IterVar) and any(axis is a for a in self.all_iter_vars):
            why = f"{axis_name(axis)} is no longer a loop: it was split or fused"
        else:
            why = f"{axis_name(axis)} is not an axis of {self.op.name}"
        raise ScheduleError(asked, why, self._loops)

    def _loops(self) -> str:
        """The loops as they stand, with their extents where they are known."""
        from whet.compiler.te.lower.extents import leaf_extents

        extents = leaf_extents(self._stage)
        loops = " ".join(f"{a.var.name}({extents.get(a, '?')})" for a in self.leaf_iter_vars)
        return f"loops of {self.op.name}: {loops or 'none'}"


def axis_name(axis: Any) -> str:
    return axis.var.name if isinstance(axis, e.IterVar) else repr(axis)
