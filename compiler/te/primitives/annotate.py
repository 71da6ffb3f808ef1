"""The primitives that say how a loop is run: vectorize, unroll, parallel, bind, pragma."""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from whet.compiler.errors import ScheduleError
from whet.compiler.te.lang.relations import IterVarAttr, PragmaKey
from whet.compiler.te.lang.scopes import is_thread, is_virtual
from whet.compiler.te.lang.sizes import as_int, plain, size_text
from whet.compiler.te.primitives.compute_at import Placed, axis_name
from whet.compiler.tir import expr as e
from whet.compiler.tir.ops import ops
from whet.compiler.tir.tracing.traced import shown, whole


class Annotated(Placed):
    """The part of a stage that says how its loops run; :class:`te.Stage` is the whole."""

    launch_threads: list[e.IterVar]

    def vectorize(self, axis: e.IterVar) -> None:
        """Run a loop of constant extent as vector operations, as wide as the target's registers.

        >>> A = te.placeholder((10,), name="A")
        >>> B = te.compute((10,), lambda i: A[i] + 1.0, name="B")
        >>> s = te.create_schedule(B.op)
        >>> print(lower(s, [A, B]))
        def main(A: float32[10], B: float32[10]):
            for i in range(10):
                B[i] = A[i] + float32(1.0)
        >>> s[B].vectorize(B.op.axis[0])
        >>> print(lower(s, [A, B]))
        def main(A: float32[10], B: float32[10]):
            B[ramp(0, 1, 8)] = A[ramp(0, 1, 8)] + broadcast(float32(1.0), 8)
            B[ramp(8, 1, 2)] = A[ramp(8, 1, 2)] + broadcast(float32(1.0), 2)

        Raises:
            ScheduleError: for a loop of a reduction.
        """
        self._annotate("vectorize", axis, e.VECTORIZED)

    def unroll(self, axis: e.IterVar) -> None:
        """Write a loop of constant extent out, step after step, in the machine code.

        >>> A = te.placeholder((10,), name="A")
        >>> B = te.compute((10,), lambda i: A[i] + 1.0, name="B")
        >>> s = te.create_schedule(B.op)
        >>> print(lower(s, [A, B]))
        def main(A: float32[10], B: float32[10]):
            for i in range(10):
                B[i] = A[i] + float32(1.0)
        >>> s[B].unroll(B.op.axis[0])
        >>> print(lower(s, [A, B]))
        def main(A: float32[10], B: float32[10]):
            for i in unrolled(10):
                B[i] = A[i] + float32(1.0)

        Raises:
            ScheduleError: for an axis that is not a loop of this stage.
        """
        self._annotate("unroll", axis, e.UNROLLED)

    def parallel(self, axis: e.IterVar, grain: int | None = None) -> None:
        """Share the steps of a data-parallel loop among threads.

        Each thread gets an even share of consecutive steps. With a ``grain``, it gets that many
        steps at a time and comes back for more: for steps that differ in length, or threads that
        do. A loop of no more steps than its grain is run by the calling thread alone.

        >>> A = te.placeholder((4, 6), name="A")
        >>> B = te.compute((4, 6), lambda i, j: A[i, j] + 1.0, name="B")
        >>> s = te.create_schedule(B.op)
        >>> print(lower(s, [A, B]))
        def main(A: float32[24], B: float32[24]):
            for i in range(4):
                for j in range(6):
                    B[i * 6 + j] = A[i * 6 + j] + float32(1.0)
        >>> s[B].parallel(B.op.axis[0])
        >>> print(lower(s, [A, B]))
        def main(A: float32[24], B: float32[24]):
            for i in parallel(4):
                for j in range(6):
                    B[i * 6 + j] = A[i * 6 + j] + float32(1.0)

        Args:
            axis: a loop of this stage.
            grain: how many steps one hand-out takes; None: an even share for each thread.

        Raises:
            ScheduleError: for a loop of a reduction, or a grain that is no number from 1 on.
        """
        more = ""
        if grain is not None:
            more = f", grain={size_text(grain)}"
            grain = as_int(grain, "grain", 1, f"parallel({self.op.name}, {axis_name(axis)}{more})")
        self._annotate("parallel", axis, e.PARALLELIZED, more, grain)

    def bind(self, ivar: e.IterVar, thread_ivar: e.IterVar) -> None:
        """Run the steps of a loop in the threads of a GPU: ``ivar = thread_ivar``.

        By meaning it stays a loop; a processor without such threads runs its steps in order. A
        thread axis that has an extent may be longer than the loop: what is beyond does nothing.

        >>> A = te.placeholder((10,), name="A")
        >>> B = te.compute((10,), lambda i: A[i] + 1.0, name="B")
        >>> s = te.create_schedule(B.op)
        >>> print(lower(s, [A, B]))
        def main(A: float32[10], B: float32[10]):
            for i in range(10):
                B[i] = A[i] + float32(1.0)
        >>> s[B].bind(B.op.axis[0], te.thread_axis("threadIdx.x"))
        >>> print(lower(s, [A, B]))
        def main(A: float32[10], B: float32[10]):
            for i in thread_binding(10, "threadIdx.x"):
                B[i] = A[i] + float32(1.0)

        Args:
            ivar: a loop of this stage.
            thread_ivar: what ``te.thread_axis`` gave.

        Raises:
            ScheduleError: if the loop or the thread is taken already.
        """
        asked = f"bind({self.op.name}, {axis_name(ivar)}, {_thread_name(thread_ivar)})"
        self._plain_leaf(ivar, asked, pragmas=True)
        if not is_thread(thread_ivar):
            raise ScheduleError(
                asked,
                f"{_thread_name(thread_ivar)} is not a thread axis",
                'make one: te.thread_axis("threadIdx.x")',
            )
        for leaf in self.leaf_iter_vars:
            attr = self.iter_var_attrs.get(leaf)
            other = attr.bind_thread if attr is not None else None
            if other is None:
                continue
            tag = thread_ivar.thread_tag
            if other is thread_ivar or (other.thread_tag == tag and not is_virtual(tag)):
                raise ScheduleError(
                    asked, f"{leaf.var.name} is bound to {tag} already", self._loops
                )
        self.iter_var_attrs[ivar] = replace(self._attr(ivar), bind_thread=thread_ivar)
        self.schedule.record("bind", self._stage, (ivar, thread_ivar), {}, ())

    def env_threads(self, threads: e.IterVar | Sequence[e.IterVar]) -> None:
        """Run the whole stage in each thread of some thread axes, which need extents.

        >>> A = te.placeholder((4,), name="A")
        >>> B = te.compute((4,), lambda i: A[i] + 1.0, name="B")
        >>> s = te.create_schedule(B.op)
        >>> print(lower(s, [A, B]))
        def main(A: float32[4], B: float32[4]):
            for i in range(4):
                B[i] = A[i] + float32(1.0)
        >>> s[B].env_threads(te.thread_axis((0, 2), "threadIdx.x"))
        >>> print(lower(s, [A, B]))
        def main(A: float32[4], B: float32[4]):
            for threadIdx_x in thread_binding(2, "threadIdx.x"):
                for i in range(4):
                    B[i] = A[i] + float32(1.0)

        Raises:
            ScheduleError: for what is no thread axis, has no extent or is named twice, or if the
                stage has such threads already.
        """
        given: list[Any] = list(threads) if isinstance(threads, (list, tuple)) else [threads]
        asked = f"env_threads({self.op.name}, [{', '.join(_thread_name(t) for t in given)}])"
        self._scheduled(asked)
        if self.launch_threads:
            raise ScheduleError(asked, "the stage has such threads already")
        if not given:
            raise ScheduleError(asked, "give at least one thread axis")
        for t in given:
            if not is_thread(t):
                raise ScheduleError(
                    asked,
                    f"{_thread_name(t)} is not a thread axis",
                    'make one: te.thread_axis((0, 32), "threadIdx.x")',
                )
            if t.dom is None:
                raise ScheduleError(
                    asked,
                    f"{_thread_name(t)} has no extent",
                    'give it one: te.thread_axis((0, 32), "threadIdx.x")',
                )
        tags = [t.thread_tag for t in given if not is_virtual(t.thread_tag)]
        if len(set(tags)) != len(tags) or len({id(t) for t in given}) != len(given):
            raise ScheduleError(asked, "a thread is named twice")
        self.launch_threads = given
        self.schedule.record("env_threads", self._stage, (given,), {}, ())

    def pragma(self, var: e.IterVar, pragma_type: str, pragma_value: Any = None) -> None:
        """Say something of a loop to passes and generators: an attribute ``pragma_<type>``.

        ``auto_unroll_max_step`` (a number of steps) and ``unroll_explicit`` (whether to write them
        out) unroll the loops inside, ``debug_skip_region`` leaves the loop out; a name that
        nobody knows is kept and does nothing.

        >>> A = te.placeholder((4,), name="A")
        >>> B = te.compute((4,), lambda i: A[i] + 1.0, name="B")
        >>> s = te.create_schedule(B.op)
        >>> print(lower(s, [A, B]))
        def main(A: float32[4], B: float32[4]):
            for i in range(4):
                B[i] = A[i] + float32(1.0)
        >>> s[B].pragma(B.op.axis[0], "my_hint", 3)
        >>> print(lower(s, [A, B]))
        def main(A: float32[4], B: float32[4]):
            attr(i, 'pragma_my_hint', 3)
            for i in range(4):
                B[i] = A[i] + float32(1.0)

        Args:
            var: a loop of this stage.
            pragma_type: its name, an identifier.
            pragma_value: a number, a string, an expression or nothing (1).

        Raises:
            ScheduleError: for another axis, name or value.
        """
        is_number = isinstance(pragma_value, numbers.Integral)
        value_text = shown(pragma_value) if is_number else repr(pragma_value)
        asked = f"pragma({self.op.name}, {axis_name(var)}, {pragma_type!r}, {value_text})"
        self._scheduled(asked)
        self._leaf(var, asked)
        if not isinstance(pragma_type, str) or not pragma_type.isidentifier():
            raise ScheduleError(asked, "the type of a pragma is a name", self._loops)
        value = _pragma_value(pragma_type, pragma_value, asked)
        old = self._attr(var)
        self.iter_var_attrs[var] = replace(
            old,
            pragma_keys=(*old.pragma_keys, PragmaKey(pragma_type)),
            pragma_values=(*old.pragma_values, value),
        )
        self.schedule.record("pragma", self._stage, (var, pragma_type, value), {}, ())

    def _annotate(
        self, primitive: str, axis: e.IterVar, kind: int, more: str = "", grain: int | None = None
    ) -> None:
        asked = f"{primitive}({self.op.name}, {axis_name(axis)}{more})"
        self._scheduled(asked)
        self._leaf(axis, asked)
        if axis.iter_type == e.COMM_REDUCE and kind != e.UNROLLED:
            raise ScheduleError(asked, "the steps of a reduction depend on each other", self._loops)
        attr = self.iter_var_attrs.get(axis)
        if attr is None:
            self.iter_var_attrs[axis] = IterVarAttr(kind, grain=grain or 0)
        elif attr.bind_thread is not None:
            tag = attr.bind_thread.thread_tag
            raise ScheduleError(asked, f"{axis_name(axis)} is bound to {tag}", self._loops)
        else:
            self.iter_var_attrs[axis] = replace(attr, iter_type=kind, grain=grain or 0)
        options = {} if grain is None else {"grain": grain}
        self.schedule.record(primitive, self._stage, (axis,), options, ())


def _thread_name(t: Any) -> str:
    return t.thread_tag if is_thread(t) else axis_name(t)


_NUMBERS = {"auto_unroll_max_step": "a number of steps", "unroll_explicit": "True or False"}


def _pragma_value(name: str, value: Any, asked: str) -> e.PrimExpr | None:
    """The value as an expression; those of pragmas that do something are checked."""
    if isinstance(value, e.PrimExpr):
        out: e.PrimExpr | None = plain(value, asked)
    elif value is None:
        out = None
    elif isinstance(value, (bool, str)):
        out = ops.convert(value)
    elif isinstance(value, numbers.Integral):
        out = ops.const(whole(value))
    elif isinstance(value, float):
        out = ops.const(value)
    else:
        raise ScheduleError(asked, f"a {type(value).__name__} is not a pragma's value")
    if name in _NUMBERS and not (isinstance(out, e.IntImm) and out.value >= 0):
        raise ScheduleError(asked, f"its value must be {_NUMBERS[name]}")
    return out
