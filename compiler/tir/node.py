"""The base classes of nodes, and Python's operators on everything that stands in an expression.

Nodes know nothing of what is done with them: :mod:`tir.ops` fills in the operators and the rules
that complete a node made by hand, :mod:`tir.printer` its text, when the package is imported.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, dataclass_transform

from whet.compiler.errors import ArgumentError


class NoNumber(ArgumentError, TypeError):
    """An expression was taken for a number."""


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
    __dataclass_fields__: ClassVar[dict[str, Any]]

    def same_as(self, other: Any) -> bool:
        """True for the same object."""
        return self is other


class ExprOp(Node):
    """Python's operators, for everything that can stand in an expression.

    What they do is the table of :mod:`tir.ops.operators`.
    """

    __slots__ = ()
    __array_ufunc__: Any  # numpy's scalars leave the operators to us, np.exp(expr) is refused

    if TYPE_CHECKING:

        def _of_two(self, other: Any, /) -> PrimExpr: ...
        def _of_one(self) -> PrimExpr: ...
        def __eq__(self, other: Any) -> Any: ...
        def __ne__(self, other: Any) -> Any: ...
        def astype(self, dtype: str) -> PrimExpr: ...

        __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = _of_two
        __truediv__ = __rtruediv__ = __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = _of_two
        __and__ = __rand__ = __or__ = __ror__ = __xor__ = __rxor__ = _of_two
        __lshift__ = __rlshift__ = __rshift__ = __rrshift__ = equal = _of_two
        __lt__ = __le__ = __gt__ = __ge__ = _of_two
        __neg__ = __invert__ = _of_one

    __hash__ = object.__hash__

    def __bool__(self) -> bool:
        raise ArgumentError(
            "the truth value of an expression",
            "it has none before the kernel runs, so `if`, `and`, `or` and `not` cannot be used",
            "use te.if_then_else, te.all, te.any or tir.Not instead",
        )

    def __float__(self) -> float:
        """The number that a constant is.

        Raises:
            NoNumber: for anything that is known only when the kernel runs.
        """
        raise NoNumber(
            "float(x), or a function of Python's math, of an expression x",
            "its value is not known before the kernel runs",
            "te has these functions: te.sqrt(x), te.exp(x), te.floor(x); x.astype('float32') casts",
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


T = TypeVar("T")


@dataclass_transform(eq_default=False, field_specifiers=(field,))
def node_class(*fields: str) -> Callable[[type[T]], type[T]]:
    """Decorator of a class of nodes: its fields are slots, and it equals only itself.

    Args:
        fields: those that a node made by hand may have as other values than expressions; then it
            is completed.
    """

    def complete(node: Any) -> None:
        for name in fields:
            held = getattr(node, name)
            for x in held if type(held) is tuple else (held,):
                if not isinstance(x, PrimExpr):
                    node.infer()
                    return

    def decorate(kind: type[T]) -> type[T]:
        if fields:
            kind.__post_init__ = complete  # type: ignore[attr-defined]
        return dataclass(slots=True, eq=False)(kind)

    return decorate
