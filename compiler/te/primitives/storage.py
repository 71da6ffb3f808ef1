"""The primitives that say how a stage's result is kept: scope, alignment, predicate, buffers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from whet.compiler.errors import ScheduleError, WhetError
from whet.compiler.te.lang.scopes import SCOPES, is_scope
from whet.compiler.te.lang.sizes import as_int, plain, size_text
from whet.compiler.te.lang.tensor import ComputeOp
from whet.compiler.te.primitives.compute_at import Placed, axis_name
from whet.compiler.tir import expr as e
from whet.compiler.tir.ops import ops


class Stored(Placed):
    """The part of a stage that says how its result is kept; :class:`te.Stage` is the whole."""

    scope: str
    store_predicate: e.PrimExpr | None
    double_buffered: bool
    nontemporal: int

    def set_scope(self, scope: str) -> None:
        """Keep the stage's result in a storage scope: ``"global"``, ``"shared"``, ``"local"`` ...

        Without it a stage is kept in memory; attached at a loop over the threads of a block it is
        ``"local"``, at one over blocks only, ``"shared"``.

        >>> A = te.placeholder((4,), name="A")
        >>> T = te.compute((4,), lambda i: A[i] * 2.0, name="T")
        >>> U = te.compute((4,), lambda i: T[i] + 1.0, name="U")
        >>> s = te.create_schedule(U.op)
        >>> print(lower(s, [A, U]))
        def main(A: float32[4], U: float32[4]):
            T = allocate([4], "float32", "global")
            for i in range(4):
                T[i] = A[i] * float32(2.0)
            for i_1 in range(4):
                U[i_1] = T[i_1] + float32(1.0)
        >>> s[T].set_scope("local")
        >>> print(lower(s, [A, U]))
        def main(A: float32[4], U: float32[4]):
            T = allocate([4], "float32", "local")
            for i in range(4):
                T[i] = A[i] * float32(2.0)
            for i_1 in range(4):
                U[i_1] = T[i_1] + float32(1.0)

        Raises:
            ScheduleError: for a scope that does not exist, an input or an output.
        """
        asked = f"set_scope({self.op.name}, {scope!r})"
        self._computed(asked)
        check_scope(scope, asked)
        if self.is_output and scope != "global":
            raise ScheduleError(asked, f"{self.op.name} is an output, which its caller keeps")
        self.scope = scope
        self.schedule.record("set_scope", self._stage, (scope,), {}, ())

    def storage_align(self, axis: e.IterVar, factor: int, offset: int) -> None:
        """Pad the rows of the stage's buffer: ``stride of axis = k * factor + offset``.

        On a GPU this keeps the threads of a warp from meeting in one bank of shared memory.

        >>> A = te.placeholder((4, 6), name="A")
        >>> T = te.compute((4, 6), lambda i, j: A[i, j] * 2.0, name="T")
        >>> U = te.compute((4, 6), lambda i, j: T[i, j] + 1.0, name="U")
        >>> s = te.create_schedule(U.op)
        >>> print(lower(s, [A, U]))
        def main(A: float32[24], U: float32[24]):
            T = allocate([24], "float32", "global")
            for i in range(4):
                for j in range(6):
                    T[i * 6 + j] = A[i * 6 + j] * float32(2.0)
            for i_1 in range(4):
                for j_1 in range(6):
                    U[i_1 * 6 + j_1] = T[i_1 * 6 + j_1] + float32(1.0)
        >>> s[T].storage_align(T.op.axis[0], 8, 1)
        >>> print(lower(s, [A, U]))
        def main(A: float32[24], U: float32[24]):
            T = allocate([33], "float32", "global")
            for i in range(4):
                for j in range(6):
                    T[i * 9 + j] = A[i * 6 + j] * float32(2.0)
            for i_1 in range(4):
                for j_1 in range(6):
                    U[i_1 * 6 + j_1] = T[i_1 * 9 + j_1] + float32(1.0)

        Args:
            axis: an axis of the operation, not a loop made of it.
            factor, offset: in elements.

        Raises:
            ScheduleError: for another axis, an output, or numbers that are too small.
        """
        asked = (
            f"storage_align({self.op.name}, {axis_name(axis)}, factor={size_text(factor)}, "
            f"offset={size_text(offset)})"
        )
        self._scheduled(asked)
        if not any(axis is a for a in self.op.axis):
            raise ScheduleError(
                asked,
                f"{axis_name(axis)} is not an axis of what {self.op.name} computes",
                f"axes: {' '.join(a.var.name for a in self.op.axis) or 'none'}",
            )
        if self.is_output:
            raise ScheduleError(asked, f"{self.op.name} is an output, which its caller lays out")
        by = int(as_int(factor, "factor", 1, asked))
        more = int(as_int(offset, "offset", 0, asked))
        self.iter_var_attrs[axis] = replace(
            self._attr(axis), dim_align_factor=by, dim_align_offset=more
        )
        self.schedule.record("storage_align", self._stage, (axis, by, more), {}, ())

    def double_buffer(self) -> None:
        """Ask for two buffers in turns, so that one is filled while the other is read.

        The request stands in the loops as an attribute; to ignore it is right, too.

        >>> A = te.placeholder((4, 6), name="A")
        >>> T = te.compute((4, 6), lambda i, j: A[i, j] * 2.0, name="T")
        >>> U = te.compute((4, 6), lambda i, j: T[i, j] + 1.0, name="U")
        >>> s = te.create_schedule(U.op)
        >>> s[T].compute_at(s[U], U.op.axis[0])
        >>> print(lower(s, [A, U]))
        def main(A: float32[24], U: float32[24]):
            for i in range(4):
                T = allocate([6], "float32", "global")
                for j in range(6):
                    T[j] = A[i * 6 + j] * float32(2.0)
                for j_1 in range(6):
                    U[i * 6 + j_1] = T[j_1] + float32(1.0)
        >>> s[T].double_buffer()
        >>> print(lower(s, [A, U]))
        def main(A: float32[24], U: float32[24]):
            for i in range(4):
                T = allocate([6], "float32", "global")
                attr(T, 'double_buffer_scope', 1)
                for j in range(6):
                    T[j] = A[i * 6 + j] * float32(2.0)
                for j_1 in range(6):
                    U[i * 6 + j_1] = T[j_1] + float32(1.0)

        Raises:
            ScheduleError: for an input, an output or what is inlined.
        """
        asked = f"double_buffer({self.op.name})"
        self._scheduled(asked)
        if self.is_output:
            raise ScheduleError(asked, f"{self.op.name} is an output: there is one, its caller's")
        self.double_buffered = True
        self.schedule.record("double_buffer", self._stage, (), {}, ())

    def store_nontemporal(self, align: int = 16) -> None:
        """Store past the caches: for results that are larger than a cache and not read again soon.

        A line of memory is then written without being read first, and the caches keep what else
        they hold. It concerns vectors whose address is a multiple of 16 bytes, which is found out
        as the kernel runs; others are stored as ever. A kernel waits for such stores before it
        returns. Generators that have no such stores ignore it.

        >>> A = te.placeholder((10,), name="A")
        >>> B = te.compute((10,), lambda i: A[i] + 1.0, name="B")
        >>> s = te.create_schedule(B.op)
        >>> s[B].vectorize(B.op.axis[0])
        >>> print(lower(s, [A, B]))
        def main(A: float32[10], B: float32[10]):
            B[ramp(0, 1, 8)] = A[ramp(0, 1, 8)] + broadcast(float32(1.0), 8)
            B[ramp(8, 1, 2)] = A[ramp(8, 1, 2)] + broadcast(float32(1.0), 2)
        >>> s[B].store_nontemporal()
        >>> print(lower(s, [A, B]))
        def main(A: float32[10], B: float32[10]):
            attr(B, 'store_nontemporal', 1)
            B[ramp(0, 1, 8)] = A[ramp(0, 1, 8)] + broadcast(float32(1.0), 8)
            B[ramp(8, 1, 2)] = A[ramp(8, 1, 2)] + broadcast(float32(1.0), 2)

        Args:
            align: a power of two of bytes. Memory that does not begin at a multiple of it is stored
                as ever. 64 is for loops that leave a line of memory before the next one is begun:
                halves of lines that are stored past the caches cost more than they save. Vectors
                are then stored whole.

        Raises:
            ScheduleError: for an input, what is inlined or extern, or a reduction, which reads its
                own result; for another alignment.
        """
        asked = f"store_nontemporal({self.op.name})"
        self._scheduled(asked)
        whole = int(as_int(align, "align", 16, asked))
        if whole & (whole - 1):
            raise ScheduleError(asked, f"align={whole} is no power of two", "16, or 64 for lines")
        if not isinstance(self.op, ComputeOp):
            raise ScheduleError(
                asked,
                f"{self.op.name} is extern: its own code stores",
                "mark a stage that te.compute made",
            )
        if self.op.reduce_axis:
            raise ScheduleError(
                asked,
                f"{self.op.name} is a reduction over "
                f"{', '.join(a.var.name for a in self.op.reduce_axis)}: it reads what it stored",
                f'sum up in cache_write({self.op.name}, "local") and mark the copy that remains',
            )
        self.nontemporal = whole
        more = {} if whole == 16 else {"align": whole}
        self.schedule.record("store_nontemporal", self._stage, (), more, ())

    def set_store_predicate(self, predicate: Any) -> None:
        """Store only where a condition holds: ``if predicate: stage[...] = ...``.

        It is a condition on axes of this stage and on thread axes, e.g. ``tx.var.equal(0)``, which
        are bound in this stage, around it, or in a stage attached to it. A reduction that is spread
        over threads takes it for its result, which all of them share; so does what reads it.

        >>> A = te.placeholder((4,), name="A")
        >>> B = te.compute((4,), lambda i: A[i] + 1.0, name="B")
        >>> s = te.create_schedule(B.op)
        >>> print(lower(s, [A, B]))
        def main(A: float32[4], B: float32[4]):
            for i in range(4):
                B[i] = A[i] + float32(1.0)
        >>> s[B].set_store_predicate(B.op.axis[0].var % 2 == 1)
        >>> print(lower(s, [A, B]))
        def main(A: float32[4], B: float32[4]):
            for i in range(4):
                if i - i // 2 * 2 == 1:
                    B[i] = A[i] + float32(1.0)

        Raises:
            ScheduleError: for what is no condition.
        """
        asked = f"set_store_predicate({self.op.name}, ...)"
        self._scheduled(asked)
        try:
            condition = ops.convert(predicate)
        except WhetError as error:
            raise ScheduleError(asked, f"a {type(predicate).__name__} is no condition") from error
        if condition.dtype != "bool":
            raise ScheduleError(
                asked,
                f"a {condition.dtype} expression is no condition",
                "compare it: tx.var.equal(0)",
            )
        self.store_predicate = plain(condition, asked)
        self.schedule.record("set_store_predicate", self._stage, (condition,), {}, ())


def check_scope(scope: Any, asked: str) -> None:
    """An error unless there is such a storage scope."""
    if not is_scope(scope):
        raise ScheduleError(
            asked, f"{scope!r} is not a storage scope", "scopes: " + ", ".join(SCOPES)
        )
