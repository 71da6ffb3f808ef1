"""An operator's row: its reference, and the same work by other libraries."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

Array = Any
Tensor = Any
Call = Callable[[], Any]


@dataclass(frozen=True)
class Operator:
    """The functions of one operator; all but the reference may be missing.

    Attributes:
        reference: from the template's arguments and the inputs, in numpy and float64, to the
            result.
        numpy: from the same, as they are, to a call that does the work once.
        torch: adds ways to a :class:`TorchWays`, from it and the inputs as tensors.
        triton: from the arguments and tensors to a call; None where it cannot do them.
        onnx: from the words of `in_onnx`, the arguments and the names of the inputs to the results.
        channels: the axes that an epilogue's bias belongs to.
        back: from a result with the channels first, and the extent of the last dimension of ours,
            to the operator's own layout.
        front: from the arguments and the inputs to those with the channels first.
        weights: the places of inputs that a model holds.
    """

    reference: Callable[..., Array]
    numpy: Callable[..., Call] | None = None
    torch: Callable[..., None] | None = None
    triton: Callable[..., Call | None] | None = None
    onnx: Callable[..., Any] | None = None
    channels: tuple[int, ...] = (-1,)
    back: Callable[[Array, int], Array] = lambda result, block: result
    front: Callable[..., tuple[Array, ...]] = lambda a, *inputs: inputs
    weights: tuple[int, ...] = ()


@dataclass
class Peers:
    """Ways to do a task's work with other libraries.

    Attributes:
        calls: a name such as ``"torch channels_last"`` -> a function that does the work once and
            returns the result.
        packed: those of them that had their weights packed ahead.
        left_out: what could not be had, and why.
    """

    calls: dict[str, Call] = field(default_factory=dict)
    packed: set[str] = field(default_factory=set)
    left_out: list[str] = field(default_factory=list)

    def add(self, name: str, make: Callable[[], Call], packed: bool = False) -> None:
        """Make a peer and let it run once; where it cannot, that is noted.

        Args:
            name: the library, and the way.
            make: does what is done once, and returns the call.
            packed: True if ``make`` packs the weights.
        """
        try:
            call = make()
            call()
        except Exception as error:  # whatever a library throws, the others are compared
            lines = str(error).strip().splitlines() or [type(error).__name__]
            self.left_out.append(f"{name}: {lines[0][:160]}")
            return
        self.calls[name] = call
        if packed:
            self.packed.add(name)


def brought_by(epilogue: Sequence[Any]) -> int:
    """How many inputs the steps of an epilogue bring with them."""
    return sum(step in ("bias", "residual") for step in epilogue)


def after(
    x: Array,
    epilogue: Sequence[Any],
    brought: Sequence[Array],
    channels: tuple[int, ...],
    step_of: Callable[[str], Callable[..., Array]],
) -> Array:
    """``x`` after an epilogue, as a user writes it, in numpy or in PyTorch.

    Args:
        x: numpy's array or PyTorch's tensor.
        epilogue: the template's steps.
        brought: the inputs that they bring with them.
        channels: the axes that a bias belongs to.
        step_of: from the name of another step to its function of ``x`` and the step's arguments.
    """
    rest = iter(brought)
    for step in epilogue:
        name, *arguments = (step,) if isinstance(step, str) else step
        if name == "bias":
            axes = {k % x.ndim for k in channels}
            x = x + next(rest).reshape([n if k in axes else 1 for k, n in enumerate(x.shape)])
        elif name == "residual":
            x = x + next(rest)
        elif name == "clip":
            x = x.clip(*arguments)
        else:
            x = step_of(name)(x, *arguments)
    return x


def into(work: Callable[..., Array], *inputs: Array, **more: Any) -> Call:
    """A call of work that takes ``out=``, with an output that exists already."""
    out = work(*inputs, **more)
    return lambda: work(*inputs, out=out, **more)
