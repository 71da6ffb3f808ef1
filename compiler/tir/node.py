"""The base classes of nodes, and Python's operators on everything that stands in an expression.

Nodes know nothing of what is done with them: :mod:`tir.ops` fills in the operators and the rules
that complete a node made by hand, :mod:`tir.printer` its text, when the package is imported.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

from whet.compiler.errors import ArgumentError


class Node:
    """A piece of loop IR.

    Attributes:
        infer: completes a node whose fields were given by hand: values become expressions, a
            missing dtype is inferred. The rules are in :mod:`tir.ops.infer_dtype`.
        text: the node as the printer shows it.
        parts: the children in order, by the table of :mod:`tir.visit.rewrite`.
        with_parts: the same node with other children, by this table, too.
    """

    __slots__ = ()
    infer: ClassVar[Callable[..., None]]
    text: ClassVar[Callable[..., str]]
    parts: ClassVar[tuple[Any, ...]]
    with_parts: ClassVar[Callable[..., Any]]

    def same_as(self, other: Any) -> bool:
        """True for the same object."""
        return self is other


if TYPE_CHECKING:
    Operator = Callable[[Any, Any], "PrimExpr"]


class ExprOp(Node):
    """Python's operators, for everything that can stand in an expression.

    What they do is the table of :mod:`tir.ops.operators`.
    """

    __slots__ = ()
    __array_ufunc__ = None  # numpy scalars leave the operators to us, np.exp(expr) is refused

    if TYPE_CHECKING:
        __add__: ClassVar[Operator]
        __radd__: ClassVar[Operator]
        __sub__: ClassVar[Operator]
        __rsub__: ClassVar[Operator]
        __mul__: ClassVar[Operator]
        __rmul__: ClassVar[Operator]
        __truediv__: ClassVar[Operator]
        __rtruediv__: ClassVar[Operator]
        __floordiv__: ClassVar[Operator]
        __rfloordiv__: ClassVar[Operator]
        __mod__: ClassVar[Operator]
        __rmod__: ClassVar[Operator]
        __and__: ClassVar[Operator]
        __rand__: ClassVar[Operator]
        __or__: ClassVar[Operator]
        __ror__: ClassVar[Operator]
        __xor__: ClassVar[Operator]
        __rxor__: ClassVar[Operator]
        __lshift__: ClassVar[Operator]
        __rlshift__: ClassVar[Operator]
        __rshift__: ClassVar[Operator]
        __rrshift__: ClassVar[Operator]
        __lt__: ClassVar[Operator]
        __le__: ClassVar[Operator]
        __gt__: ClassVar[Operator]
        __ge__: ClassVar[Operator]
        __neg__: ClassVar[Callable[[Any], PrimExpr]]
        __invert__: ClassVar[Callable[[Any], PrimExpr]]
        astype: ClassVar[Callable[[Any, str], PrimExpr]]
        equal: ClassVar[Operator]

        def __eq__(self, other: Any) -> Any: ...
        def __ne__(self, other: Any) -> Any: ...

    __hash__ = object.__hash__

    def __bool__(self) -> bool:
        raise ArgumentError(
            "the truth value of an expression",
            "it has none before the kernel runs, so `if`, `and`, `or` and `not` cannot be used",
            "use te.if_then_else, te.all, te.any or tir.Not instead",
        )


class PrimExpr(ExprOp):
    """A scalar or vector value of type ``dtype``."""

    __slots__ = ()
    dtype: str

    def __post_init__(self) -> None:
        if not self.dtype:
            self.infer()

    def __int__(self) -> int:
        """The number that a constant is.

        Raises:
            ArgumentError: for anything that is known only when the kernel runs.
        """
        raise ArgumentError(
            f"int({type(self).__name__})", "its value is not known before the kernel runs"
        )

    def __str__(self) -> str:
        return self.text()


def are_expressions(values: Any) -> bool:
    """True for a tuple of expressions, which needs no conversion."""
    if type(values) is not tuple:
        return False
    for x in values:  # noqa: SIM110  (most nodes are made by way of this)
        if not isinstance(x, PrimExpr):
            return False
    return True
