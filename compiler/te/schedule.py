"""A schedule: the stages of a computation, and the primitives that make new stages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from whet.compiler.errors import ScheduleError
from whet.compiler.te.stage import INLINE, Stage
from whet.compiler.te.tensor import ComputeOp, Operation, Tensor
from whet.compiler.te.trace import Step, Trace
from whet.compiler.tir import expr as e
from whet.compiler.tir import ops
from whet.compiler.tir.rewrite import Rewriter, substitute


def create_schedule(operations: Operation | Tensor | Sequence[Operation | Tensor]) -> Schedule:
    """The schedule of one operation or several, everything at its default: plain loops."""
    many: Sequence[Any] = operations if isinstance(operations, (list, tuple)) else [operations]
    found = [op.op if isinstance(op, Tensor) else op for op in many]
    for op in found:
        if not isinstance(op, Operation):
            raise ScheduleError(
                f"create_schedule({op!r})", f"a {type(op).__name__} is not an operation"
            )
    if not found:
        raise ScheduleError("create_schedule([])", "give at least one operation")
    return Schedule(found)


class Schedule:
    """Mutable stages over immutable operations.

    Attributes:
        outputs: the operations it was made for.
        stages: producers before consumers.
        stage_map: operation -> stage; an operation that a primitive replaced still finds its stage.
        trace: every primitive applied, in order.
    """

    def __init__(self, outputs: Sequence[Operation]) -> None:
        self.outputs = list(outputs)
        self.stage_map: dict[Operation, Stage] = {}
        self.stages: list[Stage] = []
        self.trace = Trace()
        for op in _post_order(self.outputs):
            stage = Stage(self, op)
            stage.is_output = any(op is o for o in self.outputs)
            self.stages.append(stage)
            self.stage_map[op] = stage

    def __getitem__(self, key: Tensor | Operation) -> Stage:
        op = key.op if isinstance(key, Tensor) else key
        if not isinstance(op, Operation):
            raise ScheduleError(
                f"schedule[{key!r}]", "stages are found by a tensor or an operation"
            )
        if op not in self.stage_map:
            raise ScheduleError(
                f"schedule[{op.name}]",
                "the operation is not part of this schedule",
                "stages: " + ", ".join(s.op.name for s in self.stages),
            )
        return self.stage_map[op]

    def record(
        self, primitive: str, stage: Stage, args: Sequence[Any], options: dict, out: Sequence[Any]
    ) -> None:
        """Append a step to the trace."""
        self.trace.steps.append(Step(primitive, stage.op.name, tuple(args), options, tuple(out)))

    # who reads whom

    def inputs(self, stage: Stage) -> list[Stage]:
        """The stages that a stage reads."""
        found: dict[int, Stage] = {}
        for t in stage.op.input_tensors:
            s = self.stage_map[t.op]
            found.setdefault(id(s), s)
        return list(found.values())

    def consumers(self, stage: Stage) -> list[Stage]:
        """The stages that read a stage."""
        return [s for s in self.stages if any(x is stage for x in self.inputs(s))]

    def feeds(self, stage: Stage, reader: Stage) -> bool:
        """Whether ``reader`` reads a stage, itself or through others."""
        seen: set[int] = set()
        waiting = [reader]
        while waiting:
            for x in self.inputs(waiting.pop()):
                if x is stage:
                    return True
                if id(x) not in seen:
                    seen.add(id(x))
                    waiting.append(x)
        return False

    # primitives that make stages

    def cache_write(self, tensor: Tensor, scope: str) -> Tensor:
        """Compute a tensor in ``scope`` first and copy it to its place afterwards.

        Call it before the stage's loops are split or fused.

        >>> A = te.placeholder((4, 6), name="A")
        >>> k = te.reduce_axis((0, 6), name="k")
        >>> B = te.compute((4,), lambda i: te.sum(A[i, k], axis=k), name="B")
        >>> s = te.create_schedule(B.op)
        >>> print(lower(s, [A, B]))
        def main(A: float32[24], B: float32[4]):
            for i in range(4):
                B[i] = float32(0.0)
                B_acc = allocate([1], "float32", "local")
                B_acc[0] = B[i]
                for k in range(6):
                    B_acc[0] = B_acc[0] + A[i * 6 + k]
                B[i] = B_acc[0]
        >>> cached = s.cache_write(B, "local")
        >>> print(lower(s, [A, B]))
        def main(A: float32[24], B: float32[4]):
            B_local = allocate([4], "float32", "local")
            for i_c in range(4):
                B_local[i_c] = float32(0.0)
                for k in range(6):
                    B_local[i_c] = B_local[i_c] + A[i_c * 6 + k]
            for i in range(4):
                B[i] = B_local[i]

        Returns:
            The new tensor, whose stage does the computing; the old one's stage copies.

        Raises:
            ScheduleError: for an input, several outputs, or loops that were split or fused already.
        """
        if not isinstance(tensor, Tensor):
            raise ScheduleError(f"cache_write({tensor!r})", "give one tensor")
        stage = self[tensor]
        asked = f"cache_write({stage.op.name}, {scope!r})"
        if not isinstance(stage.op, ComputeOp):
            raise ScheduleError(asked, f"{stage.op.name} is an input and is not computed")
        if stage.relations:
            raise ScheduleError(
                asked, "its loops were split or fused already", "call cache_write first"
            )
        if stage.op.num_outputs > 1:
            raise ScheduleError(asked, "the operation has several outputs")
        old = stage.op
        axis = tuple(
            e.IterVar(a.dom, e.Var(f"{a.var.name}.c", a.dtype), e.DATA_PAR) for a in old.axis
        )
        renamed = {a.var: b.var for a, b in zip(old.axis, axis)}
        body = tuple(substitute(b, renamed) for b in old.body)
        cache = ComputeOp(f"{old.name}.{scope}", axis, old.reduce_axis, body, old.tag, old.attrs)
        new = Tensor(cache, 0)
        copy = ComputeOp(old.name, old.axis, (), (new(*[a.var for a in old.axis]),))
        self._insert(stage, cache, scope)
        self._replace(stage, copy)
        self.record("cache_write", stage, (tensor, scope), {}, (new,))
        return new

    def cache_read(
        self, tensor: Tensor, scope: str, readers: Operation | Tensor | Sequence[Any]
    ) -> Tensor:
        """Copy a tensor to ``scope`` and let ``readers`` read the copy.

        >>> A = te.placeholder((4, 6), name="A")
        >>> k = te.reduce_axis((0, 6), name="k")
        >>> B = te.compute((4,), lambda i: te.sum(A[i, k], axis=k), name="B")
        >>> s = te.create_schedule(B.op)
        >>> print(lower(s, [A, B]))
        def main(A: float32[24], B: float32[4]):
            for i in range(4):
                B[i] = float32(0.0)
                B_acc = allocate([1], "float32", "local")
                B_acc[0] = B[i]
                for k in range(6):
                    B_acc[0] = B_acc[0] + A[i * 6 + k]
                B[i] = B_acc[0]
        >>> cached = s.cache_read(A, "local", [B])
        >>> s[cached].compute_at(s[B], B.op.axis[0])
        >>> print(lower(s, [A, B]))
        def main(A: float32[24], B: float32[4]):
            for i in range(4):
                A_local = allocate([6], "float32", "local")
                for ax1 in range(6):
                    A_local[ax1] = A[i * 6 + ax1]
                B[i] = float32(0.0)
                B_acc = allocate([1], "float32", "local")
                B_acc[0] = B[i]
                for k in range(6):
                    B_acc[0] = B_acc[0] + A_local[k]
                B[i] = B_acc[0]

        Returns:
            The copy.

        Raises:
            ScheduleError: if a reader does not read the tensor.
        """
        stage = self[tensor]
        asked = f"cache_read({stage.op.name}, {scope!r})"
        many: Sequence[Any] = readers if isinstance(readers, (list, tuple)) else [readers]
        found = [self[r] for r in many]
        if not found:
            raise ScheduleError(asked, "no reader was given")
        for r in found:
            if not any(x is stage for x in self.inputs(r)):
                raise ScheduleError(
                    asked,
                    f"{r.op.name} does not read {stage.op.name}",
                    "readers: " + ", ".join(s.op.name for s in self.consumers(stage)),
                )
        axis = tuple(
            e.IterVar(e.Range(ops.const(0), d), e.Var(f"ax{k}"), e.DATA_PAR)
            for k, d in enumerate(tensor.shape)
        )
        body = (tensor(*[a.var for a in axis]),)
        copy_op = ComputeOp(f"{tensor.name}.{scope}", axis, (), body)
        copy = Tensor(copy_op, 0)

        def redirect(n: e.ProducerLoad) -> e.PrimExpr:
            n = rewrite.children(n)
            same = self.stage_map[n.producer.op] is stage
            if same and n.producer.value_index == tensor.value_index:
                return e.ProducerLoad(copy, n.indices, n.dtype)
            return n

        rewrite = Rewriter({e.ProducerLoad: redirect})
        first = min(self.stages.index(r) for r in found)
        self._insert(self.stages[first], copy_op, scope)
        for r in found:
            op = r.op
            assert isinstance(op, ComputeOp)
            new_body = tuple(rewrite(b) for b in op.body)
            self._replace_body(
                r, ComputeOp(op.name, op.axis, op.reduce_axis, new_body, op.tag, op.attrs)
            )
        self.record("cache_read", stage, (tensor, scope, [r.op for r in found]), {}, (copy,))
        return copy

    def _insert(self, before: Stage, op: ComputeOp, scope: str) -> Stage:
        stage = Stage(self, op)
        stage.scope = scope
        self.stages.insert(self.stages.index(before), stage)
        self.stage_map[op] = stage
        return stage

    def _replace(self, stage: Stage, op: ComputeOp) -> None:
        kinds = {a: k for a, k in stage.iter_var_attrs.items() if a.iter_type == e.DATA_PAR}
        order = [a for a in stage.leaf_iter_vars if a.iter_type == e.DATA_PAR]
        self._replace_body(stage, op)
        stage.reset_axes()
        stage.leaf_iter_vars = order  # a reorder made before stays
        stage.iter_var_attrs = kinds

    def _replace_body(self, stage: Stage, op: ComputeOp) -> None:
        stage.op = op
        self.stage_map[op] = stage

    def inlined(self, stage: Stage) -> bool:
        """Whether a stage is computed inside the expressions of its readers."""
        return stage.attach_type == INLINE

    def __repr__(self) -> str:
        return f"Schedule({', '.join(s.op.name for s in self.stages)})"


def _post_order(outputs: Sequence[Operation]) -> list[Operation]:
    """Every operation, producers first; deep graphs do not hit Python's recursion limit."""
    order: list[Operation] = []
    seen: set[Operation] = set()
    stack: list[tuple[Operation, bool]] = [(op, False) for op in reversed(outputs)]
    while stack:
        op, ready = stack.pop()
        if ready:
            order.append(op)
        elif op not in seen:
            seen.add(op)
            stack.append((op, True))
            stack.extend((t.op, False) for t in reversed(op.input_tensors) if t.op not in seen)
    return order
