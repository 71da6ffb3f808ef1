"""A part of a graph whose sizes stay open: one model for all of them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import torch

from whet.autotune.models.open_kernels import NeedsNumbers
from whet.compiler.graph import Graph, GraphBuilder
from whet.compiler.graph.symbolic.sizes import Dynamic
from whet.frontends.compile import compile, compile_family
from whet.frontends.dynamo.part import DTYPES, Key, Part, key_of, laid_out
from whet.frontends.dynamo.partition import cause
from whet.frontends.dynamo.report import Report
from whet.frontends.dynamo.symbols import Ranges, places_of, sizes_in
from whet.frontends.symbols import Family
from whet.frontends.torch.operators.arrays import as_array
from whet.frontends.torch.sizes import Symbol, at_sizes, symbols_of, without_data
from whet.frontends.torch.translation import Translation, outputs_of

_MOST_LAYOUTS = 256  # sets of sizes whose results' layouts are known


class NotOpen(Exception):
    """Sizes of a part cannot stay open.

    Args:
        why: in words.
        nodes: the names of nodes that have no kernel for any size; empty: it is not known which.

    Attributes:
        number: of the attempt that it ended.
    """

    def __init__(self, why: str, nodes: Collection[str] = ()) -> None:
        super().__init__(why)
        self.why, self.nodes = why, set(nodes)
        self.number = 0


class _Stays(Exception):
    """A part has no model for any sizes, and others have: PyTorch runs it."""


class Outgrown(Exception):
    """A call's sizes are beyond the ranges that a part is compiled for."""


class OpenPart(Part):
    """A part of a graph for any sizes of some ranges, compiled when it is called first.

    Args:
        part, given, constants, options, report: as of a :class:`Part`.
        ranges: of the graph's symbols.
        fixed: symbols that are numbers in it.
        number: of the attempt to leave sizes open.
    """

    def __init__(
        self,
        part: Any,
        given: Sequence[bool],
        constants: Collection[Key],
        options: dict[str, Any],
        report: Report,
        ranges: Ranges,
        fixed: Mapping[Symbol, int],
        number: int,
    ) -> None:
        super().__init__(part, given, constants, options, report)
        self.number = number
        self.ranges, self.fixed = ranges, dict(fixed)
        self.taken: list[int] = []
        self.places: dict[Symbol, tuple[int, int | None]] = {}
        self.built: dict[Symbol, Dynamic] = {}
        self.known: dict[tuple[int, ...], list[torch.Tensor]] = {}

    def forward(self, *args: Any) -> Any:
        """The part's results.

        Raises:
            NotOpen: it has no model for any sizes.
            Outgrown: its model is for other sizes.
        """
        self._tried_with(args)
        model = self.model
        if model is None:
            return self.part(*args)
        sizes = sizes_in(self.places, args)
        if any(sizes[s] not in r for s, r in self.built.items()):
            raise Outgrown
        metas = self._layouts(sizes)
        try:
            made = [torch.empty(m.shape, dtype=DTYPES[v.dtype])
                    for m, v in zip(metas, model.outputs)]  # fmt: skip
            model.run([as_array(args[k]) for k in self.taken], [as_array(x) for x in made])
        except Exception as error:  # a part changes nothing: PyTorch can begin it again
            self.model = None
            self._stays(error)
            return self.part(*args)
        found = [laid_out(x, meta) for x, meta in zip(made, metas)]
        return found[0] if self.single else found

    def _layouts(self, sizes: Mapping[Symbol, int]) -> list[torch.Tensor]:
        """The shapes and strides of the results, as tensors without data."""
        key = tuple(sizes.values())
        found = self.known.get(key)
        if found is None:
            if len(self.known) >= _MOST_LAYOUTS:
                self.known.clear()
            numbers = {**self.fixed, **sizes}
            found = self.known[key] = [without_data(m, numbers) for m in self.metas]
        return found

    def _try(self, args: Sequence[Any]) -> None:
        try:
            self.model = self._compiled(args)
        except _Stays as error:
            self._stays(error)
        except Exception as error:  # whatever it is: with numbers for its sizes it may be
            made = error.values if isinstance(error, NeedsNumbers) else ()
            # values are named by their nodes, several of a node with numbers behind a dot
            names = {v.partition(".")[0] for v in made}
            known = {n.name for n in self.part.graph.nodes}
            refused = NotOpen(cause(error), names & known)
            refused.number = self.number
            raise refused from error

    def _compiled(self, args: Sequence[Any]) -> Any:
        nodes = list(self.part.graph.nodes)
        placeholders = [n for n in nodes if n.op == "placeholder"]
        constants: dict[Any, Any] = {}
        self.taken = []
        for k, (node, x) in enumerate(zip(placeholders, args)):
            if isinstance(x, torch.Tensor):
                if self.given[k] and key_of(x) in self.constants:
                    constants[node] = as_array(x)
                else:
                    self.taken.append(k)
        (returned,) = next(n for n in nodes if n.op == "output").args
        self.single = not isinstance(returned, (list, tuple))
        results = [returned] if self.single else list(returned)
        self.metas = [n.meta.get("val") for n in results]
        inside = symbols_of([n.meta.get("val") for n in nodes]) - self.fixed.keys()
        metas = [n.meta.get("val") for n in placeholders]
        places = places_of([m if k in self.taken else None for k, m in enumerate(metas)])
        missing = inside - places.keys()
        if missing:
            said = ", ".join(self.ranges.names[s] for s in missing)
            raise _Stays(f"{said} is no size of the part's own inputs")
        self.places = {s: places[s] for s in places if s in inside}

        def at(numbers: Mapping[Symbol, int]) -> Graph:
            return self._graph({**self.fixed, **numbers}, constants)

        if not inside:
            return compile(at({}), **self.options)
        names = self.ranges.names
        self.built = self.ranges.of(inside)
        ranges = {names[s]: r for s, r in self.built.items()}
        symbols = {names[s]: s for s in inside}
        family = Family(lambda sizes: at({symbols[n]: k for n, k in sizes.items()}), ranges)
        return compile_family(family, **self.options)

    def _graph(self, numbers: Mapping[Symbol, int], constants: Mapping[Any, Any]) -> Graph:
        """The part's graph for some sizes."""
        graph, became = at_sizes(self.part.graph, numbers)
        known = {became[node]: array for node, array in constants.items()}
        work = Translation(GraphBuilder())
        returned: Any = None
        for node in graph.nodes:
            if node.op == "call_function":
                work.run(node)
            elif node.op == "output":
                (returned,) = node.args
            elif node in known:
                work.values[node] = work.builder.constant(known[node], node.name)
            else:
                work.input(node)
        results = [returned] if self.single else list(returned)
        return work.builder.graph(outputs_of(work, results))
