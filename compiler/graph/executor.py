"""The executor: one function that calls a model's kernels, over an arena and constants.

model(inputs ..., outputs ..., constants, arena):
    code = k0__raw(&inputs[0], &constants[64], &arena[0]);  if (code) return code
    code = k1__raw(&arena[0], &outputs[0]);                 if (code) return code
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from whet.compiler.abi.entry import RETURN
from whet.compiler.graph.ir import Value
from whet.compiler.tir import dtype as dt
from whet.compiler.tir.buffer import Buffer
from whet.compiler.tir.constants import const
from whet.compiler.tir.expr import NE, BufferLoad, Call, PrimExpr, StringImm, Var
from whet.compiler.tir.function import PrimFunc
from whet.compiler.tir.stmt import Evaluate, IfThenElse, LetStmt, SeqStmt, Stmt

ARENA, CONSTANTS = "whet.arena", "whet.constants"
"""Names of arguments that no value of a model has."""


@dataclass(frozen=True)
class Place:
    """Where an array is: at so many bytes of an argument of the model's function.

    Attributes:
        argument: :data:`ARENA`, :data:`CONSTANTS`, or the name of an input or an output.
        offset: bytes.
    """

    argument: str
    offset: int = 0


@dataclass(frozen=True)
class Step:
    """The call of a kernel.

    Attributes:
        kernel: its symbol, whose raw function is ``kernel__raw``.
        places: of its arguments.
    """

    kernel: str
    places: tuple[Place, ...]


def model_function(
    name: str,
    inputs: Sequence[Value],
    outputs: Sequence[Value],
    constants: int,
    arena: int,
    steps: Sequence[Step],
) -> PrimFunc:
    """The function that runs a model.

    Args:
        name: its symbol.
        inputs, outputs: what it is given; the outputs are written.
        constants, arena: bytes of these two arguments, behind them.
        steps: in order.
    """
    given = [*inputs, *outputs]
    buffers = {v.name: Buffer(v.name, tuple(map(const, v.shape)), v.dtype) for v in given}
    for word, size in ((CONSTANTS, constants), (ARENA, arena)):
        buffers[word] = Buffer(word, (const(max(size, 1)),), "uint8")
    read_only = {*(v.name for v in inputs), CONSTANTS}
    body = SeqStmt(tuple(_call(step, buffers, read_only) for step in steps))
    return PrimFunc(tuple(buffers.values()), body, attrs={"global_symbol": name})


def _call(step: Step, buffers: Mapping[str, Buffer], read_only: Collection[str]) -> Stmt:
    given = [_address(buffers[p.argument], p.offset, p.argument in read_only) for p in step.places]
    call = Call("int32", "call_extern", (StringImm(f"{step.kernel}__raw"), *given))
    code = Var("code", "int32")
    failed = Evaluate(Call("int32", RETURN, (code,)))
    return LetStmt(code, call, IfThenElse(NE(code, const(0, "int32"), "bool"), failed))


def _address(b: Buffer, offset: int, only_read: bool) -> PrimExpr:
    """The address of so many bytes, of whole elements, behind the start of an array."""
    shape = [int(d) for d in b.shape]
    size = math.prod(shape)
    place: list[PrimExpr] = []
    left = offset // dt.itemsize(b.dtype)
    for extent in reversed(shape):
        left, at = divmod(left, max(extent, 1))
        place.insert(0, const(at))
    mask = const(1 if only_read else 3)
    return Call("handle", "tvm_access_ptr", (BufferLoad(b, tuple(place)), const(size), mask))
