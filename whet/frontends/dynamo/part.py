"""A part of a graph as a model; PyTorch runs it where that cannot be."""

from __future__ import annotations

import logging
import threading
from collections.abc import Collection, Sequence
from typing import Any

import torch

from whet.compiler.graph import GraphBuilder
from whet.compiler.graph.model import Model
from whet.frontends.compile import compile
from whet.frontends.dynamo.partition import cause
from whet.frontends.dynamo.report import Report
from whet.frontends.torch.operators.arrays import as_array
from whet.frontends.torch.translation import Translation, outputs_of

_LOG = logging.getLogger("whet.torch")
DTYPES = {str(d).removeprefix("torch."): d for d in vars(torch).values() if type(d) is torch.dtype}

Key = tuple[tuple[int, ...], tuple[int, ...], int]


def key_of(x: torch.Tensor) -> Key:
    """Shape, strides and address of a tensor."""
    return tuple(x.shape), x.stride(), x.data_ptr()


class Part(torch.nn.Module):
    """A part of a graph, compiled when it is called first: then its constants are known.

    Args:
        part: its nodes.
        given: for each of its arguments whether the whole graph is given it.
        constants: the tensors that are constants, among those that are given.
        options: of ``torch.compile``.
        report: is told if it cannot be compiled.
    """

    def __init__(
        self,
        part: Any,
        given: Sequence[bool],
        constants: Collection[Key],
        options: dict[str, Any],
        report: Report,
    ) -> None:
        super().__init__()
        self.part, self.given, self.constants = part, given, constants
        self.options, self.report = options, report
        self.model: Any = None
        self.tried = False
        self.lock = threading.Lock()

    def forward(self, *args: Any) -> Any:
        """The part's results."""
        self._tried_with(args)
        model = self.model
        if model is None:
            return self.part(*args)
        try:
            made = [torch.empty(v.shape, dtype=DTYPES[v.dtype]) for v in model.outputs]
            model.run([as_array(args[k]) for k in self.taken], [as_array(x) for x in made])
        except Exception as error:  # a part changes nothing: PyTorch can begin it again
            self.model = None
            self._stays(error)
            return self.part(*args)
        found = [laid_out(x, meta) for x, meta in zip(made, self.metas)]
        return found[0] if self.single else found

    def _tried_with(self, args: Sequence[Any]) -> None:
        """Compile the part if this is its first call; one thread does."""
        if not self.tried:
            with self.lock:
                if not self.tried:
                    self._try(args)
                    self.tried = True

    def _try(self, args: Sequence[Any]) -> None:
        try:
            self.model = self._compiled(args)
        except Exception as error:  # whatever it is: what eager PyTorch can do is done
            self._stays(error)

    def _stays(self, error: Exception) -> None:
        self.report.stayed["a part"] = cause(error)
        _LOG.warning("a part stays in PyTorch: %s", str(error) or type(error).__name__)

    def _compiled(self, args: Sequence[Any]) -> Model:
        work = Translation(GraphBuilder())
        nodes = list(self.part.graph.nodes)
        self.taken: list[int] = []
        placeholders = [n for n in nodes if n.op == "placeholder"]
        for k, (node, x) in enumerate(zip(placeholders, args)):
            is_known = not isinstance(x, torch.Tensor) or (
                self.given[k] and key_of(x) in self.constants
            )
            if is_known:
                work.constant(node, x)
            else:
                work.input(node)
                self.taken.append(k)
        for node in nodes:
            if node.op == "call_function":
                work.run(node)
        (returned,) = next(n for n in nodes if n.op == "output").args
        self.single = not isinstance(returned, (list, tuple))
        results = [returned] if self.single else list(returned)
        self.metas = [n.meta.get("val") for n in results]
        graph = work.builder.graph(outputs_of(work, results))
        model: Model = compile(graph, **self.options)
        return model


def laid_out(x: torch.Tensor, meta: Any) -> torch.Tensor:
    """A result with the strides that PyTorch gives it, as a view that follows asks for them."""
    if not isinstance(meta, torch.Tensor) or meta.is_contiguous() or meta.stride() == x.stride():
        return x
    strides = meta.stride()
    for k, (d, stride) in enumerate(zip(x.shape, strides)):  # what is expanded is there once
        if stride == 0 and d > 1:
            x = x.narrow(k, 0, 1)
    made = torch.empty_strided(x.shape, strides, dtype=x.dtype)
    return made.copy_(x).expand(meta.shape)
