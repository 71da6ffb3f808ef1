"""te.gradient: reverse mode over a graph of tensors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from whet.compiler.arith.analyzer import Analyzer
from whet.compiler.errors import ArgumentError
from whet.compiler.te.lang.axes import index_type
from whet.compiler.te.lang.compute import compute
from whet.compiler.te.lang.graph import made_by, post_order
from whet.compiler.te.lang.tensor import ComputeOp, Operation, PlaceholderOp, Tensor
from whet.compiler.te.reverse_mode.domain import is_zero, solve
from whet.compiler.te.reverse_mode.expressions import partials
from whet.compiler.te.reverse_mode.functions import times
from whet.compiler.te.reverse_mode.reductions import shares
from whet.compiler.tir import dtype as dt
from whet.compiler.tir.expr import (
    COMM_REDUCE,
    EQ,
    IterVar,
    Mul,
    PrimExpr,
    ProducerLoad,
    Range,
    Var,
)
from whet.compiler.tir.ops import ops, reducers
from whet.compiler.tir.printer import expr_text
from whet.compiler.tir.visit.rewrite import nodes, substitute

Axes = list[tuple[Var, PrimExpr]]
"""Variables that run from 0, and their extents."""
Equations = list[tuple[PrimExpr, PrimExpr]]
"""Pairs of equal expressions."""


def gradient(output: Tensor, inputs: Any, head: Tensor | None = None) -> list[Tensor]:
    """The derivatives of a tensor by others, as tensors: reverse mode.

    >>> X = te.placeholder((9,), name="X")
    >>> W = te.placeholder((3,), name="W")
    >>> k = te.reduce_axis((0, 3), name="k")
    >>> Y = te.compute((4,), lambda i: te.sum(X[i * 2 + k] * W[k], axis=k), name="Y")
    >>> H = te.placeholder((4,), name="H")
    >>> dX, dW = te.gradient(Y, [X, W], head=H)
    >>> print(lower(te.create_schedule(dW.op), [X, H, dW]))
    def main(X: float32[9], H: float32[4], W_grad: float32[3]):
        for i0 in range(3):
            W_grad[i0] = float32(0.0)
            W_grad_acc = allocate([1], "float32", "local")
            W_grad_acc[0] = W_grad[i0]
            for i in range(4):
                W_grad_acc[0] = W_grad_acc[0] + H[i] * X[i * 2 + i0]
            W_grad[i0] = W_grad_acc[0]

    Zeros of Jacobians are not summed up: two windows at most read an element of ``X``, and a sum
    of two elements of ``H``, each times one of ``W``, is what ``dX`` is.

    >>> print([int(a.dom.extent) for a in dX.op.reduce_axis])
    [2]

    Where the larger of two is taken and both are equal, the first
    one counts; equal elements of a maximum over an axis share what goes to it.

    Args:
        output: what is differentiated, of floats.
        inputs: a tensor or several that it is computed from, also on the way.
        head: the derivative of something by ``output``: of shape ``(..., *output.shape)``. None:
            the whole Jacobian, of shape ``(*output.shape, *input.shape)``.

    Returns:
        A tensor for each input, of shape ``(..., *input.shape)``; zeros for one that ``output``
        does not depend on.

    Raises:
        ArgumentError: for operations without a derivative (``te.extern``), what is no tensor of
            floats, and a head of another type or shape than ``output``.
    """
    request = "gradient(output, inputs)"
    given = list(inputs) if isinstance(inputs, (list, tuple)) else [inputs]
    heads = [] if head is None else [("head", head)]
    for what, x in (("output", output), *(("an input", x) for x in given), *heads):
        if not isinstance(x, Tensor) or not dt.is_float(x.dtype):
            found = x.dtype if isinstance(x, Tensor) else type(x).__name__
            article = "an" if found[0].lower() in "aeio" else "a"
            raise ArgumentError(
                request,
                f"{what} is {article} {found}, not a tensor of floats",
                "give a tensor of floats",
            )
    request = f"gradient({output.name}, [{', '.join(x.name for x in given)}])"
    reverse = _Reverse(output, given, head, request)
    return reverse.run()


def _sizes(t: Tensor) -> str:
    return f"({', '.join(map(expr_text, t.shape))})"


@dataclass(frozen=True)
class _Term:
    """A part of what goes to a tensor: a sum over ``axes``.

    Attributes:
        axes: what is summed over; none for what is one element.
        guard: where ``head`` counts; None: everywhere.
        head, factor: what is multiplied, over the prefix, the tensor's indices and ``axes``.
    """

    axes: Axes
    guard: PrimExpr | None
    head: PrimExpr
    factor: PrimExpr


@dataclass
class _Reverse:
    """One walk from an output back to some inputs."""

    output: Tensor
    inputs: list[Tensor]
    head: Tensor | None
    request: str
    terms: dict[Tensor, list[_Term]] = field(default_factory=dict)
    made: dict[Tensor, Tensor] = field(default_factory=dict)

    def __post_init__(self) -> None:
        shape = list(self.output.shape)
        lead = shape
        if self.head is not None:
            request = f"{self.request[:-1]}, head={self.head.name})"
            if self.head.dtype != self.output.dtype:
                raise ArgumentError(
                    request,
                    f"the head is {self.head.dtype}, and {self.output.name} {self.output.dtype}",
                    f'convert it: te.compute(head.shape, lambda *i: head(*i).astype("'
                    f'{self.output.dtype}"))',
                )
            lead = list(self.head.shape[: self.head.ndim - len(shape)])
            same = Analyzer()
            tail = self.head.shape[len(lead) :]
            if len(tail) != len(shape) or not all(same.equal(a, b) for a, b in zip(tail, shape)):
                raise ArgumentError(
                    request,
                    f"the head's shape {_sizes(self.head)} does not end with that of "
                    f"{self.output.name}, {_sizes(self.output)}",
                    "give a head of shape (..., *output.shape)",
                )
        self.prefix: Axes = [(Var(f"p{k}", index_type(d)), d) for k, d in enumerate(lead)]
        self.own: dict[Tensor, Axes] = {}

    def run(self) -> list[Tensor]:
        """The derivatives by all inputs."""
        order = post_order([self.output.op])
        wanted = set(self.inputs)
        reaching: set[Tensor] = set()
        for op in order:
            own = {op.output(k) for k in range(op.num_outputs)}
            if own & wanted or any(t in reaching for t in op.input_tensors):
                reaching |= own
        self.reaching = reaching
        for op in reversed(order):
            outputs = [op.output(k) for k in range(op.num_outputs)]
            if not any(t in self.terms or t == self.output for t in outputs):
                continue
            if not any(t in reaching for t in op.input_tensors):
                continue
            self._differentiate(op)
        return [self._adjoint(t) for t in self.inputs]

    def _differentiate(self, op: Operation) -> None:
        if isinstance(op, PlaceholderOp):
            return
        if not isinstance(op, ComputeOp):
            raise ArgumentError(
                self.request,
                f"{op.name} {made_by(op)}, which has no derivative here",
                "differentiate up to there, and give what you know as head=",
            )
        for tensor in (op.output(k) for k in range(op.num_outputs)):
            concerned = tensor in self.terms or tensor == self.output
            if concerned and dt.is_float(tensor.dtype):
                self._through(op, tensor)

    def _through(self, op: ComputeOp, tensor: Tensor) -> None:
        """Hand on what goes to one output of a computation to all that it reads."""
        at = tuple(a.var for a in op.axis)
        jacobian = tensor == self.output and self.head is None and tensor not in self.terms
        if jacobian:
            seed: PrimExpr = ops.const(1.0, tensor.dtype)
            equations: Equations = [(v, p) for v, (p, _) in zip(at, self.prefix)]
        else:
            adjoint = self._adjoint(tensor)
            seed = adjoint(*(p for p, _ in self.prefix), *at)
            equations = []
        head = Var("head", seed.dtype)

        def is_wanted(n: PrimExpr) -> bool:
            return isinstance(n, ProducerLoad) and n.producer in self.reaching

        for share in shares(op, tensor, head, self.request):
            for p in partials(share.source, share.value, is_wanted, self.request):
                guards = (*share.guards, *p.guards)
                self._collect(share.axes, p.leaf, equations, guards, (head, seed, p.value))

    def _collect(
        self,
        axes: Sequence[IterVar],
        read: PrimExpr,
        equations: Equations,
        guards: tuple[PrimExpr, ...],
        parts: tuple[Var, PrimExpr, PrimExpr],
    ) -> None:
        """Add what goes to a tensor by one read of it."""
        assert isinstance(read, ProducerLoad)
        tensor: Tensor = read.producer
        own = self._axes_of(tensor)
        analyzer = Analyzer()
        for v, extent in (*self.prefix, *own):
            analyzer.bind_loop(v, ops.const(0, v.dtype), extent)
        begun: dict[Var, PrimExpr] = {}
        summed: Axes = []
        for a in axes:
            v = Var(a.var.name, a.var.dtype)
            analyzer.bind_loop(v, ops.const(0, v.dtype), a.domain.extent)
            summed.append((v, a.domain.extent))
            begun[a.var] = ops.add(a.domain.min, v)
        renamed = partial(substitute, values=begun)
        equal = [(renamed(a), b) for a, b in equations]
        equal += [(renamed(i), v) for i, (v, _) in zip(read.indices, own)]
        domain = solve(analyzer, summed, equal)

        def settled(x: PrimExpr) -> PrimExpr:
            return analyzer.simplify(substitute(renamed(x), domain.values))

        conditions = []
        for c in (*domain.conditions, *(settled(g) for g in guards)):
            c = analyzer.simplify(c)
            if is_zero(c):
                return
            if not analyzer.can_prove(c):
                conditions.append(c)
        head, seed, value = parts
        guard = ops.all_of(*conditions) if conditions else None
        given, factor = settled(seed), settled(value)
        beside = _beside(factor, head, analyzer)
        if beside is None:
            given = substitute(factor, {head: given})
            beside = ops.const(1.0, given.dtype)
        term = _Term(domain.axes, guard, given, beside)
        self.terms.setdefault(tensor, []).append(term)
        self.made.pop(tensor, None)

    def _axes_of(self, tensor: Tensor) -> Axes:
        if tensor not in self.own:
            shape = tensor.shape
            self.own[tensor] = [(Var(f"i{k}", index_type(d)), d) for k, d in enumerate(shape)]
        return self.own[tensor]

    def _adjoint(self, tensor: Tensor) -> Tensor:
        """All that goes to a tensor, as a tensor."""
        if tensor in self.made:
            return self.made[tensor]
        name = f"{tensor.name.replace('.', '_')}_grad"
        parts = list(self.terms.get(tensor, ()))
        if tensor == self.output:
            if self.head is not None and not parts:
                return self.head
            parts.append(self._seed(tensor))
        alone = len(parts) == 1
        values = [
            _value(t) if not t.axes else self._tensor(tensor, t, f"{name}_{k}")
            for k, t in enumerate(parts)
            if not alone
        ]
        if alone:
            out = self._tensor(tensor, parts[0], name)
        else:
            frame = [*self.prefix, *self._axes_of(tensor)]
            at = [v for v, _ in frame]
            total: PrimExpr = ops.const(0.0, tensor.dtype)
            for k, x in enumerate(values):
                part = x(*at) if isinstance(x, Tensor) else x
                total = part if k == 0 else ops.add(total, part)
            out = _computed(frame, total, [], name)
        self.made[tensor] = out
        return out

    def _seed(self, tensor: Tensor) -> _Term:
        """What goes to the output from outside: the head, or ones where indices are equal."""
        own = self._axes_of(tensor)
        one = ops.const(1.0, tensor.dtype)
        if self.head is not None:
            at = [v for v, _ in (*self.prefix, *own)]
            return _Term([], None, self.head(*at), one)
        same = [ops.compare(EQ, p, v) for (p, _), (v, _) in zip(self.prefix, own)]
        return _Term([], ops.all_of(*same) if same else None, one, one)

    def _tensor(self, tensor: Tensor, term: _Term, name: str) -> Tensor:
        frame = [*self.prefix, *self._axes_of(tensor)]
        return _computed(frame, _value(term), term.axes, name, tensor.dtype)


def _value(term: _Term) -> PrimExpr:
    """A term at one step of its axes."""
    value = term.head
    if term.guard is not None:
        value = ops.if_then_else(term.guard, value, ops.const(0.0, value.dtype))
    return times(value, term.factor)


def _beside(factor: PrimExpr, head: Var, analyzer: Analyzer) -> PrimExpr | None:
    """What a head is multiplied by, if that is one element that may be read without a guard.

    The product then has the form that schedules know: a padded operand and a whole one.
    """
    if type(factor) is not Mul:
        return None
    for this, other in ((factor.a, factor.b), (factor.b, factor.a)):
        if this is head and isinstance(other, ProducerLoad) and not _guarded(other, analyzer):
            return other
    return None


def _guarded(read: ProducerLoad, analyzer: Analyzer) -> bool:
    """True for a read that may be outside of its tensor."""
    if any(isinstance(n, ProducerLoad) for n in nodes(read.indices)):
        return True
    for index, extent in zip(read.indices, read.producer.shape):
        inside = analyzer.at_most(ops.const(0, index.dtype), index)
        if not inside or not analyzer.less(index, extent):
            return True
    return False


def _computed(
    frame: Axes, value: PrimExpr, summed: Axes, name: str, dtype: str | None = None
) -> Tensor:
    axes = [
        IterVar(Range.from_min_extent(ops.const(0, v.dtype), extent), v, COMM_REDUCE)
        for v, extent in summed
    ]
    if dtype is not None:
        value = ops.cast(dtype, value)

    def element(*i: Any) -> PrimExpr:
        known = {v: x for (v, _), x in zip(frame, i)}
        here = substitute(value, known)
        return reducers.sum(here, axis=axes) if axes else here

    return compute(tuple(extent for _, extent in frame), element, name=name)
