"""From a script and its arguments to an operation: HybridOp and its tensors."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from whet.compiler.errors import ArgumentError
from whet.compiler.te.hybrid.arrays import INPUT, Array, plain
from whet.compiler.te.hybrid.program import Program
from whet.compiler.te.hybrid.source import Source
from whet.compiler.te.hybrid.statements import Statements
from whet.compiler.te.hybrid.threads import for_threads
from whet.compiler.te.lang.tensor import HybridOp, PlaceholderOp, Tensor
from whet.compiler.tir.buffer import Buffer
from whet.compiler.tir.expr import (
    DATA_PAR,
    PARALLELIZED,
    UNROLLED,
    VECTORIZED,
    BufferLoad,
    IterVar,
    PrimExpr,
    Range,
    Var,
)
from whet.compiler.tir.ops import ops
from whet.compiler.tir.stmt import (
    PARALLEL,
    SERIAL,
    BufferStore,
    For,
    Stmt,
)
from whet.compiler.tir.stmt import UNROLLED as UNROLLED_LOOP
from whet.compiler.tir.stmt import VECTORIZED as VECTORIZED_LOOP
from whet.compiler.tir.visit.rewrite import nodes_of

_ITER_TYPES = {
    SERIAL: DATA_PAR,
    UNROLLED_LOOP: UNROLLED,
    VECTORIZED_LOOP: VECTORIZED,
    PARALLEL: PARALLELIZED,
}
_READINGS = 8


def is_symbolic(*args: Any) -> bool:
    """True for arguments of which a script makes an operation; else it runs as Python."""
    for x in args:
        if isinstance(x, (list, tuple)):
            if is_symbolic(*x):
                return True
        elif isinstance(x, (Tensor, PrimExpr, IterVar)):
            return True
    return False


def operation(
    source: Source,
    signature: inspect.Signature,
    outside: Mapping[str, Any],
    args: tuple[Any, ...],
    options: Mapping[str, Any],
) -> Any:
    """The output tensors of a script for some arguments: one, or a list of several.

    Args:
        source: of the script.
        signature: its parameters.
        outside: the names that it takes from around it.
        args, options: tensors, variables, numbers, and lists of them.

    Raises:
        ScriptError: for what the subset has not.
        ArgumentError: for arguments that the script does not take.
    """
    try:
        bound = signature.bind(*args, **options)
    except TypeError as error:
        raise ArgumentError(f"te.hybrid.script({source.name})", str(error)) from error
    bound.apply_defaults()
    types: dict[tuple[Any, ...], str] = {}
    for _ in range(_READINGS):
        program = Program(types)
        inputs = _Inputs()
        values = {k: inputs.value(x, k, source) for k, x in bound.arguments.items()}
        arrays = Statements(source, outside, program).run(values)
        if not program.stale:
            break
    for x in arrays:
        x.returned = True
    op = _operation(source.name, program, inputs.arrays, arrays)
    out = [op.output(k) for k in range(op.num_outputs)]
    return out[0] if len(out) == 1 else out


class _Inputs:
    """The arguments of a script as its values; a tensor that is given twice is one array."""

    def __init__(self) -> None:
        self.arrays: dict[Tensor, Array] = {}

    def value(self, x: Any, name: str, source: Source) -> Any:
        """A tensor as an array, a list as a tuple of values."""
        if isinstance(x, Tensor):
            if x not in self.arrays:
                writable = isinstance(x.op, PlaceholderOp)
                buffer = Buffer(x.name, x.shape, x.dtype)
                self.arrays[x] = Array(buffer, INPUT, writable=writable)
            return self.arrays[x]
        if isinstance(x, (list, tuple)):
            return tuple(self.value(y, name, source) for y in x)
        if isinstance(x, IterVar):
            return x.var
        if isinstance(x, (PrimExpr, int, float, str)) or ops.is_numpy_number(x):
            return plain(x)
        raise ArgumentError(
            f"te.hybrid.script({source.name})",
            f"the argument {name} is a {type(x).__name__}, among tensors or variables",
            "give tensors, variables, numbers and lists of them; or arrays and numbers alone, "
            "to run it as Python",
        )


def _operation(
    name: str, program: Program, given: Mapping[Tensor, Array], arrays: tuple[Array, ...]
) -> HybridOp:
    body = for_threads(program.builder.get())
    used = {n.buffer for n in nodes_of(body, BufferLoad, BufferStore)}
    inputs = {t: x.buffer for t, x in given.items() if x.buffer in used}
    axis, chains = _loops(body, program.loops)
    return HybridOp(
        name,
        tuple(inputs),
        tuple(inputs.values()),
        tuple(x.buffer for x in arrays),
        body,
        axis=axis,
        chains=chains,
    )


def _loops(
    body: Stmt, kinds: Mapping[Var, str]
) -> tuple[tuple[IterVar, ...], tuple[tuple[IterVar, ...], ...]]:
    """The loops of a script as axes, in TVM's order; and those that stand directly in another."""
    loops = [n for n in reversed(nodes_of(body, For)) if n.var in kinds]
    axes: dict[Var, IterVar] = {}
    for n in loops:
        domain = Range.from_min_extent(n.min, n.extent)
        axes[n.var] = IterVar(domain, n.var, _ITER_TYPES[kinds[n.var]])
    chains, inner = [], set[Var]()
    for n in loops:
        if n.var in inner:
            continue
        chain = [axes[n.var]]
        below = n.body
        while isinstance(below, For) and below.var in axes:
            chain.append(axes[below.var])
            inner.add(below.var)
            below = below.body
        chains.append(tuple(chain))
    return tuple(axes.values()), tuple(chains)
