"""Intrinsics of a user's own: what they are lowered to for each kind of target, and their effects.

>>> from whet import ir, tir
>>> @ir.register_intrin_lowering("tir.cube", target="default")
... def cube(call):
...     return call.args[0] * call.args[0] * call.args[0]
>>> tir.call_intrin("float32", "tir.cube", tir.Var("x", "float32")).op.name
'tir.cube'
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from whet.compiler.errors import ArgumentError
from whet.compiler.tir.expr import Call, PrimExpr

Lowering = Callable[[Call], PrimExpr | None]

#: (kind of target or "default", name) -> the level and the function of the highest level
LOWERINGS: dict[tuple[str, str], tuple[int, Lowering]] = {}
#: intrinsics that do something besides computing a value
IMPURE: set[str] = set()


class CallEffectKind:
    """The effects that a call may have, with TVM's numbers."""

    ExprAnnotation, Pure, ReadState, UpdateState = 0, 1, 2, 3
    SpecialCallArg, EmbedInfo, ControlJump = 4, 5, 6


def register_intrin_lowering(
    op_name: str, target: str, *, f: Lowering | None = None, level: int = 10
) -> Any:
    """Say what an intrinsic becomes when code for a kind of target is generated.

    Args:
        op_name: its name, e.g. ``"tir.my_exp"``; also of one that is known.
        target: a kind of target, e.g. ``"llvm"``, or ``"default"`` for those without a rule.
        f: from the call to the expression in its place; None or the call itself leaves it. It may
            get vectors. Without ``f`` this is a decorator.
        level: of two rules for the same, the one of the higher level holds; of equal ones the last.

    Raises:
        ArgumentError: for what is no name or no function.
    """
    if not isinstance(op_name, str) or not isinstance(target, str):
        raise ArgumentError(
            f"register_intrin_lowering({op_name!r}, {target!r})", "both are names, a str"
        )

    def register(rule: Lowering) -> Lowering:
        if not callable(rule):
            raise ArgumentError(f"register_intrin_lowering(f={rule!r})", "it cannot be called")
        key = target, op_name.removeprefix("tir.")
        if key not in LOWERINGS or LOWERINGS[key][0] <= level:
            LOWERINGS[key] = level, rule
        return rule

    return register if f is None else register(f)


def register_op_attr(op_name: str, attr_key: str, value: Any = None, level: int = 10) -> None:
    """Set the effects of an intrinsic's calls: ``attr_key`` is ``"TCallEffectKind"``.

    Args:
        op_name: its name, e.g. ``"tir.my_exp"``.
        attr_key: ``"TCallEffectKind"``.
        value: a number of :class:`CallEffectKind`; without a word, a call only computes a value.
        level: not used; the last word holds.

    Raises:
        ArgumentError: for another key or value.
    """
    request = f"register_op_attr({op_name!r}, {attr_key!r}, {value!r})"
    if attr_key != "TCallEffectKind":
        raise ArgumentError(request, "the one attribute is TCallEffectKind")
    if not isinstance(value, int) or not 0 <= value <= CallEffectKind.ControlJump:
        raise ArgumentError(request, "there is no such kind of effect", "tir.CallEffectKind.Pure")
    short = op_name.removeprefix("tir.")
    if value <= CallEffectKind.Pure:
        IMPURE.discard(short)
    else:
        IMPURE.add(short)
