"""A graph of dynamo whose sizes stay open: traced once, its parts compiled for all sizes."""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import torch
from torch._functorch.aot_autograd import aot_module_simplified, make_boxed_func

from whet.frontends.dynamo.aliases import views_apart
from whet.frontends.dynamo.open_part import NotOpen, OpenPart
from whet.frontends.dynamo.part import Key
from whet.frontends.dynamo.partition import partitioned
from whet.frontends.dynamo.report import Report
from whet.frontends.dynamo.symbols import Ranges, places_of, sizes_in
from whet.frontends.torch.importer import decompositions
from whet.frontends.torch.sizes import Symbol, at_sizes
from whet.search_spaces.values.counted import counted

_NO_SIZE = "it is a number, and no size of an input"
_MOST_REFUSED = 4  # attempts that end at nodes without a kernel


class OpenGraph:
    """A graph of ATen operators with symbols for sizes.

    To be made while dynamo compiles: its symbols are dynamo's, and what the trace finds out about
    them is checked by dynamo before each call.

    Args:
        module: a graph of dynamo.
        inputs: what dynamo gives the backend.

    Attributes:
        places: symbol -> where a call's arguments have its number.
        ranges: of the symbols.
        fixed: symbols that are numbers in each program -> why.
        left_out: names of nodes that have no kernel for any size -> why.
        attempts: so many times it was tried with other sizes open.
    """

    def __init__(self, module: Any, inputs: Sequence[Any]) -> None:
        self._running = threading.local()
        self._graph: Any = None
        metas = [n.meta.get("example_value") for n in module.graph.find_nodes(op="placeholder")]
        self.places = places_of(metas)
        traced: Any = self._traced  # of fewer words than its type in PyTorch
        with torch.no_grad():
            self._call = aot_module_simplified(
                module, list(inputs), fw_compiler=traced, bw_compiler=traced,
                inference_compiler=traced, decompositions=dict(decompositions(torch).items()),
            )  # fmt: skip
        envs: list[Any] = [x.node.shape_env for x in _symbolic(metas)]
        self._first = {s: int(_first_size(envs[0], s)) for s in self.places}
        sizes = {d.node.expr for m in metas if isinstance(m, torch.Tensor) for d in _symbolic([m])}
        self.ranges = Ranges(envs[0], self._first, sizes)
        self.fixed: dict[Symbol, str] = dict.fromkeys(self.places.keys() - sizes, _NO_SIZE)
        self.left_out: dict[str, str] = {}
        self.attempts = 0
        each: list[Any] = [m.shape[0] for m in metas if isinstance(m, torch.Tensor) and m.ndim]
        first = {d.node.expr for d in each if isinstance(d, torch.SymInt)}
        self._inner = self.places.keys() - first  # no batches
        self._refused: list[set[str]] = []  # nodes, at each attempt

    def _traced(self, graph: Any, _: Any) -> Any:
        self._graph = graph
        return make_boxed_func(lambda *args: self._running.program(*args))

    def key(self, args: Sequence[Any]) -> tuple[int, ...]:
        """What of a call's sizes tells programs apart: the numbers of fixed symbols."""
        own = {s: place for s, place in self.places.items() if s in self.fixed}
        return tuple(sizes_in(own, args).values())

    def narrow(self, error: NotOpen) -> str:
        """Let less be open: at first batches alone are, then nodes stay in PyTorch, then nothing.

        Args:
            error: of the attempt before.

        Returns:
            What is not open any more, in words.
        """
        self.attempts += 1
        self._refused.append(error.nodes)
        if len(self._refused) == 1 and self._inner - self.fixed.keys():
            return self._fix(self._inner, error.why)
        all_open, nodes = self._refused[0], self._refused[-1]
        if len(self._refused) > _MOST_REFUSED or not nodes:
            return self._fix(self.places, error.why)
        if not self.left_out and all_open and all_open <= nodes:  # batches alone gain nothing
            self.fixed = {s: why for s, why in self.fixed.items() if s not in self._inner}
            nodes = all_open
        self.left_out.update(dict.fromkeys(nodes, error.why))
        return counted(len(nodes), "operator")

    def _fix(self, symbols: Collection[Symbol], why: str) -> str:
        """Let symbols be numbers from now on; their names."""
        more = [s for s in self.places if s in symbols and s not in self.fixed]
        self.fixed.update(dict.fromkeys(more, why))
        return ", ".join(self.ranges.names[s] for s in more)

    def said(self) -> dict[str, str]:
        """The sizes that are numbers, and why."""
        return {self.ranges.names[s]: why for s, why in self.fixed.items()}

    @property
    def is_open(self) -> bool:
        """True while some symbol is no number."""
        return bool(self.places.keys() - self.fixed.keys())

    def text(self) -> str:
        """The ranges in words."""
        return self.ranges.text(self.places.keys() - self.fixed.keys())

    def program(
        self, args: Sequence[Any], constants: Collection[Key], options: dict[str, Any],
        report: Report,
    ) -> Callable[..., Any]:  # fmt: skip
        """The graph with compiled parts, which takes all arguments.

        Args:
            args: a call's, whose sizes are those of the fixed symbols.
            constants: of the tensors that are constants.
            options: of ``torch.compile``.
            report: is told what stays, and why.
        """
        sizes = sizes_in(self.places, args)
        numbers = {s: n for s, n in sizes.items() if s in self.fixed}
        module = copy.copy(self._graph)
        module.graph = copy.deepcopy(self._graph.graph)
        views = views_apart(module.graph)
        _, became = at_sizes(module.graph, sizes)
        made = partitioned(
            module,
            lambda part, given: OpenPart(
                part, given, constants, options, report, self.ranges, numbers, self.attempts
            ),
            report,
            became,
            self.left_out,
            views,
        )

        def run(*given: Any) -> Any:
            self._running.program = made.forward
            return self._call(*given)

        return run


def _symbolic(metas: Sequence[Any]) -> list[Any]:
    """The sizes that are symbols."""
    each = [list(m.shape) if isinstance(m, torch.Tensor) else [m] for m in metas]
    found: list[Any] = [d for shape in each for d in shape]
    return [d for d in found if isinstance(d, torch.SymInt)]


def _first_size(env: Any, s: Symbol) -> Any:
    """The number that a symbol has in the first call."""
    known: Mapping[Symbol, Any] = getattr(env, "backed_var_to_val", None) or env.var_to_val
    return known[s]
