"""Expressions of a script: from Python's syntax to loop IR, or to Python's own values.

What is known when the script is read (numbers, shapes, names from outside the function) is
computed at once, as Python does; the rest becomes expressions of loop IR.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from typing import Any

from whet.compiler.errors import WhetError
from whet.compiler.te.hybrid.arrays import Array, Loop, NewArray, Part, Scalar, plain
from whet.compiler.te.hybrid.calls import FUNCTIONS
from whet.compiler.te.hybrid.source import ScriptError, Source
from whet.compiler.tir import dtype as dt
from whet.compiler.tir.expr import (
    BufferLoad,
    Div,
    FloorDiv,
    FloorMod,
    IterVar,
    Mod,
    PrimExpr,
    Var,
)
from whet.compiler.tir.ops import mathematics, ops
from whet.compiler.tir.visit.rewrite import nodes_of

_ABSENT = object()


def _power(a: Any, b: Any) -> Any:
    symbolic = isinstance(a, PrimExpr) or isinstance(b, PrimExpr)
    return mathematics.power(a, b) if symbolic else a**b


_OPERATORS: Mapping[type, Callable[..., Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: _power,
    ast.LShift: operator.lshift,
    ast.RShift: operator.rshift,
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
    ast.BitXor: operator.xor,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
    ast.Invert: operator.invert,
}


def reads_memory(x: Any) -> bool:
    """True for an expression whose value may change from one statement to the next."""
    return isinstance(x, PrimExpr) and bool(nodes_of(x, BufferLoad))


def operated(kind: ast.AST, a: Any, b: Any) -> Any:
    """``a`` and ``b`` under an operator of Python's."""
    return _OPERATORS[type(kind)](a, b)


class Expressions:
    """Evaluates the expressions of one script.

    Args:
        source: of the script.
        outside: the names that the function takes from around it.
        scripts: calls another script with some arguments.
    """

    def __init__(
        self,
        source: Source,
        outside: Mapping[str, Any],
        scripts: Callable[[ast.Call, Any, list[Any], dict[str, Any]], Any],
    ) -> None:
        self.source = source
        self.outside = outside
        self.scopes: list[dict[str, Any]] = [{}]
        self._scripts = scripts
        self._rules: dict[type, Callable[[Any], Any]] = {
            ast.Constant: lambda n: n.value,
            ast.Name: self._name,
            ast.Tuple: lambda n: tuple(map(self.value, n.elts)),
            ast.List: lambda n: [self.value(x) for x in n.elts],
            ast.BinOp: self._binary,
            ast.UnaryOp: self._unary,
            ast.BoolOp: self._logical,
            ast.Compare: self._comparison,
            ast.IfExp: self._choice,
            ast.Attribute: self._attribute,
            ast.Subscript: self._element,
            ast.Call: self._call,
        }

    # values

    def value(self, node: ast.expr) -> Any:
        """The value of an expression: loop IR, or a value of Python's.

        Raises:
            ScriptError: for what the subset has not.
        """
        rule = self._rules.get(type(node))
        if rule is None:
            raise self.source.error(
                node, f"there is no {type(node).__name__} in a script",
                "expressions are numbers, names, elements, operators, conditions and calls",
            )  # fmt: skip
        try:
            return plain(rule(node))
        except ScriptError:
            raise
        except WhetError as error:
            why, *more = str(error).splitlines()
            raise self.source.error(node, why, "\n".join(x.strip() for x in more)) from error
        except (TypeError, ValueError, ArithmeticError, LookupError, AttributeError) as error:
            raise self.source.error(node, f"{type(error).__name__}: {error}") from error

    def number(self, node: ast.expr) -> Any:
        """The value of an expression that is a number or a condition."""
        x = self.value(node)
        return self.checked(x, node)

    def checked(self, x: Any, node: ast.AST) -> Any:
        """``x``, which must be a number or a condition."""
        if isinstance(x, Array) and x.ndim == 0:
            return x.load(())
        if isinstance(x, Array | Part):
            name = x.name if isinstance(x, Array) else x.array.name
            raise self.source.error(
                node, f"{name} is an array where a number is expected",
                f"give an index for each dimension: {name}[i]",
            )  # fmt: skip
        if not isinstance(x, (PrimExpr, int, float)) and not ops.is_numpy_number(x):
            raise self.source.error(node, f"a {_kind(x)} is no number")
        return x

    def find(self, name: str) -> Any:
        """The value that a name of the function has here; None for no value."""
        for scope in reversed(self.scopes):
            if name in scope:
                return scope[name]
        return None

    # rules

    def _name(self, n: ast.Name) -> Any:
        found = self.find(n.id)
        if found is not None:
            return found.load() if isinstance(found, Scalar) else found
        if n.id in self.outside:
            x = self.outside[n.id]
            return x.var if isinstance(x, IterVar) else x
        raise self.source.error(
            n, f"{n.id} is not known here",
            "a name is an argument, a loop's variable, what was assigned before in this loop or "
            "around it, or a number or tuple outside of the function",
        )  # fmt: skip

    def _binary(self, n: ast.BinOp) -> Any:
        if type(n.op) not in _OPERATORS:
            raise self.source.error(n, f"there is no operator {type(n.op).__name__} in a script")
        return operated(n.op, *self._pair(n.left, n.right))

    def _pair(self, left: ast.expr, right: ast.expr) -> tuple[Any, Any]:
        a, b = self.value(left), self.value(right)
        if isinstance(a, PrimExpr) or isinstance(b, PrimExpr):
            return self.checked(a, left), self.checked(b, right)
        known = (Array, Part, Loop, NewArray)
        if isinstance(a, known) or isinstance(b, known):
            return self.checked(a, left), self.checked(b, right)
        return a, b

    def _unary(self, n: ast.UnaryOp) -> Any:
        x = self.number(n.operand)
        if isinstance(n.op, ast.Not):
            return ops.logical_not(x) if isinstance(x, PrimExpr) else not x
        return _OPERATORS[type(n.op)](x)

    def _logical(self, n: ast.BoolOp) -> Any:
        join, stop = (
            (ops.logical_and, False) if isinstance(n.op, ast.And) else (ops.logical_or, True)
        )
        out: Any = _ABSENT
        for part in n.values:
            x = self.number(part)
            if isinstance(x, PrimExpr) and not dt.is_bool(x.dtype):
                x = ops.convert(x != 0)
            if not isinstance(x, PrimExpr) and out is _ABSENT:
                if bool(x) is stop:
                    return x
                last = x
                continue
            out = x if out is _ABSENT else join(out, x if isinstance(x, PrimExpr) else bool(x))
        return last if out is _ABSENT else out

    def _comparison(self, n: ast.Compare) -> Any:
        out: Any = _ABSENT
        left = n.left
        for op, right in zip(n.ops, n.comparators):
            if type(op) not in _OPERATORS:
                raise self.source.error(
                    n, f"there is no operator {type(op).__name__} in a script",
                    "compare with ==, !=, <, <=, > or >=",
                )  # fmt: skip
            x = operated(op, *self._pair(left, right))
            out = x if out is _ABSENT else ops.logical_and(out, x)
            left = right
        return out

    def _choice(self, n: ast.IfExp) -> Any:
        condition = self.condition(n.test)
        if isinstance(condition, bool):
            return self.value(n.body if condition else n.orelse)
        a, b = self.number(n.body), self.number(n.orelse)
        unsafe = any(
            isinstance(x, PrimExpr) and nodes_of(x, BufferLoad, Div, Mod, FloorDiv, FloorMod)
            for x in (a, b)
        )
        return (ops.if_then_else if unsafe else ops.select)(condition, a, b)

    def condition(self, node: ast.expr) -> Any:
        """A condition: a bool where it is known by now, else loop IR."""
        x = self.number(node)
        if not isinstance(x, PrimExpr):
            return bool(x)
        known = plain(x) if dt.is_bool(x.dtype) else ops.convert(x != 0)
        value = getattr(known, "value", None)
        return bool(value) if type(known).__name__ == "IntImm" else known

    def _attribute(self, n: ast.Attribute) -> Any:
        x = self.value(n.value)
        if isinstance(x, (Array, Part)) and n.attr not in ("shape", "dtype", "ndim"):
            raise self.source.error(
                n, f"an array has no {n.attr!r} in a script", "it has shape, dtype and ndim"
            )
        if isinstance(x, PrimExpr) and n.attr != "dtype":
            raise self.source.error(n, f"a number has no {n.attr!r} in a script",
                                    "float32(x) converts x")  # fmt: skip
        return getattr(x, n.attr)

    def _element(self, n: ast.Subscript) -> Any:
        x, given = self.value(n.value), self.indices(n)
        if isinstance(x, Part):
            return x.array.load((*x.given, *given))
        if isinstance(x, Array):
            return x.load(given)
        for i in given:
            if isinstance(i, PrimExpr):
                raise self.source.error(
                    n, f"a {_kind(x)} is indexed by {i}, which is not known when the script is "
                    "read",
                    "loop over it with const_range",
                )  # fmt: skip
            x = x[i]
        return x

    def indices(self, n: ast.Subscript) -> list[Any]:
        """The indices of an element, as values."""
        parts = n.slice.elts if isinstance(n.slice, ast.Tuple) else [n.slice]
        for part in parts:
            if isinstance(part, ast.Slice):
                raise self.source.error(
                    n, "a script has no slices", "write a loop over the elements"
                )
        return [self.number(p) if not _is_text(p) else self.value(p) for p in parts]

    def _call(self, n: ast.Call) -> Any:
        if not isinstance(n.func, ast.Name):
            raise self.source.error(
                n, "a script calls functions by their names alone",
                "e.g. exp(x), float32(x); another script is called by its name, too",
            )  # fmt: skip
        name = n.func.id
        if any(isinstance(a, ast.Starred) for a in n.args) or any(
            k.arg is None for k in n.keywords
        ):
            raise self.source.error(n, "a script has no * and ** in calls")
        args = [self.value(a) for a in n.args]
        options = {str(k.arg): self.value(k.value) for k in n.keywords}
        if name in FUNCTIONS:
            return FUNCTIONS[name](*args, **options)
        function = self.outside.get(name)
        if hasattr(function, "__whet_script__"):
            return self._scripts(n, function, args, options)
        raise self.source.error(
            n, f"a script cannot call {name}" if function is not None else f"there is no {name}",
            "it calls other scripts, and: " + ", ".join(sorted(FUNCTIONS)),
        )  # fmt: skip


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _kind(x: Any) -> str:
    known = {NewArray: "array that has no name yet", Loop: "loop's range", Var: "variable"}
    return known.get(type(x), type(x).__name__)
