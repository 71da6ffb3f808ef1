"""Sizes that stay symbols: which a model has, and its graph for each number of them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from whet.compiler.errors import ArgumentError
from whet.compiler.graph.ir import Graph
from whet.compiler.graph.symbolic.sizes import Dynamic, Sizes, dynamic

_MOST = 1 << 40  # no memory has as many elements: such a bound is none


@dataclass(frozen=True)
class Family:
    """The graphs of a model, one for each of the sizes of some ranges.

    Attributes:
        at: gives the graph as the model's file has it, for sizes.
        ranges: symbol -> its range.
    """

    at: Callable[[Sizes], Graph]
    ranges: Mapping[str, Dynamic]


def open_sizes(
    who: str,
    model: Any,
    shapes: Any,
    constants: Mapping[str, np.ndarray] | None,
    inputs: Sequence[Any] | None,
) -> Family | None:
    """The graphs of a model with symbols; None where all its sizes are numbers.

    Args:
        who: the function that was called.
        model, shapes, constants, inputs: as of :func:`whet.compile`.

    Raises:
        ArgumentError: a symbol has no bound, or stands where none may.
    """
    from whet.frontends.torch.importer import Decomposed, is_module, is_program

    if not has_ranges(shapes):
        return _of_program(who, model) if shapes is None and is_program(model) else None
    if not isinstance(shapes, Mapping):
        raise ArgumentError(
            f"{who}(shapes=[...])", "a size of a bucket is a number",
            "shapes={'batch': whet.dynamic(1, 64)} alone",
        )  # fmt: skip
    if isinstance(model, Graph) or is_module(model):
        why = "a graph has its sizes" if isinstance(model, Graph) else "a module has its inputs'"
        raise ArgumentError(
            f"{who}(..., shapes={dict(shapes)})", why,
            "torch.export.export(module, inputs, dynamic_shapes=...) leaves sizes open",
        )  # fmt: skip
    names: dict[Dynamic, str] = {}
    for name, k, size in _sizes(shapes):
        if isinstance(size, Dynamic):
            names.setdefault(size, name if k is None else f"{name}[{k}]")
    ranges = {name: size for size, name in names.items()}

    def numbers(given: Any, sizes: Sizes) -> Any:
        if isinstance(given, Dynamic):
            return sizes[names[given]]
        return [numbers(x, sizes) for x in given] if isinstance(given, list | tuple) else given

    def bound(sizes: Sizes) -> dict[str, Any]:
        return {name: numbers(given, sizes) for name, given in shapes.items()}

    if is_program(model):
        decomposed = Decomposed(model)
        return Family(lambda sizes: decomposed.graph(bound(sizes)), ranges)
    if inputs is not None:
        raise ArgumentError(f"{who}(..., inputs=...)", "example inputs are for a torch.nn.Module")
    from whet.frontends.onnx.file import loaded
    from whet.frontends.onnx.importer import from_onnx

    proto = loaded(model, who)
    _check_alone(who, shapes, {i.name for i in proto.graph.input})
    return Family(lambda sizes: from_onnx(proto, bound(sizes), constants), ranges)


def has_ranges(shapes: Any) -> bool:
    """True where a size in what names some stays a symbol."""
    return any(isinstance(x, Dynamic) for _, _, x in _sizes(shapes))


def _check_alone(who: str, shapes: Mapping[str, Any], inputs: Collection[str]) -> None:
    """Refuse several sizes of a dimension beside a range.

    Args:
        who: the function that was called.
        shapes: names -> sizes, of which one is a range.
        inputs: the names of the model's, whose sizes are a shape.

    Raises:
        ArgumentError: there are some.
    """
    for name, given in shapes.items():
        several = isinstance(given, list | tuple)
        if several and (name not in inputs or any(isinstance(x, list | tuple) for x in given)):
            flat = [x for x in given if not isinstance(x, list | tuple)]
            ends = [(x.low, x.high) if isinstance(x, Dynamic) else (x, x) for x in flat]
            whole = dynamic(min(a for a, _ in ends), max(b for _, b in ends)) if ends else 1
            raise ArgumentError(
                f"{who}(shapes={{{name!r}: {given!r}}})",
                "each of its sizes is compiled by itself, which a range of sizes is not",
                f"shapes={{{name!r}: {whole!r}}}, or numbers for all sizes",
            )


def _sizes(shapes: Any) -> Iterator[tuple[str, int | None, Any]]:
    """The sizes in what names some: the name, the place in a shape, the size."""
    if isinstance(shapes, Mapping):
        for name, given in shapes.items():
            if isinstance(given, list | tuple):
                yield from ((name, k, x) for k, x in enumerate(given))
            else:
                yield name, None, given
    elif isinstance(shapes, list | tuple):
        for one in shapes:
            yield from _sizes(one)


def _of_program(who: str, program: Any) -> Family | None:
    """The graphs of an exported program whose own sizes are open; None: none is.

    Raises:
        ArgumentError: a size has no upper bound.
    """
    from whet.frontends.torch.importer import Decomposed
    from whet.frontends.torch.sizes import name_of

    metas = {n.name: n.meta["val"] for n in program.graph.nodes if n.op == "placeholder"}
    inputs = {
        name: metas[name].shape
        for name in program.graph_signature.user_inputs
        if hasattr(metas.get(name), "shape")
    }
    dims = [
        (f"{name}[{k}]", d)
        for name, shape in inputs.items()
        for k, d in enumerate(shape)
        if not isinstance(d, int)
    ]
    ranges: dict[str, Dynamic] = {}
    symbols: dict[Any, _Steps] = {}
    for place, d in sorted(dims, key=lambda one: not one[1].node.expr.is_Symbol):
        for s in d.node.expr.free_symbols - symbols.keys():
            r = program.range_constraints[s]
            if str(r.upper) in ("int_oo", "oo") or int(r.upper) > _MOST:
                raise ArgumentError(
                    f"{who}(program)", f"a size of {place}, {name_of(d, s)}, has no upper bound",
                    "torch.export.Dim('batch', min=1, max=64), or shapes={'x': (8, 3)}",
                )  # fmt: skip
            steps = symbols[s] = _steps(place, d, s)
            ranges[steps.name] = steps.range(int(r.lower), int(r.upper))
    if not ranges:
        return None

    def bound(sizes: Sizes) -> dict[str, Any]:
        numbers = {s: steps.number(sizes[steps.name]) for s, steps in symbols.items()}
        return {
            name: [d if isinstance(d, int) else int(d.node.expr.subs(numbers)) for d in shape]
            for name, shape in inputs.items()
        }

    decomposed = Decomposed(program)
    return Family(lambda sizes: decomposed.graph(bound(sizes)), ranges)


@dataclass(frozen=True)
class _Steps:
    """A size that a symbol of a program counts the steps of: ``step * s + first``.

    Attributes:
        name: of the size.
        step, first: as above.
    """

    name: str
    step: int = 1
    first: int = 0

    def number(self, size: int) -> int:
        """The symbol's number where the size is this."""
        return (size - self.first) // self.step

    def range(self, low: int, high: int) -> Dynamic:
        """The sizes, at least 1, where the symbol is between two numbers."""
        low = max(low, -((self.first - 1) // self.step))
        return Dynamic(low * self.step + self.first, high * self.step + self.first, self.step)


def _steps(place: str, size: Any, s: Any) -> _Steps:
    """The size that is found from a symbol: itself, or a dimension that is some steps of it.

    Args:
        place: the dimension's, as ``x[2]``.
        size: the dimension; symbols that are one come first.
        s: a symbol in it.
    """
    from whet.frontends.torch.sizes import name_of, steps_of

    expr = size.node.expr
    line = None if expr.is_Symbol else steps_of(expr, s)
    if line is None:
        return _Steps(name_of(size, s))
    first, step = line
    return _Steps(place, step, first)
