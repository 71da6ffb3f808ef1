"""The two functions of a schedule that computes something ahead: whose argument is which."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from whet.compiler.abi.signature import Ahead
from whet.compiler.errors import LowerError
from whet.compiler.te.lang.tensor import ComputeOp, Tensor
from whet.compiler.te.primitives.prepack import ahead_part, ahead_stages, kernel_part, weights
from whet.compiler.te.primitives.transform_layout import layout_shape
from whet.compiler.te.schedule import Schedule
from whet.compiler.te.stage import Stage
from whet.compiler.tir.buffer import Buffer
from whet.compiler.tir.expr import Var
from whet.compiler.tir.visit.rewrite import nodes

Buffers = dict[Tensor, Buffer]
Params = list[Buffer | Var]
SUFFIX = "_ahead"
"""The end of the name of the function that packs."""


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """The source of one function.

    Attributes:
        schedule: its stages.
        buffers: where its inputs, outputs and other arguments live.
        params: its parameters, in order.
    """

    schedule: Schedule
    buffers: Buffers
    params: Params


@dataclass(frozen=True, slots=True, eq=False)
class _Pack:
    """One stage that is computed ahead: its buffer, and the places of what it is made from."""

    stage: Stage
    buffer: Buffer
    places: list[int]


def split(
    schedule: Schedule, buffers: Buffers, params: Params, name: str
) -> tuple[Part, Part, Ahead]:
    """The kernel, what is computed ahead of it, and how their arguments belong together.

    Args:
        schedule: some stage of it is computed ahead.
        buffers: tensor -> its buffer, for all arguments; and what ``binds`` has given.
        params: the arguments in order, weights included.
        name: the kernel's name.

    Raises:
        ScheduleError: a stage cannot be computed ahead any more.
        LowerError: an argument is missing, is itself computed ahead, or is a number that the
            computation ahead uses.
    """
    packs = [_pack(schedule, stage, buffers, params) for stage in ahead_stages(schedule)]
    packs.sort(key=lambda p: p.places[0])
    kernel, ahead = kernel_part(schedule), ahead_part(schedule)
    at = {p.places[0]: p for p in packs}
    dropped = {k for p in packs for k in p.places} - at.keys()
    places = [k for k in range(len(params)) if k not in dropped]
    given = sorted(k for p in packs for k in p.places)
    kernel_params: Params = [at[k].buffer if k in at else params[k] for k in places]
    made = {kernel.stage_map[p.stage.op].op.output(0): p.buffer for p in packs}
    outputs = {p.stage.op.output(0): _twin(p.buffer) for p in packs}
    _check_arguments(ahead, buffers, params, given)
    link = Ahead(
        name + SUFFIX, tuple(given), tuple(places.index(p.places[0]) for p in packs), tuple(places)
    )
    ahead_params: Params = [*(params[k] for k in given), *outputs.values()]
    return (
        Part(kernel, _of(kernel, buffers) | made, kernel_params),
        Part(ahead, _of(ahead, buffers) | outputs, ahead_params),
        link,
    )


def _pack(schedule: Schedule, stage: Stage, buffers: Buffers, params: Params) -> _Pack:
    places = []
    for w in weights(schedule, stage):
        buffer = buffers.get(w.origin_op.output(0))
        if buffer is None or not any(buffer is p for p in params):
            raise LowerError(
                f"lower(schedule of {', '.join(o.name for o in schedule.outputs)}, args)",
                f"the input {w.op.name} is not in args",
                f"args name {w.op.name}: {stage.op.name}, computed ahead from it, takes its place",
            )
        places.append(next(k for k, p in enumerate(params) if p is buffer))
    t = stage.op.output(0)
    given = buffers.get(t) or buffers.get(stage.origin_op.output(0))
    if given is not None and any(given is p for p in params):
        raise LowerError(
            f"lower(..., args): {t.name}",
            f"{t.name} is computed ahead, and takes the place of what it is computed from",
            f"leave {t.name} out of args",
        )
    return _Pack(
        stage, given or Buffer(t.name, tuple(layout_shape(stage, t.shape)), t.dtype), sorted(places)
    )


def _twin(b: Buffer) -> Buffer:
    return Buffer(b.name, b.shape, b.dtype, b.storage_scope, b.strides)


def _of(part: Schedule, buffers: Mapping[Tensor, Buffer]) -> Buffers:
    """The buffers of a part's own stages."""
    own = set(part.stages)
    return {t: b for t, b in buffers.items() if part.stage_map.get(t.op) in own}


def _check_arguments(ahead: Schedule, buffers: Buffers, params: Params, given: list[int]) -> None:
    """Refuse arguments that only the computation ahead needs, besides its weights."""
    made = ", ".join(o.name for o in ahead.outputs)
    numbers = {p: p.name for p in params if isinstance(p, Var)}
    for stage in ahead.stages:
        for n in nodes(stage.op.body) if isinstance(stage.op, ComputeOp) else ():
            if n in numbers:
                raise LowerError(
                    f"lower(..., args): {stage.op.name} uses {numbers[n]}",
                    f"{numbers[n]} is a number that each call gives, and {made} is computed ahead",
                    f"compute {made} with compute_root, or write {numbers[n]} as a constant",
                )
    own = set(ahead.stages)
    for t, b in buffers.items():
        place = next((k for k, p in enumerate(params) if p is b), None)
        if place is not None and place not in given and ahead.stage_map.get(t.op) in own:
            raise LowerError(
                f"lower(..., args): {t.name}",
                f"{t.name} is computed ahead of the kernel, for {made} alone",
                f"leave {t.name} out of args",
            )
