"""A compute graph beside its peers: written once over words that each library understands.

Nothing of whet is imported before it is needed: libraries read their settings first, and another
tree's whet may not have the words (`two_trees.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from whet.autotune import Task
    from whet.bench.operators.operator import Operator
    from whet.bench.operators.torch_ways import TorchWays
    from whet.compiler.target import Target

Tensor = Any
Shape = tuple[int, ...]
LEAST = 0.25
"""Of inputs that are positive, as variances are; the largest is 1."""


@dataclass(frozen=True)
class Graph:
    """A computation of float32 without a template.

    Attributes:
        word: for people: a part of the task's name.
        inputs: the shapes of the inputs.
        work: from words (`whet.bench.operators.in_numpy` has them all) and the inputs to the
            output, or several.
        weights: the places of inputs that a model holds.
        positive: the places of inputs whose numbers are positive.
        images: inputs of four dimensions are images, which PyTorch may have with the channels last.
    """

    word: str
    inputs: tuple[Shape, ...]
    work: Callable[..., Any]
    weights: tuple[int, ...] = ()
    positive: tuple[int, ...] = ()
    images: bool = False

    def task(self, target: Target | str) -> Task:
        """The task, whose space is derived from the graph."""
        from whet.autotune import create_task
        from whet.bench.operators import in_topi
        from whet.compiler import te

        inputs = []
        for k, shape in enumerate(self.inputs):
            limits = {"value_range": (LEAST, 1.0)} if k in self.positive else {}
            inputs.append(te.placeholder(shape, "float32", name=f"in{k}", **limits))
        outputs = _several(self.work(in_topi, *inputs))
        return create_task(self.word, [*inputs, *outputs], target, outputs=list(outputs))

    @property
    def operator(self) -> Operator:
        """Its row: the reference, and the ways of the others."""
        from whet.bench.operators import in_numpy
        from whet.bench.operators.operator import Operator

        return Operator(
            lambda a, *inputs: self.work(in_numpy, *inputs),
            torch=self._torch,
            onnx=lambda words, a, *inputs: self.work(words, *inputs),
            weights=self.weights,
        )

    def _torch(self, ways: TorchWays, *inputs: Tensor) -> None:
        """As they come and with the channels last; the weights are arguments, and frozen."""
        import torch

        from whet.bench.operators import in_torch

        layouts = {"": inputs}
        if self.images:
            last = torch.channels_last
            layouts["channels_last"] = tuple(
                x.contiguous(memory_format=last) if x.ndim == 4 else x for x in inputs
            )
        work = partial(self.work, in_torch)
        for name, given in layouts.items():
            ways.plain(work, *given, name=name)
        if self.weights:
            name, given = list(layouts.items())[-1]
            module = _module(work, self.weights, given)
            data = [x for k, x in enumerate(given) if k not in self.weights]
            ways.compiled(module, *data, name=f"frozen {name}".rstrip(), packed=True)


def _several(result: Any) -> tuple[Any, ...]:
    return tuple(result) if isinstance(result, tuple | list) else (result,)


def _module(work: Callable[..., Any], weights: tuple[int, ...], given: tuple[Tensor, ...]) -> Any:
    """A module of PyTorch that holds the weights, and is called with the rest."""
    import torch

    class Part(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.held = torch.nn.ParameterList(given[k] for k in weights)

        def forward(self, *data: Tensor) -> Any:
            rest, held = iter(data), dict(zip(weights, self.held))
            return work(*(held[k] if k in held else next(rest) for k in range(len(given))))

    return Part().eval()
