"""Peers: the same work by the libraries that are here, in every way that may be their best."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from whet.bench.turns import numpy_threads
from whet.compiler.installed import install_extra

if TYPE_CHECKING:
    import numpy as np

    from whet.autotune import Task

Call = Callable[[], Any]


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
            packed: whether ``make`` packs the weights.
        """
        try:
            call = make()
            call()
        except Exception as error:  # whatever a library throws, the others are compared
            said = str(error).strip().splitlines() or [type(error).__name__]
            self.left_out.append(f"{name}: {said[0][:160]}")
            return
        self.calls[name] = call
        if packed:
            self.packed.add(name)


def peers_of(
    task: Task, inputs: Sequence[np.ndarray], threads: int = 1, compiled: bool = True
) -> Peers:
    """What is installed here and can do a task's work.

    Args:
        task: made from a named template; one that no peer knows has none.
        inputs: the kernel's inputs, with weights as they are before they are packed.
        threads: how many PyTorch may use.
        compiled: whether ``torch.compile`` is tried, which takes seconds an operator.
    """
    found = Peers()
    if numpy_threads() == threads:
        from whet.bench.peers.numpy_peers import add_numpy

        add_numpy(found, task, inputs)
    else:
        found.left_out.append(f"numpy: its library was not started with threads={threads}")
    if find_spec("torch") is None:
        found.left_out.append(f"torch: PyTorch is not installed: {install_extra('bench')}")
    else:
        from whet.bench.peers.torch_peers import add_torch

        add_torch(found, task, inputs, threads, compiled)
    return found
