"""Maps of indices: from where an element was to where it is kept.

An :class:`IndexMap` takes indices apart into digits and puts the digits together in another order:
``lambda n, h, w, c: [n, c // 4, h, w, c % 4]``.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from whet.compiler.errors import ArgumentError, Text
from whet.compiler.tir.expr import (
    GE,
    Add,
    BinaryOp,
    FloorDiv,
    FloorMod,
    Mul,
    PrimExpr,
    Range,
    Sub,
    Var,
    int_value,
    is_int,
)
from whet.compiler.tir.layouts.index_digits import Digits, as_sums, digits_of
from whet.compiler.tir.ops import ops
from whet.compiler.tir.printer import expr_text
from whet.compiler.tir.visit.rewrite import substitute


class IndexMap:
    """A map from the indices of an element to those of its place.

    >>> m = tir.IndexMap.from_func(lambda n, c, h: [n, c // 4, h, c % 4])
    >>> m
    IndexMap(lambda n, c, h: [n, c // 4, h, c % 4])
    >>> [int(d) for d in m.map_shape([2, 8, 5])], [int(i) for i in m.map_indices([1, 6, 3])]
    ([2, 2, 5, 4], [1, 1, 3, 2])
    >>> m.inverse([2, 8, 5])
    IndexMap(lambda axis0, axis1, axis2, axis3: [axis0, axis1 * 4 + axis3, axis2])

    Attributes:
        initial_indices: the variables of the indices that it takes.
        final_indices: what it gives.
        inverse_index_map: what was given as its inverse; None if nothing was.
        axis_separators: the dimensions before which its function gave a separator.
    """

    AXIS_SEPARATOR = "axis_separator"
    """Among the indices that a function gives: the dimensions before and after it are apart."""

    def __init__(
        self,
        initial_indices: Sequence[Var],
        final_indices: Sequence[Any],
        inverse_index_map: IndexMap | None = None,
    ) -> None:
        self.initial_indices = tuple(initial_indices)
        self.final_indices = tuple(ops.convert(x) for x in final_indices)
        self.inverse_index_map = inverse_index_map
        self.axis_separators: tuple[int, ...] = ()

    @staticmethod
    def from_func(
        mapping_function: Callable[..., Any],
        ndim: int | None = None,
        inverse_index_map: IndexMap | Callable[..., Any] | None = None,
    ) -> IndexMap:
        """The map that a function makes of its parameters.

        Args:
            mapping_function: takes indices, gives a list of them.
            ndim: how many it takes, where it takes ``*indices``.
            inverse_index_map: its inverse, where that does not follow from it.

        Raises:
            ArgumentError: for ``**keywords``, ``*indices`` without ``ndim``, no list, a separator.
        """
        made, separators = IndexMap.from_func_with_separators(
            mapping_function, ndim, inverse_index_map
        )
        if separators:
            raise ArgumentError(
                "IndexMap.from_func(...)",
                "the function gives an AXIS_SEPARATOR",
                "IndexMap.from_func_with_separators",
            )
        return made

    @staticmethod
    def from_func_with_separators(
        mapping_function: Callable[..., Any],
        ndim: int | None = None,
        inverse_index_map: IndexMap | Callable[..., Any] | None = None,
    ) -> tuple[IndexMap, list[int]]:
        """The map that a function makes, and before which dimensions a separator stands.

        Raises:
            ArgumentError: as :meth:`from_func`, but for separators.
        """
        request = "IndexMap.from_func(...)"
        args, named = _parameters(mapping_function, ndim, request)
        given = mapping_function(*args, **named)
        if not isinstance(given, (list, tuple)):
            raise ArgumentError(
                request, f"the function gives a {type(given).__name__}, no list of indices"
            )
        final: list[PrimExpr] = []
        separators: list[int] = []
        for x in given:
            if isinstance(x, str) and x == IndexMap.AXIS_SEPARATOR:
                separators.append(len(final))
                continue
            final.append(_index(x, request))
        inverse = inverse_index_map
        if callable(inverse):
            inverse = IndexMap.from_func(inverse, len(final))
        made = IndexMap([*args, *named.values()], final, inverse)
        made.axis_separators = tuple(separators)
        return made, separators

    def map_indices(self, indices: Sequence[Any]) -> list[PrimExpr]:
        """The place of an element.

        Raises:
            ArgumentError: unless there is one index for each that the map takes.
        """
        self._check_count(indices, "map_indices")
        given = dict(zip(self.initial_indices, map(ops.convert, indices)))
        return [_folded(x, given) for x in self.final_indices]

    def map_shape(self, shape: Sequence[Any]) -> list[PrimExpr]:
        """The extents of the places of all elements; where a block has a rest, it is whole.

        Raises:
            ArgumentError: if the map does not take indices apart into digits, each used once.
        """
        digits = self.digits(shape, "map_shape")
        extents: dict[int, PrimExpr] = dict(enumerate(ops.convert(_extent(x)) for x in shape))
        for k in digits.ones:
            extents[k] = ops.const(1)
        for s in digits.steps:
            if s.splits:
                inner = digits.extents[s.inner]
                assert inner is not None
                given = ops.const(inner, extents[s.parent].dtype)
                rounded = ops.add(extents[s.parent], ops.subtract(given, 1))
                extents[s.inner], extents[s.outer] = given, ops.floordiv(rounded, given)
            else:
                extents[s.parent] = ops.multiply(extents[s.outer], extents[s.inner])
        return [extents[k] for k in digits.final]

    def inverse(self, shape: Sequence[Any]) -> IndexMap:
        """The map from places back to indices.

        Args:
            shape: the extents of the indices: integers, ranges or expressions.

        Raises:
            ArgumentError: if some places have no element.
        """
        if self.inverse_index_map is not None:
            return self.inverse_index_map
        made, outside = self.non_surjective_inverse(shape)
        if not is_int(outside, 0):
            raise ArgumentError(
                self._request("inverse", shape),
                f"{expr_text(outside)} are places without an element: the extents do not divide",
                "non_surjective_inverse",
            )
        return made

    def non_surjective_inverse(self, shape: Sequence[Any]) -> tuple[IndexMap, PrimExpr]:
        """The map from places back to indices, and the condition of places without an element.

        Raises:
            ArgumentError: if the map does not take indices apart into digits, each used once.
        """
        digits = self.digits(shape, "inverse")
        taken = [Var(f"axis{k}", "int32") for k in range(len(digits.final))]
        values: dict[int, PrimExpr] = dict(zip(digits.final, taken))
        outside: list[PrimExpr] = []
        for s in reversed(digits.steps):
            inner = digits.extents[s.inner]
            if s.splits:
                assert inner is not None
                scaled = ops.multiply(values[s.outer], inner)
                values[s.parent] = ops.add(scaled, values[s.inner])
                if digits.has_rest(s) and s.parent < len(shape):
                    whole = ops.convert(_extent(shape[s.parent]))
                    outside.append(ops.compare(GE, values[s.parent], whole))
            else:
                assert inner is not None  # only the outermost extent may be a symbol
                values[s.outer] = ops.floordiv(values[s.parent], inner)
                values[s.inner] = ops.floormod(values[s.parent], inner)
        out = IndexMap(taken, [values[k] for k in range(len(self.initial_indices))])
        return out, ops.any_of(*outside) if outside else ops.const(False)

    def is_equivalent_to(self, other_map: IndexMap) -> bool:
        """True if both give the same places."""
        counts = [(len(m.initial_indices), len(m.final_indices)) for m in (self, other_map)]
        if counts[0] != counts[1]:
            return False
        return self._written() == other_map._written()

    def _written(self) -> tuple[Any, ...]:
        """The places as sums of digits; as text where they are none."""
        try:
            return tuple(as_sums(self.initial_indices, self.final_indices))
        except ArgumentError:
            same = {v: Var(f"i{k}", v.dtype) for k, v in enumerate(self.initial_indices)}
            return tuple(expr_text(substitute(x, same)) for x in self.final_indices)

    def digits(self, shape: Sequence[Any], method: str) -> Digits:
        """The map as splits and fusions of indices with these extents.

        Args:
            shape: the extents of the indices: integers or expressions.
            method: what asks, for errors.

        Raises:
            ArgumentError: if it does not take indices apart into digits, each used once.
        """
        self._check_count(shape, method)
        extents = [int_value(ops.convert(x)) for x in map(_extent, shape)]
        request = self._request(method, shape)
        return digits_of(self.initial_indices, self.final_indices, extents, request)

    def _request(self, method: str, given: Sequence[Any]) -> Text:
        return lambda: f"{self}.{method}([{', '.join(_shown(x) for x in given)}])"

    def _check_count(self, given: Sequence[Any], method: str) -> None:
        if len(given) != len(self.initial_indices):
            raise ArgumentError(
                self._request(method, given),
                f"the map takes {len(self.initial_indices)} indices, {len(given)} were given",
            )

    def __repr__(self) -> str:
        taken = ", ".join(v.name for v in self.initial_indices)
        return f"IndexMap(lambda {taken}: [{', '.join(map(expr_text, self.final_indices))}])"


_OPERATORS = {
    Add: ops.add,
    Sub: ops.subtract,
    Mul: ops.multiply,
    FloorDiv: ops.floordiv,
    FloorMod: ops.floormod,
}


def _folded(x: PrimExpr, given: Mapping[Var, PrimExpr]) -> PrimExpr:
    """An expression with values for its variables; numbers are computed."""
    build = _OPERATORS.get(type(x)) if isinstance(x, BinaryOp) else None
    if build is None or not isinstance(x, BinaryOp):
        return substitute(x, dict(given))
    return build(_folded(x.a, given), _folded(x.b, given))


def _extent(x: Any) -> Any:
    return x.extent if isinstance(x, Range) else x


def _shown(x: Any) -> str:
    return expr_text(x) if isinstance(x, PrimExpr) else str(x)


def _index(x: Any, request: Text) -> PrimExpr:
    out = ops.convert(x)
    if not out.dtype.startswith("int"):
        raise ArgumentError(request, f"the function gives {_shown(out)}, no integer")
    return out


def _parameters(
    function: Callable[..., Any], ndim: int | None, request: str
) -> tuple[list[Var], dict[str, Var]]:
    """Variables for a function's parameters: those by place, and those by name."""
    if not callable(function):
        raise ArgumentError(request, f"a {type(function).__name__} is no function of indices")
    args: list[Var] = []
    named: dict[str, Var] = {}
    several = ""
    for name, p in inspect.signature(function).parameters.items():
        if p.kind is p.VAR_KEYWORD:
            raise ArgumentError(request, f"the function takes **{name}; an index has a place")
        if p.kind is p.VAR_POSITIONAL:
            several = name
        elif p.kind is p.KEYWORD_ONLY:
            named[name] = Var(name, "int32")
        else:
            args.append(Var(name, "int32"))
    if several:
        if ndim is None:
            raise ArgumentError(request, f"the function takes *{several}", "say how many: ndim=4")
        args += [Var(f"{several}_{k}", "int32") for k in range(ndim - len(args) - len(named))]
    if ndim is not None and len(args) + len(named) != ndim:
        raise ArgumentError(
            request, f"the function takes {len(args) + len(named)} indices, and there are {ndim}"
        )
    return args, named
